// Timers, each of a number: a hierarchical timing wheel (Varghese, Lauck: Hashed and Hierarchical Timing
// Wheels, SOSP 1987, scheme 7).
//
//   level 0   64 slots of 1 tick      the deadlines that differ from `now` in the lowest 6 bits only
//   level 1   64 slots of 64 ticks    … that differ in bits 6 … 11, and in none above
//     ⋮
//   level 7   64 slots of 2^42 ticks  together: every Instant
//
// A deadline is at the level of the highest 6-bit digit in which it differs from `now`, in the slot of its own digit
// there. When `now` comes to the start of a slot, the slot's timers expire or move down. A word per level says which
// slots are in use, so `now` jumps from one such slot to the next, however far apart they are.
//
// Not thread-safe. Set and Clear are O(1). Expire is O(1) amortised over Set: a timer moves down at most 7 times.
// 16 bytes per number and 8 KiB, from the first Set on; nothing is allocated after it.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"

namespace roost::worker {

using TimerId = StrongId<struct TimerTag, std::uint32_t>;

class TimerWheel {
 public:
  // Deadlines are rounded up to whole ticks: a timer never expires early, and at most one tick late.
  static constexpr Duration kTick = std::chrono::milliseconds(1);

  TimerWheel(std::uint32_t timer_count, Instant now);

  // Sets `timer`, also if it is set. A deadline in the past expires at the next Expire.
  void Set(TimerId timer, Instant deadline);

  // Clears `timer`, if it is set.
  void Clear(TimerId timer);

  // Appends the timers whose deadline has come to `expired`, earlier ticks first, and of one tick those set earlier
  // first, and clears them. `now` never goes back.
  void Expire(Instant now, std::vector<TimerId>& expired);

  [[nodiscard]] bool IsSet(TimerId timer) const {
    return !entries_.empty() && entries_[timer.value()].next != timer.value();
  }
  // The deadline of a timer that is set, rounded up.
  [[nodiscard]] Instant DeadlineOf(TimerId timer) const { return Instant(entries_[timer.value()].tick * kTick); }
  // Timers that are set.
  [[nodiscard]] std::uint32_t size() const { return size_; }

 private:
  static constexpr std::uint32_t kDigitBits = 6;
  static constexpr std::uint32_t kSlots = 1U << kDigitBits;
  static constexpr std::uint32_t kLevels = 8;

  // A slot is a ring through its timers and an entry of its own, which lies after the timers' entries. An entry in no
  // ring links to itself, as an empty slot does.
  struct Entry {
    std::uint64_t tick = 0;  // of the deadline
    std::uint32_t previous = 0;
    std::uint32_t next = 0;
  };

  void TakeMemory();
  void Link(std::uint32_t timer);
  void Unlink(std::uint32_t timer);
  // The level whose first slot in use is the earliest of all; kLevels when no slot is in use.
  [[nodiscard]] std::uint32_t FirstLevel() const;
  void EmptyFirstSlot(std::uint32_t level, std::vector<TimerId>& expired);
  [[nodiscard]] std::uint64_t StartOfFirstSlot(std::uint32_t level) const;

  const std::uint32_t timer_count_;
  std::uint64_t now_;  // in ticks
  std::uint32_t size_ = 0;
  // Bit s: slot s may have timers. It is set when one comes and stays when one is cleared.
  std::array<std::uint64_t, kLevels> used_{};
  std::vector<Entry> entries_;
};

}  // namespace roost::worker
