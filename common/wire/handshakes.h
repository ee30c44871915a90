// The connections of a gate that have not finished their handshake, and which of them has to go: they may be strangers,
// who must not keep workers out. A handshake takes some round trips; a stranger that says nothing has kTime.
//
// A newcomer is always let in. If there are too many of its source, or in all, the oldest of these makes room for it.
// So strangers keep a worker out only while they come faster than its handshake ends.
//
// Not thread-safe, no clock. O(handshakes) per call, and these are few.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"

namespace roost::wire {

class Handshakes {
 public:
  static constexpr std::size_t kMost = 512;
  static constexpr std::size_t kMaxOfASource = 64;
  static constexpr Duration kTime = std::chrono::seconds(5);

  Handshakes() { waiting_.reserve(kMost + 1); }

  // `id` is unknown so far. Returns the one that makes room for it, which has left.
  [[nodiscard]] std::optional<std::uint64_t> Enter(std::uint64_t id, std::string source, Instant now);
  // It is through, or gone. Unknown ids are ignored.
  void Leave(std::uint64_t id);
  // The oldest; it has left.
  [[nodiscard]] std::optional<std::uint64_t> TakeOldest();
  // One whose time is over; it has left.
  [[nodiscard]] std::optional<std::uint64_t> TakeLate(Instant now);

  [[nodiscard]] std::size_t size() const { return waiting_.size(); }

 private:
  struct Waiting {
    std::uint64_t id;
    std::string source;
    Instant since;
  };
  [[nodiscard]] std::uint64_t Take(std::size_t index);

  std::vector<Waiting> waiting_;  // oldest first
};

}  // namespace roost::wire
