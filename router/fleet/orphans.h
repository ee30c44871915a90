// Requests for which workers still send tokens although the request has ended here. Tokens that were already on their
// way are normal; if tokens still come after kPatience, the worker never got the Cancel and is sent it again.
//
// Not thread-safe. Bounded: of more than kMost such requests, some are cancelled later.
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

  // Tokens came for a request that is at no worker. True if the worker should be sent a Cancel now, and again after
  // each kPatience.
  [[nodiscard]] bool OnTokens(RequestId id, Instant now) {
    if (since_.size() >= kMost) since_.clear();
    const auto [entry, is_new] = since_.try_emplace(id, now);
    if (is_new || now - entry->second < kPatience) return false;
    entry->second = now;
    return true;
  }
  // The worker has ended it.
  void OnEnd(RequestId id) { since_.erase(id); }

  [[nodiscard]] std::size_t size() const { return since_.size(); }

 private:
  std::unordered_map<RequestId, Instant> since_;  // when the first such tokens came, or the last Cancel was sent
};

}  // namespace roost::router
