#include "worker/cache/structures/timer_wheel.h"

#include <algorithm>
#include <bit>

#include "common/base/check.h"

namespace roost::worker {
namespace {

std::uint64_t WholeTicks(Instant instant) {
  return static_cast<std::uint64_t>(std::max<Duration::rep>(instant.time_since_epoch() / TimerWheel::kTick, 0));
}

std::uint64_t TicksUntil(Instant deadline) {
  const bool within_tick = deadline.time_since_epoch() % TimerWheel::kTick > Duration::zero();
  return WholeTicks(deadline) + (within_tick ? 1 : 0);
}

}  // namespace

TimerWheel::TimerWheel(std::uint32_t timer_count, Instant now) : timer_count_(timer_count), now_(WholeTicks(now)) {
  static_assert(Duration::max() / kTick < std::int64_t{1} << (kLevels * kDigitBits - 1));
}

void TimerWheel::TakeMemory() {
  entries_.resize(std::size_t{timer_count_} + kLevels * kSlots);
  for (std::uint32_t id = 0; id < entries_.size(); ++id) entries_[id].previous = entries_[id].next = id;
}

void TimerWheel::Set(TimerId timer, Instant deadline) {
  if (entries_.empty()) TakeMemory();
  Clear(timer);
  entries_[timer.value()].tick = std::max(TicksUntil(deadline), now_);
  Link(timer.value());
  ++size_;
}

void TimerWheel::Clear(TimerId timer) {
  ROOST_CHECK(timer.value() < timer_count_, "timer {} of {}", timer.value(), timer_count_);
  if (!IsSet(timer)) return;
  Unlink(timer.value());
  --size_;
}

void TimerWheel::Expire(Instant now, std::vector<TimerId>& expired) {
  const std::uint64_t end = WholeTicks(now);
  ROOST_CHECK(end >= now_, "tick {} comes after tick {}", end, now_);
  for (std::uint32_t level = FirstLevel(); level < kLevels; level = FirstLevel()) {
    const std::uint64_t start = StartOfFirstSlot(level);
    if (start > end) break;
    now_ = start;
    EmptyFirstSlot(level, expired);
  }
  // No slot in use starts at or before `end`, so every deadline stays at its level and in its slot.
  now_ = end;
}

// Slots of a lower level start before those of a higher one, because their deadlines agree with `now_` in more digits.
std::uint32_t TimerWheel::FirstLevel() const {
  return static_cast<std::uint32_t>(
      std::find_if(used_.begin(), used_.end(), [](std::uint64_t slots) { return slots != 0; }) - used_.begin());
}

std::uint64_t TimerWheel::StartOfFirstSlot(std::uint32_t level) const {
  const std::uint32_t shift = level * kDigitBits;
  const auto digit = static_cast<std::uint64_t>(std::countr_zero(used_[level]));
  return (now_ >> (shift + kDigitBits) << (shift + kDigitBits)) | digit << shift;
}

// `now_` is the slot's start.
void TimerWheel::EmptyFirstSlot(std::uint32_t level, std::vector<TimerId>& expired) {
  const auto slot = static_cast<std::uint32_t>(std::countr_zero(used_[level]));
  used_[level] &= used_[level] - 1;
  const std::uint32_t ring = timer_count_ + level * kSlots + slot;
  while (entries_[ring].next != ring) {
    const std::uint32_t timer = entries_[ring].next;
    Unlink(timer);
    if (entries_[timer].tick > now_) {
      Link(timer);
    } else {
      --size_;
      expired.emplace_back(timer);
    }
  }
}

void TimerWheel::Link(std::uint32_t timer) {
  const std::uint64_t tick = entries_[timer].tick;
  const auto differing_bits = static_cast<std::uint32_t>(std::bit_width(tick ^ now_));
  const std::uint32_t level = differing_bits == 0 ? 0 : (differing_bits - 1) / kDigitBits;
  const auto slot = static_cast<std::uint32_t>(tick >> (level * kDigitBits)) % kSlots;
  used_[level] |= std::uint64_t{1} << slot;

  const std::uint32_t ring = timer_count_ + level * kSlots + slot;
  const std::uint32_t last = entries_[ring].previous;
  entries_[timer].previous = last;
  entries_[timer].next = ring;
  entries_[last].next = timer;
  entries_[ring].previous = timer;
}

void TimerWheel::Unlink(std::uint32_t timer) {
  Entry& entry = entries_[timer];
  entries_[entry.previous].next = entry.next;
  entries_[entry.next].previous = entry.previous;
  entry.previous = entry.next = timer;
}

}  // namespace roost::worker
