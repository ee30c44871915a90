#include "worker/transfer/pair_pauses.h"

#include <algorithm>
#include <string>

namespace roost::worker {

bool PairPauses::IsPaused(const PeerPlace& source, Instant now) const {
  const auto is_paused = [&](const PeerPlace& place) {
    const auto found = pairs_.find(place);
    return found != pairs_.end() && now < found->second.paused_until;
  };
  return is_paused(source) || is_paused({source.worker_id, ""});
}

void PairPauses::Distrust(const std::string& worker_id, Instant now) {
  PairOf({worker_id, ""}) = {.paused_until = now + kWrongPause};
}

std::optional<std::chrono::seconds> PairPauses::OnEnd(const PeerPlace& source, wire::HoldOutcome outcome, Instant now) {
  if (outcome == wire::HoldOutcome::kCancelled) return std::nullopt;  // this worker's own doing
  if (outcome == wire::HoldOutcome::kWrong) {
    PairOf(source) = {.paused_until = now + kWrongPause};
    return kWrongPause;
  }
  if (outcome != wire::HoldOutcome::kBroken) {
    pairs_.erase(source);
    return std::nullopt;
  }
  Pair& pair = PairOf(source);
  if (++pair.failure_count < kFailureCount) return std::nullopt;
  const std::chrono::seconds pause = std::max(pair.next_pause, kFirstPause);
  pair.next_pause = std::min(2 * pause, kLastPause);
  pair.paused_until = now + pause;
  return pause;
}

PairPauses::Pair& PairPauses::PairOf(const PeerPlace& source) {
  if (pairs_.size() == kMaxPairs && !pairs_.contains(source)) {
    pairs_.erase(std::min_element(pairs_.begin(), pairs_.end(), [](const auto& a, const auto& b) {
      return a.second.paused_until < b.second.paused_until;
    }));
  }
  return pairs_[source];
}

}  // namespace roost::worker
