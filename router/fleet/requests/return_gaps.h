// Predicts how long a session takes to return: the mean time between an answer of it and its next request.
//
//   OnEnd ─── gap ───► OnRequest: notes the gap, and predicts the one behind this request
//
// Only where it is worth retaining blocks for it, because others lose what these take (LifetimeTraceTest):
//
// - the session has returned before, since a mean over its tenant's other sessions predicts no better than nothing;
// - its mean is at most kLongestGap: a retention much longer than a small pool keeps others costs more than it brings;
// - of its tenant's answers kLeastReturns have been followed by another request: a conversation that ended after a few
//   quick turns looks like an agent's session that has just begun, and most of a chat's do.
//
// Bounded: kSessions sessions and kTenants tenants, of which a newer one takes the place of an older one with the same
// low bits. Not thread-safe. O(1).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "common/base/clock.h"

namespace roost::router {

class ReturnGaps {
 public:
  static constexpr std::size_t kSessions = 16'384;
  static constexpr std::size_t kTenants = 1'024;
  static constexpr Duration kLongestGap = std::chrono::seconds(60);
  static constexpr double kLeastReturns = 0.8;
  static constexpr double kLeastAnswers = 8;  // of the tenant, before its share of returns counts

  // A session of a tenant.
  struct Name {
    std::uint64_t session_hash = 0;  // 0: none
    std::string_view tenant;
  };

  // A request of the session has come. Returns the time between its end and the session's next request, if that is
  // predicted.
  [[nodiscard]] std::optional<Duration> OnRequest(const Name& name, Instant now);
  // An answer of the session has ended.
  void OnEnd(const Name& name, Instant now);

 private:
  struct Session {
    std::uint64_t hash = 0;
    std::optional<Instant> ended;  // the last answer that did, unless a request has come since
    double mean_seconds = 0;
    std::uint32_t gap_count = 0;
  };
  struct Tenant {
    std::uint64_t hash = 0;
    double answers = 0;
    double returns = 0;  // requests that came after them
  };
  // The place of each, which it takes from another one.
  [[nodiscard]] Session& PlaceOf(std::uint64_t session_hash);
  [[nodiscard]] Tenant& PlaceOf(std::string_view tenant);

  // By the low bits of the hashes; empty until the first session.
  std::vector<Session> sessions_;
  std::vector<Tenant> tenants_;
};

}  // namespace roost::router
