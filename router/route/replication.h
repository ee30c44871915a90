// Decides when a hot prefix gets one more holder. The request that triggers the copy still goes to a current holder,
// which is cheaper for it. No request waits for the copy (PrefixCopies).
//
// This is the choice between renting and buying. Each request for a prefix waits longer at its holder (in seconds of
// the cost) than it would at another worker, the receiver, if that one held the prefix too. What the requests of about
// the last minute waited for lack of a copy is what those of the next minute would save. Once it exceeds the price of
// the copy, the copy is made:
//
//   saved    Σ over recent requests: cost at the holder - cost at the receiver, if it held the prefix   (faded sum)
//   price    the prefill of the copy at the receiver, as the cost has it, with its weight
//   copy     when saved by those before this request ≥ price; then the sum begins anew, towards the next copy
//
// So copies never cost more than what requests waited without them, and a prefix whose holder makes nobody wait is
// never copied. The receiver is the worker where the request would cost the least. The rule is that of page replication
// by counters (Black and Sleator, Competitive algorithms for replication and migration problems, CMU-CS-89-201, 1989),
// with seconds for counts.
//
// The prefix that is copied is the deepest match of the prompt. All requests that share it would profit, however they
// continue, so their waits are added up under its last block. Turns of one conversation match deeper each time, so
// their waits do not add up. That is intended: where every conversation waits, copying long conversations makes all
// wait longer.
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

  // The copy that is due now that the request goes to `chosen`, at the receiver of least cost. If none is due, the
  // request's wait is remembered. `candidates` come cheapest first. O(candidates + matches).
  [[nodiscard]] std::optional<PrefixCopy> Choose(const RouteQuery& query, const FleetView& fleet,
                                                 const std::vector<Candidate>& candidates, const Candidate& chosen);

 private:
  WaitSketch waited_;  // by the last block of the deepest match
};

}  // namespace roost::router
