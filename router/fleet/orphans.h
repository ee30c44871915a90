// Requests with whose tokens workers go on although nobody wants them any more. Tokens that were on their way when the
// request ended are none; if they still come after kPatience, the worker never heard the Cancel, and is told again.
//
// Not thread-safe. Bounded; of more than kMost some are told later.
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

  // Tokens of a request came that is at no worker. True if the worker is to be told, again after each kPatience.
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
  std::unordered_map<RequestId, Instant> since_;  // the first tokens, or the last time that a worker was told
};

}  // namespace roost::router
