// A rate as a bucket: it fills evenly, up to what a minute allows, and each use takes from it. A use may take more than
// there is, because the length of an answer is not known before its end: then the level is below nothing, and new uses
// wait until it is above again. So over any time t the use is at most limit · (1 + t / minute) and one request more for
// each that was under way.
//
// Pure: the caller gives the time. Not thread-safe.
#pragma once

#include <cstdint>

#include "common/base/clock.h"

namespace roost::router {

class RateLimit {
 public:
  // The limit's state, as a client is told it.
  struct State {
    std::uint64_t limit = 0;      // per minute
    std::uint64_t remaining = 0;  // that can be used now
    Duration until_full{};        // if nothing more is used
    Duration until_free{};        // until something can be used; zero while there is something left
  };

  // `per_minute` may differ from call to call: limits are reloaded, and shared among routers. kNoLimit: always free.
  [[nodiscard]] State Look(std::uint64_t per_minute, Instant now);
  // Takes even where there is not so much.
  void Take(std::uint64_t amount, std::uint64_t per_minute, Instant now);
  // Undoes a Take that came to nothing. The amount filled up since stays.
  void GiveBack(std::uint64_t amount, std::uint64_t per_minute, Instant now);

 private:
  void Fill(std::uint64_t per_minute, Instant now);

  double used_ = 0;  // taken and not filled up again
  Instant filled_at_{};
  bool began_ = false;
};

}  // namespace roost::router
