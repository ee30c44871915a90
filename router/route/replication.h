// Decides when a hot prefix gets one more holder. The request that triggers the copy still goes to a current holder,
// which is cheaper for it. No request waits for the copy (PrefixCopies).
//
// This is a rent-or-buy problem. Each request for a prefix waits longer at its holder (in seconds of the cost) than it
// would at another worker, the receiver, if the receiver held the prefix too. The waits of about the last minute for
// lack of a copy estimate what a copy would save in the next minute. Once their sum reaches the price of the copy, the
// copy is made:
//
//   saved    Σ over recent requests: cost at the holder - cost at the receiver, if it held as much   (faded sum)
//   price    the prefill of the copy at the receiver, with the weight that it has in the cost; or what makes room for
//            it, where the receiver would fetch it
//   copy     when saved by the requests before this one ≥ price; then the sum begins again, towards the next copy
//
// So copies never cost more than what requests waited without them, and a prefix is never copied while no request waits
// for its holder. The receiver is the worker where the request would cost the least. The rule is that of page
// replication by counters (Black and Sleator, Competitive algorithms for replication and migration problems,
// CMU-CS-89-201, 1989), with seconds instead of counts.
//
// Two prefixes of a prompt are judged. One is its deepest match. All requests that share it would profit, regardless of
// how they continue, so their waits are added up under its last block. Turns of one conversation match deeper each
// time, so their waits do not add up. That is intended: when every conversation waits, copying long conversations makes
// all of them wait longer. So where one worker alone holds the deepest match, the deepest that another holds is judged
// too, often a system prompt: had the receiver held it, the conversation might be there.
//
// RouteQuery::min_copies asks for more: a prefix that several requests of about the last minute ended their matches
// with gets copies until so many workers hold it, one copy at a time in the fleet, even if no request waits.
//
// Copies are bounded: a prefix with kMaxHolders holders (candidates.h) gets no more, and a worker receives one copy at
// a time.
//
// Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "common/prefix/block_hash.h"
#include "router/route/faded_sum.h"
#include "router/route/policy.h"

namespace roost::router {

// A sum for each of many prefixes, of what happened in about the last minute: seconds that requests waited for lack of
// a copy, or how often the prefix was used. Old amounts fade.
//
//   set = hash(prefix)   [ prefix, sum, when ] [ … ] … kWays of them      a new one replaces the least if all are used
//
// The table works like a set-associative cache: when many prefixes share a set, it forgets the small sums. So a sum is
// never too large, and it is exact for the largest prefix of a set while it stays the largest.
//
// A plain value of about 80 KB; not thread-safe. Constant time.
class PrefixSums {
 public:
  static constexpr std::size_t kSets = 256;
  static constexpr std::size_t kWays = 8;

  // Clients do not know `seed`, so they can not make hashes that evict each other.
  explicit PrefixSums(std::uint64_t seed) : seed_(seed), sets_(kSets) {}

  // A prefix is identified by the hash of its last block. `now` never goes back.
  void Add(BlockHash prefix, double amount, Instant now);
  void Clear(BlockHash prefix);

  // Σ amount · 2^(-age / half-life).
  [[nodiscard]] double At(BlockHash prefix, Instant now) const;

 private:
  struct Entry {
    BlockHash prefix;
    FadedSum sum{kRecentTime, Instant{}};  // 0: the entry is free
  };
  using Set = std::array<Entry, kWays>;

  [[nodiscard]] std::size_t SetOf(BlockHash prefix) const;

  std::uint64_t seed_;
  std::vector<Set> sets_;
};

class Replication {
 public:
  explicit Replication(std::uint64_t seed) : waited_(seed), used_(seed) {}

  // The copy that is due when the request goes to `chosen`, at the receiver with the least cost. If none is due, the
  // request's wait is remembered. `candidates` are cheapest first. O(candidates + matches).
  [[nodiscard]] std::optional<PrefixCopy> Choose(const RouteQuery& query, const FleetView& fleet,
                                                 const std::vector<Candidate>& candidates, const Candidate& chosen);

 private:
  // The copy of these prompt tokens, if it is due.
  [[nodiscard]] std::optional<PrefixCopy> Judge(std::uint32_t prefix_tokens, const RouteQuery& query,
                                                const FleetView& fleet, const std::vector<Candidate>& candidates,
                                                const Candidate& chosen);
  // True if the prefix has fewer holders than it should always have. Counts its use.
  [[nodiscard]] bool LacksCopies(const RouteQuery& query, const FleetView& fleet, BlockHash prefix,
                                 std::size_t holder_count);

  // By the last block of the prefix.
  PrefixSums waited_;  // seconds
  PrefixSums used_;    // requests; counted only where copies are asked for
};

}  // namespace roost::router
