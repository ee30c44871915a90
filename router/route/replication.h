// Decides when a hot prefix gets one more holder. The request that triggers the copy still goes to a current holder,
// which is cheaper for it. No request waits for the copy (PrefixCopies).
//
// This is a rent-or-buy problem. Each request for a prefix waits longer at its holder (in seconds of the cost) than it
// would at another worker, the receiver, if the receiver held the prefix too. The waits of about the last minute for
// lack of a copy estimate what a copy would save in the next minute. Once their sum reaches the price of the copy, the
// copy is made:
//
//   saved    Σ over recent requests: cost at the holder - cost at the receiver, if it held the prefix   (faded sum)
//   price    the prefill of the copy at the receiver, with the weight that it has in the cost
//   copy     when saved by the requests before this one ≥ price; then the sum begins again, towards the next copy
//
// So copies never cost more than what requests waited without them, and a prefix is never copied while no request waits
// for its holder. The receiver is the worker where the request would cost the least. The rule is that of page
// replication by counters (Black and Sleator, Competitive algorithms for replication and migration problems,
// CMU-CS-89-201, 1989), with seconds instead of counts.
//
// The copied prefix is the deepest match of the prompt. All requests that share it would profit, regardless of how they
// continue, so their waits are added up under its last block. Turns of one conversation match deeper each time, so
// their waits do not add up. That is intended: when every conversation waits, copying long conversations makes all of
// them wait longer.
//
// Copies are bounded: a prefix with kMaxHolders holders (candidates.h) gets no more, and a worker receives one copy at
// a time.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "router/route/policy.h"
#include "router/route/wait_sketch.h"

namespace roost::router {

class Replication {
 public:
  explicit Replication(std::uint64_t seed) : waited_(seed) {}

  // The copy that is due when the request goes to `chosen`, at the receiver with the least cost. If none is due, the
  // request's wait is remembered. `candidates` are cheapest first. O(candidates + matches).
  [[nodiscard]] std::optional<PrefixCopy> Choose(const RouteQuery& query, const FleetView& fleet,
                                                 const std::vector<Candidate>& candidates, const Candidate& chosen);

 private:
  WaitSketch waited_;  // by the last block of the deepest match
};

}  // namespace roost::router
