// The conversations whose next turn is expected, with what the cache retains for each until it comes. A turn replaces
// the previous one, so retention for a session ends when the session comes back, not when its time is over: parts of
// the conversation that the new prompt does not contain take no more space.
//
// At most kMaxSessions are expected; the blocks of further sessions are retained until their time is over.
//
// Not thread-safe. Every operation is O(log sessions).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>

#include "common/base/clock.h"
#include "worker/cache/prefix_cache.h"

namespace roost::worker {

class SessionTable {
 public:
  static constexpr std::size_t kMaxSessions = 65'536;

  // The last block of a turn in the cache, and its retention.
  struct Turn {
    BlockRef last;  // its last block
    RequestRetention retention;
  };

  // A turn of the session has ended. A turn without retention is not recorded.
  void Expect(std::uint64_t session, const Turn& turn);

  // The session is back: returns what its last turn left, if it is still expected.
  [[nodiscard]] std::optional<Turn> TakeBack(std::uint64_t session);

  // Forgets the sessions whose retention has ended; `now` never goes back.
  void AdvanceTo(Instant now);

  [[nodiscard]] std::size_t size() const { return turns_.size(); }

 private:
  struct Expected {
    Turn turn;
    std::multimap<Instant, std::uint64_t>::iterator end;
  };
  void Forget(std::unordered_map<std::uint64_t, Expected>::iterator session);

  std::unordered_map<std::uint64_t, Expected> turns_;
  std::multimap<Instant, std::uint64_t> ends_;  // end of retention and session
};

}  // namespace roost::worker
