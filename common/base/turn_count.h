// The turns of a loop, counted so that another thread sees whether the loop still turns.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace roost {

// One thread turns, one other thread looks.
class TurnCount {
 public:
  void Turn() { turns_.fetch_add(1, std::memory_order_relaxed); }

  // Has it turned since the look before, or, at the first look, at all?
  [[nodiscard]] bool HasTurned() {
    const std::uint64_t turns = turns_.load(std::memory_order_relaxed);
    return std::exchange(seen_, turns) != turns;
  }

 private:
  std::atomic<std::uint64_t> turns_ = 0;
  std::uint64_t seen_ = 0;  // of the thread that looks
};

}  // namespace roost
