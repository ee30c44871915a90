// Lets waiting sequences wait for blocks that a running sequence computes, or that an arrival brings. So nothing is
// computed twice.
//
//   a running sequence computes the next block   until it has, but at most as long as computing these blocks itself
//                                                would take, in steps and in time; not again after giving up once
//   an arrival brings the next block             by the pace rule: while it has brought at least what would have been
//                                                computed here since it was the sequence's turn, less a tenth of the
//                                                whole
//
// If the running sequence is cancelled or preempted, or the arrival ends, the wait is over. A sequence that
// runs waits for no other, so no cycle can form.
//
// Pure: no thread, no clock. Not thread-safe. What it is given outlives it.
#pragma once

#include <cstdint>
#include <optional>

#include "common/base/clock.h"
#include "worker/sched/arrivals.h"
#include "worker/sched/restores.h"
#include "worker/sched/sequence.h"
#include "worker/sched/sequence_slots.h"
#include "worker/sched/step_pace.h"

namespace roost::worker {

class PrefixWaits {
 public:
  PrefixWaits(const Sequences& sequences, const Arrivals& arrivals, Restores& restores, const StepPace& pace,
              std::uint32_t block_tokens, std::uint32_t full_step)
      : sequences_(sequences),
        arrivals_(arrivals),
        restores_(restores),
        pace_(pace),
        block_tokens_(block_tokens),
        prompt_room_(full_step) {}

  void AdvanceTo(Instant now) { now_ = now; }
  // A step is planned, with room for so many prompt tokens, at least one.
  void BeginStep(std::uint32_t prompt_room);

  // True while waiting for what the sequence awaits is worth it.
  [[nodiscard]] bool GoesOn(const Sequence& sequence) const;

  // Sets what the sequence awaits, when its match has `matched_count` blocks of at most `matchable_count`. Returns how
  // many blocks it will match then. Adds up the waits for arrivals that end.
  std::uint32_t LookFor(Sequence& sequence, std::uint32_t matched_count, std::uint32_t matchable_count);
  // True if the sequence awaits an arrival that is over. It has more to compute than expected, if that did not bring
  // all.
  [[nodiscard]] bool IsLeftBehind(const Sequence& sequence) const;

  // It is the turn of a sequence that awaits an arrival: the wait counts from the first time that it is.
  void OnTurn(Sequence::AwaitedPrefix& prefix);
  // The first end of a wait of those whose turn it was in this step; nothing without one.
  [[nodiscard]] std::optional<Instant> arrivals_awaited_until() const { return arrivals_awaited_until_; }
  // The step does not wait for arrivals alone.
  void OnBusy() { arrivals_awaited_until_.reset(); }

 private:
  std::uint32_t LookFurther(Sequence& sequence, std::uint32_t matched_count, std::uint32_t matchable_count,
                            const std::optional<Sequence::AwaitedPrefix>& before);
  [[nodiscard]] bool IsWorthWaiting(const Sequence::AwaitedPrefix& prefix) const;
  [[nodiscard]] bool IsBeingComputed(const Sequence::AwaitedPrefix& prefix) const;
  [[nodiscard]] Instant PatienceWith(const Sequence::AwaitedPrefix& prefix) const;
  [[nodiscard]] Sequence::AwaitedPrefix Await(const Sequence& other, std::uint32_t block_count,
                                              std::uint32_t missing_count) const;
  [[nodiscard]] bool AwaitArrival(Sequence& sequence, std::uint32_t matched_count, std::uint32_t wanted_count) const;

  const Sequences& sequences_;
  const Arrivals& arrivals_;
  Restores& restores_;
  const StepPace& pace_;
  const std::uint32_t block_tokens_;

  Instant now_;
  std::uint64_t step_ = 0;
  std::uint32_t prompt_room_;  // of the latest step
  std::optional<Instant> arrivals_awaited_until_;
};

}  // namespace roost::worker
