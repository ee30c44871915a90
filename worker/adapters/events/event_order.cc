#include "worker/adapters/events/event_order.h"

#include <functional>
#include <string_view>
#include <utility>

#include "common/base/check.h"

namespace roost::worker::adapters {
namespace {

// Six times what vLLM keeps for replays.
constexpr std::size_t kMaxReplayedDigests = std::size_t{1} << 16U;
// The cost of a message that waits, beside its payload.
constexpr std::size_t kWaitingBytes = 64;

std::size_t DigestOf(const std::string& payload) { return std::hash<std::string_view>{}(payload); }

}  // namespace

EventOrder::EventOrder(const Options& options, Instant now) : options_(options) {
  if (options_.replay == Replay::kCanAsk) Ask(now);
}

void EventOrder::TakeLive(std::uint64_t sequence, std::string payload, Instant now) {
  if (last_live_ && sequence <= *last_live_) {
    waiting_.clear();
    waiting_bytes_ = 0;
    Restart();
  }
  last_live_ = sequence;
  Wait({sequence, std::move(payload)});
  if (!replay_) Drain(now);
}

void EventOrder::TakeReplayed(std::uint64_t sequence, std::string payload, Instant now) {
  if (!replay_) return;
  replay_->last_heard = now;
  if (sequence < next_) return;
  if (sequence > next_) {
    if (next_ > replay_->first) return Ask(now);  // answers were lost on the way
    ++counts_.replay_failures;
    GiveUpBefore(sequence);  // the engine's buffer begins here
  }
  replayed_digests_.push_back(DigestOf(payload));
  if (replayed_digests_.size() > kMaxReplayedDigests) replayed_digests_.pop_front();
  ApplyNow({sequence, std::move(payload)});
}

void EventOrder::TakeReplayEnd(Instant now) {
  if (!replay_) return;
  if (next_ == 0) items_.push_back({std::nullopt, true});  // the engine has sent nothing yet
  const bool brought = next_ > replay_->first;
  EndReplaying();
  if (!brought && IsMissing()) GiveUpMissing();
  Drain(now);
}

void EventOrder::Tick(Instant now) {
  if (!replay_ || now < *deadline()) return;
  if (next_ > replay_->first) return Ask(now);  // the end marker, and perhaps more, was lost
  EndReplaying();
  if (IsMissing()) {
    GiveUpMissing();
  } else {
    ++counts_.replay_failures;
  }
  Drain(now);
}

void EventOrder::OnEngineRestart(Instant now) {
  waiting_.clear();
  waiting_bytes_ = 0;
  last_live_.reset();
  Restart();
  if (options_.replay == Replay::kCanAsk) Ask(now);
}

std::optional<EventOrder::Step> EventOrder::Next() {
  while (!items_.empty()) {
    Item item = std::move(items_.front());
    items_.pop_front();
    if (item.exact) exact_ = *item.exact;
    if (item.step) return std::move(item.step);
  }
  return std::nullopt;
}

std::optional<Instant> EventOrder::deadline() const {
  if (!replay_) return std::nullopt;
  return replay_->last_heard + options_.patience;
}

void EventOrder::Restart() {
  ++counts_.restarts;
  EndReplaying();
  StartAt(0);
}

void EventOrder::StartAt(std::uint64_t sequence) {
  next_ = sequence;
  replayed_digests_.clear();
  items_.push_back({StartFromNothing(), false});
}

void EventOrder::GiveUpBefore(std::uint64_t first) {
  ROOST_CHECK(first > next_);
  counts_.lost += first - next_;
  StartAt(first);
}

void EventOrder::Ask(Instant now) {
  ++counts_.replays;
  replay_ = RunningReplay{next_, now};
  items_.push_back({AskReplay{next_}, std::nullopt});
}

void EventOrder::EndReplaying() {
  if (!replay_) return;
  replay_.reset();
  items_.push_back({EndReplay(), std::nullopt});
}

void EventOrder::ApplyNow(Message message) {
  const std::optional<bool> exact = message.sequence == 0 ? std::optional(true) : std::nullopt;
  next_ = message.sequence + 1;
  items_.push_back({Apply{std::move(message.payload)}, exact});
}

void EventOrder::Wait(Message message) {
  const std::size_t bytes = message.payload.size() + kWaitingBytes;
  if (waiting_bytes_ + bytes > options_.max_waiting_bytes) return;  // it will be missing
  waiting_bytes_ += bytes;
  waiting_.push_back(std::move(message));
}

void EventOrder::Drain(Instant now) {
  while (!waiting_.empty() && !replay_) {
    if (waiting_.front().sequence > next_) {
      Mend(waiting_.front().sequence, now);
      continue;
    }
    Message message = std::move(waiting_.front());
    waiting_.pop_front();
    waiting_bytes_ -= message.payload.size() + kWaitingBytes;
    if (message.sequence < next_ && WasReplayed(message)) continue;
    if (message.sequence < next_) {
      Restart();
      waiting_bytes_ += message.payload.size() + kWaitingBytes;
      waiting_.push_front(std::move(message));
      continue;
    }
    replayed_digests_.clear();
    ApplyNow(std::move(message));
  }
  if (!replay_ && IsMissing()) Mend(*last_live_ + 1, now);
}

void EventOrder::Mend(std::uint64_t first, Instant now) {
  ++counts_.gaps;
  if (options_.replay == Replay::kCanAsk) {
    Ask(now);
  } else {
    GiveUpBefore(first);
  }
}

bool EventOrder::IsMissing() const {
  if (!waiting_.empty()) return waiting_.front().sequence > next_;
  return last_live_ && *last_live_ >= next_;
}

void EventOrder::GiveUpMissing() {
  ++counts_.replay_failures;
  GiveUpBefore(waiting_.empty() ? *last_live_ + 1 : waiting_.front().sequence);
}

bool EventOrder::WasReplayed(const Message& message) const {
  const std::uint64_t back = next_ - message.sequence;  // at least 1
  if (back > replayed_digests_.size()) return false;
  return replayed_digests_[replayed_digests_.size() - static_cast<std::size_t>(back)] == DigestOf(message.payload);
}

}  // namespace roost::worker::adapters
