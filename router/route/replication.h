// When to give a hot prefix one more holder. The request that makes it due goes to a holder all the same, which is the
// cheaper choice for it: nobody waits for the copy (PrefixCopies).
//
// Whether to pay rent again or to buy: each request for a prefix that goes to a holder waits longer, in the seconds of
// the cost, than it would at another worker, the receiver, if that held the prefix too. What the requests of about the
// last minute have waited for want of that copy is what those of the next minute would save. Once it is more than what
// the copy costs, it is made:
//
//   saved    Σ over recent requests: cost at the holder - cost at the receiver, if it held the prefix   (faded sum)
//   price    the prefill of the copy at the receiver, as the cost has it, with its weight
//   copy     when saved by those before this request ≥ price; then the sum begins anew, towards the next copy
//
// What is spent on copies is never more than what was waited for want of them; a holder that nobody waits for is never
// copied. The receiver is the worker at which the request would cost the least. The rule is that of page replication by
// counters (Black and Sleator, Competitive algorithms for replication and migration problems, CMU-CS-89-201, 1989),
// with seconds for counts.
//
// Which prefix: the deepest match of the prompt. Who wait for want of a copy are the requests that share all of it,
// however they go on, so what they waited goes by its last block. Turns of one conversation match deeper each time, and
// so their waits add up to nothing: where everybody waits, to copy long conversations makes all wait longer.
//
// Copies are bounded: a prefix that kMaxHolders workers hold (candidates.h) gets none on purpose, and a worker one at a
// time.
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

  // The copy that is due as the request goes to `chosen`, of least cost; if none is, what the request waits there is
  // remembered. `candidates` come cheapest first. O(candidates + matches).
  [[nodiscard]] std::optional<PrefixCopy> Choose(const RouteQuery& query, const FleetView& fleet,
                                                 const std::vector<Candidate>& candidates, const Candidate& chosen);

 private:
  WaitSketch waited_;  // by the last block of the deepest match
};

}  // namespace roost::router
