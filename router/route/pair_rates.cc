#include "router/route/pair_rates.h"

#include <algorithm>

namespace roost::router {
namespace {

// The rate that an arrival shows: at least `least`, at most `most_bytes_per_second`.
struct Shown {
  PairRate least;
  double most_bytes_per_second = 0;
};

void Blend(std::optional<PairRate>& mean, const Shown& shown) {
  if (!mean) {
    mean = shown.least;
    return;
  }
  const double rate = std::clamp(mean->bytes_per_second, shown.least.bytes_per_second, shown.most_bytes_per_second);
  mean->start_seconds += PairRates::kNewShare * (shown.least.start_seconds - mean->start_seconds);
  mean->bytes_per_second += PairRates::kNewShare * (rate - mean->bytes_per_second);
}

std::optional<PairRate>& At(std::vector<std::optional<PairRate>>& means, WorkerSlot worker) {
  if (means.size() <= worker.value()) means.resize(worker.value() + std::size_t{1});
  return means[worker.value()];
}

std::optional<PairRate> In(const std::vector<std::optional<PairRate>>& means, WorkerSlot worker) {
  return worker.value() < means.size() ? means[worker.value()] : std::nullopt;
}

// Blocks after the first tell the rate, and the first one the start. All at once they tell only both together: then all
// of the time counts for the bytes. Behind a queue the start says nothing, and the link was shared
// while the blocks came: it is as fast as they were, and no faster than if all that was queued came in the same time.
// Only a part of that may have: what a report tells is old, and fetches take turns.
Shown RateOfArrival(const Arrival& arrival, double known_start) {
  const auto bytes = static_cast<double>(arrival.bytes);
  const double first_bytes = bytes / arrival.block_count;
  const double rest_seconds = arrival.seconds - arrival.first_block_seconds;
  const double all_bytes = bytes + arrival.queued_bytes;
  if (rest_seconds <= 0) {
    return {.least = {0, bytes / arrival.seconds}, .most_bytes_per_second = all_bytes / arrival.seconds};
  }
  const double rate = (bytes - first_bytes) / rest_seconds;
  if (arrival.queued_bytes > 0) {
    const double flowing = std::max(arrival.seconds - known_start, rest_seconds);
    return {.least = {known_start, rate}, .most_bytes_per_second = std::max(rate, all_bytes / flowing)};
  }
  return {.least = {std::max(0.0, arrival.first_block_seconds - first_bytes / rate), rate},
          .most_bytes_per_second = rate};
}

// Neither says anything of the pair.
bool IsNoFault(std::optional<wire::HoldOutcome> outcome) {
  return outcome == wire::HoldOutcome::kNoRoom || outcome == wire::HoldOutcome::kCancelled;
}

// A source that holds nothing of what it is asked for was asked in vain.
bool IsDone(std::optional<wire::HoldOutcome> outcome, std::uint32_t block_count) {
  return outcome == wire::HoldOutcome::kComplete || (outcome == wire::HoldOutcome::kMissing && block_count > 0);
}

}  // namespace

const PairRates::Pair* PairRates::Find(WorkerPair ends) const {
  const std::optional<std::uint32_t> slot = slots_.Find(KeyOf(ends));
  return slot ? &*places_[*slot] : nullptr;
}

void PairRates::Erase(std::list<Pair>::iterator pair) {
  const std::uint32_t slot = *slots_.Find(KeyOf(pair->ends));
  slots_.Erase(slot);
  free_.push_back(slot);
  pairs_.erase(pair);
}

PairRates::Pair& PairRates::Touch(WorkerPair ends) {
  ++change_count_;
  if (const std::optional<std::uint32_t> slot = slots_.Find(KeyOf(ends))) {
    pairs_.splice(pairs_.begin(), pairs_, places_[*slot]);
    return pairs_.front();
  }
  if (pairs_.size() == kMaxPairs) Erase(std::prev(pairs_.end()));
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(places_.size()));
    places_.emplace_back();
  }
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  pairs_.push_front({.ends = ends});
  slots_.Put(slot, KeyOf(ends));
  places_[slot] = pairs_.begin();
  return pairs_.front();
}

void PairRates::Observe(WorkerPair ends, const Arrival& arrival, Instant now) {
  if (arrival.block_count < 2 || arrival.bytes == 0 || arrival.seconds <= 0) return;
  Pair& pair = Touch(ends);
  const Shown shown = RateOfArrival(arrival, pair.rate ? pair.rate->start_seconds : 0);
  Blend(pair.rate, shown);
  pair.observed_at = now;
  Blend(At(out_, ends.from), shown);
  Blend(At(in_, ends.to), shown);
  Blend(of_all_, shown);
}

void PairRates::OnEnd(WorkerPair ends, std::optional<wire::HoldOutcome> outcome, std::uint32_t block_count,
                      Instant now) {
  Pair& pair = Touch(ends);
  pair.has_ended = true;
  pair.last_outcome = outcome;
  if (IsNoFault(outcome)) return;
  if (IsDone(outcome, block_count)) {
    ++pair.done_count;
    pair.next_pause = kFirstPause;
    pair.paused_until = {};
    return;
  }
  ++pair.failed_count;
  if (outcome == wire::HoldOutcome::kWrong) {
    pair.paused_until = now + kWrongPause;
    return;
  }
  pair.paused_until = now + pair.next_pause;
  pair.next_pause = std::min(2 * pair.next_pause, kLastPause);
}

void PairRates::Forget(WorkerSlot worker) {
  ++change_count_;
  for (auto pair = pairs_.begin(); pair != pairs_.end();) {
    const auto each = pair++;
    if (each->ends.from == worker || each->ends.to == worker) Erase(each);
  }
  At(out_, worker).reset();
  At(in_, worker).reset();
}

PairRate PairRates::MeanOf(WorkerPair ends) const {
  const std::optional<PairRate> out = In(out_, ends.from);
  const std::optional<PairRate> in = In(in_, ends.to);
  if (out && in) return out->bytes_per_second < in->bytes_per_second ? *out : *in;
  if (out || in) return out ? *out : *in;
  return of_all_.value_or(PairRate());
}

PairRates::Expected PairRates::Expect(WorkerPair ends, Instant now) const {
  const Pair* const pair = Find(ends);
  if (pair == nullptr) return {.rate = MeanOf(ends)};
  const bool is_fresh = pair->rate.has_value() && now - pair->observed_at < kFreshTime;
  return {.rate = is_fresh ? *pair->rate : MeanOf(ends), .is_paused = now < pair->paused_until};
}

}  // namespace roost::router
