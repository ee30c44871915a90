// Requests that have ended at the router, but for which workers still send tokens. Tokens that were already on their
// way are normal. If tokens still come after kPatience, the worker never got the Cancel, and the router sends it again.
//
// Not thread-safe. Bounded: with more than kMost such requests, all are forgotten, and their Cancel is only sent later.
#pragma once

#include <chrono>
#include <cstddef>
#include <unordered_map>

#include "common/base/clock.h"
#include "common/base/ids.h"

namespace roost::router {

class Orphans {
 public:
  static constexpr Duration kPatience = std::chrono::seconds(1);
  static constexpr std::size_t kMost = 4096;

  // Tokens came for an ended request. True if the router should send the worker a Cancel now. It is true again after
  // each further kPatience.
  [[nodiscard]] bool OnTokens(RequestId id, Instant now) {
    if (since_.size() >= kMost) since_.clear();
    const auto [entry, is_new] = since_.try_emplace(id, now);
    if (is_new || now - entry->second < kPatience) return false;
    entry->second = now;
    return true;
  }
  // The worker has ended the request.
  void OnEnd(RequestId id) { since_.erase(id); }

  [[nodiscard]] std::size_t size() const { return since_.size(); }

 private:
  std::unordered_map<RequestId, Instant> since_;  // when the first such tokens came, or the last Cancel was sent
};

}  // namespace roost::router
