// The scheduler: chooses the tokens of each sequence that the next step computes, and allocates their blocks.
//
//   Submit ──▶ waiting ──admit──▶ running ──Remove──▶ gone        Fork: one more running sequence, with the same blocks
//                 ▲                  │
//                 └────preempt───────┘   (to the front; its committed blocks stay cached)
//
// One step: Schedule() → the model makes the copies and computes the slices → Commit() → Append() a sampled token or
// Remove() each sequence whose slice wants logits.
//
// Commit() may be called as soon as the model has begun the step, if the model computes steps in order: then the next
// step can be scheduled before the tokens of this one are known. AppendAwaited() gives a sequence a place for its next
// token, which is computed like any other; Resolve() later says which token it is. The hash of a block with an awaited
// token is unknown, so the block enters the cache only after Resolve().
//
// It is a loop over parts that do not know each other:
//
//   WaitingQueue     who is next                      SequenceBlocks   blocks taken, committed, left
//   PrefixWaits      who waits for a prefix           Arrivals         blocks that come from elsewhere
//   StepBudget       how long the slices are          StepPace         how long steps take
//   TenantShares     what each tenant may have
//
// - One token budget per step. Every decoding sequence gets its one token. The rest goes to prefill chunks of running
//   and newly admitted sequences, in the order of the WaitingQueue. So a partly computed prompt may pause, with its
//   blocks, for one that goes before it. There are at most max_partial_prefills such prompts, in addition to those that
//   would miss first_token_target, and to those of a tenant that yields, which do not count for others.
// - A sequence is admitted when its prompt fits the free and evictable blocks. When blocks still run out (outputs
//   grow), the sequence admitted last is preempted and recomputed later, that of a tenant with more than its share
//   first. So the one admitted first always continues, and every sequence ends. Pins do not prevent that: they end if a
//   sequence that runs alone needs their blocks. Arrivals give way first when a sequence needs room.
// - Held blocks (the minimum hold, see PrefixCache) are taken only for a sequence that could not run otherwise, the
//   oldest first. A waiting sequence without space waits while the running ones will free enough, but at most min_hold.
//   It takes held blocks at once when no sequence runs, or when all running ones together could not free enough. A
//   running sequence takes held blocks before another one is preempted and before pins end: a held block may save
//   computation later, a preemption costs it now. No other sequence overtakes one that lacks space, so holds never
//   starve one.
// - Others may overtake a sequence that waits for a prefix. The match with the cache is repeated at every chunk, for
//   blocks that became ready since.
// - A step computes few tokens of scored prompts (max_scored_tokens), because each needs memory for its row of logits.
//
// Pure: no thread, no clock, no device. Not thread-safe. The cache outlives it. A step costs O(running sequences +
// kMaxPassedOver + blocks matched), and allocates on the heap only when sequences arrive; waiting sequences beyond
// these cost nothing, unless several tenants are here: then a step looks at all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "worker/cache/prefix_cache.h"
#include "worker/sched/arrivals.h"
#include "worker/sched/prefix_waits.h"
#include "worker/sched/restores.h"
#include "worker/sched/sequence.h"
#include "worker/sched/sequence_blocks.h"
#include "worker/sched/sequence_slots.h"
#include "worker/sched/step_budget.h"
#include "worker/sched/step_pace.h"
#include "worker/sched/tenant_shares.h"
#include "worker/sched/waiting_queue.h"

namespace roost::worker {

// The most waiting sequences that a step passes over, because another sequence computes their next block, in search of
// one that it can admit.
inline constexpr std::uint32_t kMaxPassedOver = 64;

struct SchedulerOptions {
  std::uint32_t max_batch_tokens = 512;
  // Once a step completes a prompt it computes no more prompt tokens than this, so that the first token does not wait
  // for a full step. The other prompts then lose the fixed time of a step, decodes included, as fitted to recent steps.
  // Steps are full if the others would lose more than is gained, and if prompts would miss first_token_target. 0: all
  // steps are full.
  std::uint32_t short_step_tokens = 0;
  // At most max_batch_tokens takes effect: each decoding sequence has a token in every step.
  std::uint32_t max_running = 64;
  std::uint32_t max_waiting = 1024;
  std::uint32_t max_context_tokens = 0;  // prompt and output; the caller never appends beyond it
  // The most sequences with a partly computed prompt after a step. There may be more if prompts would miss
  // first_token_target, and if a short step could have completed them. Each holds the blocks of its computed part. 0:
  // no limit.
  std::uint32_t max_partial_prefills = 4;
  SchedulePolicy policy = SchedulePolicy::kFcfs;
  // Target for the time to the first token, under any policy. Sequences that would miss it share a part of the prefill
  // budget, first come first served. It is not guaranteed: they leave a part to the others.
  std::optional<Duration> first_token_target = {};
  // The most scored tokens of one step, over all sequences.
  std::uint32_t max_scored_tokens = 64;
  DiskSource* disk = nullptr;  // where a match may go on; null: nowhere. It outlives the scheduler
};

class Scheduler {
 public:
  // The context must fit the pool: max_context_tokens <= block count · B.
  Scheduler(PrefixCache& cache, SchedulerOptions options);

  // Sets the time, which never goes back.
  void AdvanceTo(Instant now);

  // kOverloaded when the queue is full, kContextTooLong when the sequence could never run, kInvalidArgument for an
  // empty prompt.
  [[nodiscard]] Result<SequenceId> Submit(SequenceSpec spec);

  // Forgets a sequence in any state, and releases what it holds. Not between Schedule and Commit.
  void Remove(SequenceId id);

  // The sequences without output that wait beyond their deadline. They keep waiting until they are removed.
  [[nodiscard]] std::vector<SequenceId> Expired(Instant now) const { return waiting_.Expired(now); }

  // Blocks that come from elsewhere. Advance it before Schedule.
  [[nodiscard]] Arrivals& arrivals() { return arrivals_; }
  [[nodiscard]] const Arrivals& arrivals() const { return arrivals_; }
  // The sequences, for who looks at all of them or takes their blocks away (see Erasures in worker/engine).
  [[nodiscard]] const Sequences& sequences() const { return sequences_; }
  // Set if the latest Schedule found nothing to compute because sequences wait for arrivals alone: the first time at
  // which one of them stops waiting if no block comes.
  [[nodiscard]] std::optional<Instant> AwaitsArrivalsUntil() const { return waits_.arrivals_awaited_until(); }

  // Chooses the slices of the next step and allocates their blocks. Valid until the next call; a slice's sequence is
  // valid until it is removed.
  [[nodiscard]] const std::vector<ScheduledSlice>& Schedule();
  // The copies to make before these slices are computed. Valid until the next Schedule.
  [[nodiscard]] const std::vector<ScheduledCopy>& copies() const { return copies_; }

  // The slices have been computed, or will be before anything that is scheduled from now on: their full blocks enter
  // the cache.
  void Commit();
  // Tells the time of a step, once it is known; Commit may come before. `tokens_before`: the TokensBefore of its
  // slices that are not decodes, added up. From many such steps follows how much longer a block takes the more come
  // before it, and the cache evicts by that.
  void NotePace(const StepSample& step, std::uint64_t tokens_before = 0);

  // A prompt's time alone: what the cache saved of it, and what was computed, by the fit of NotePace. Blocks that came
  // from elsewhere are saved, less the time for which the sequence waited for them.
  struct PrefillTimes {
    double saved_seconds = 0;
    double computed_seconds = 0;
  };
  [[nodiscard]] PrefillTimes PrefillTimesOf(const Sequence& sequence) const;
  // The time that steps take, as told by NotePace.
  [[nodiscard]] const StepPace& pace() const { return pace_; }

  // Appends tokens that were sampled after a running sequence's last token, which has been computed. Several at once
  // are computed together, as a prefill is.
  void Append(SequenceId id, std::span<const TokenId> tokens);
  void Append(SequenceId id, TokenId token) { Append(id, std::span(&token, 1)); }

  // Appends one token that is not known yet: draw `draw` of the previous step will give it. A sequence awaits at most
  // one, and none when it is scheduled from the queue.
  void AppendAwaited(SequenceId id, std::uint32_t draw);
  // Says what the awaited token is. The sequence may have been preempted since. If the token fills its block, the block
  // enters the cache with CommitResolved, which looks up several blocks at a time and so hides the memory latency.
  void Resolve(SequenceId id, TokenId token);
  // Call it after the last Resolve of a step.
  void CommitResolved();

  // Adds a sequence with the same tokens and blocks, which continues like any other; used for several samples. Call it
  // after Commit, for a running sequence that has computed all its tokens and awaits none. There is space for as many
  // forks as its fork_count said at Submit, and for more while CanFork.
  [[nodiscard]] SequenceId Fork(SequenceId id);
  // Is there a place for a fork of this running sequence?
  [[nodiscard]] bool CanFork(SequenceId id) const;

  // Valid until it is removed.
  [[nodiscard]] const Sequence& Get(SequenceId id) const { return sequences_.all.At(id); }

  [[nodiscard]] std::uint32_t waiting_count() const { return waiting_.size(); }
  [[nodiscard]] std::uint32_t running_count() const { return static_cast<std::uint32_t>(sequences_.running.size()); }
  [[nodiscard]] const SchedulerCounters& counters() const { return counters_; }

  // The present load, without the numbers of the last step. Queued tokens are those of waiting sequences that were not
  // cached when the scheduler last looked, and those that running sequences still have to prefill.
  [[nodiscard]] wire::Load Load() const;

  // Calls visit(sequence, tokens) for the first `limit` sequences that Load() counts as queued, with the tokens that
  // each has to compute: first those that run, then the others in queue order. O(running + limit · log waiting).
  template <typename Visit>
  void VisitQueued(std::size_t limit, Visit visit) const {
    for (const Sequence* sequence : sequences_.running) {
      const bool is_queued = !sequence->decoding() && sequence->remaining_count() > 0;
      if (!is_queued) continue;
      if (limit-- == 0) return;
      visit(*sequence, sequence->remaining_count());
    }
    for (const Sequence* next = waiting_.First(); next != nullptr && limit-- > 0; next = waiting_.After(next->rank)) {
      visit(*next, next->expected_uncached_count);
    }
  }

  // Checks the cache's invariants against this scheduler's block tables, and the tables' own. O(blocks).
  [[nodiscard]] Result<void> CheckInvariants() const;

 private:
  [[nodiscard]] bool HasPlaceFor(std::uint32_t sequence_count) const;
  [[nodiscard]] std::unique_ptr<Sequence> MakeSequence(SequenceSpec spec);
  void Append(Sequence& sequence, std::span<const TokenId> tokens) const;

  // ---- the running sequences ----

  void PlanSlices();
  // Allocates blocks for `token_count` more tokens, and preempts the last sequences if necessary. False: the sequence
  // itself was preempted.
  [[nodiscard]] bool SecureBlocks(Sequence& sequence, std::uint32_t token_count);
  // Ends an arrival, takes a held block, ends the pins, or preempts a sequence. False: that was `sequence` itself.
  [[nodiscard]] bool MakeRoom(const Sequence& sequence);
  void Preempt(Sequence& sequence);

  // ---- admission (scheduler_admission.cc) ----

  // A running sequence with a partly computed prompt.
  struct Partial {
    WaitingRank rank;
    Sequence* sequence;
  };
  enum class Admission : std::uint8_t {
    kStarted,
    kPassedOver,     // it can not start now, but one after it may
    kAwaitsArrival,  // the same; it waits for blocks from elsewhere
    kRefused,        // neither it nor one after it can start now
  };
  // The tokens dealt to sequences that would miss first_token_target, and whether one of them lacked space.
  struct LateWork {
    std::uint32_t dealt_token_count = 0;
    bool lacks_room = false;
  };
  // Blocks that a sequence needs to start, besides those of its match.
  struct Need {
    std::size_t block_count = 0;
    // Blocks of its match:
    std::size_t available_matched = 0;  // idle, neither held nor pinned
    std::size_t held_matched = 0;
    std::size_t unkept_matched = 0;  // idle or in use, neither held nor pinned
  };

  void DealOutAll(std::uint32_t budget, std::uint32_t decode_count);
  void DealOut(std::uint32_t budget);
  void DealInTurn(Sequence& sequence, std::size_t later_count);
  // Deals at most `limit` tokens of those that the sequence has left. Returns how many.
  std::uint32_t Deal(Sequence& sequence, std::uint32_t limit);
  [[nodiscard]] StepBudget::Prompt PromptOf(const Sequence& sequence) const;
  [[nodiscard]] LateWork DealLate(std::uint32_t budget);
  [[nodiscard]] double CollectLate();
  [[nodiscard]] std::uint32_t SurveyRunning();
  void InsertPartial(Sequence& sequence);
  // The prompts that pause if this one is computed in part, when the first `served` of partial_ have had their turns.
  [[nodiscard]] std::size_t PausedBehind(const Sequence& sequence, std::size_t served,
                                         const StepBudget::InPart& in_part) const;
  [[nodiscard]] Admission TryAdmit(Sequence& sequence, std::uint32_t budget, std::size_t paused_count);
  [[nodiscard]] bool MayStartPrefill(const Sequence& sequence, std::uint32_t budget, std::size_t paused_count) const;
  void LookUp(Sequence& sequence);
  void Start(Sequence& sequence);
  [[nodiscard]] Need NeedOf(const Sequence& sequence) const;
  [[nodiscard]] bool HasRoomFor(Sequence& sequence) const;
  [[nodiscard]] bool MakeRoomFor(Sequence& sequence);
  [[nodiscard]] bool MayTakeHeld(Sequence& sequence, const Need& need) const;
  // Starts the first waiting sequence that its tenant's share is for and that others give way to. Returns the tokens
  // dealt.
  std::uint32_t StartByShare(std::uint32_t budget);
  [[nodiscard]] bool MayLack(const Sequence& sequence) const;
  [[nodiscard]] TenantShares::Lack LackOf(Sequence& sequence) const;
  [[nodiscard]] bool GiveWayTo(Sequence& sequence, std::uint32_t budget);

  PrefixCache& cache_;
  const SchedulerOptions options_;
  const std::uint32_t block_tokens_;
  const std::uint32_t most_running_;  // each running sequence needs a token in every step

  Instant now_;
  SchedulerCounters counters_;
  std::uint64_t release_count_ = 0;  // times that a sequence, or an arrival, released its blocks
  Sequences sequences_;
  std::vector<ScheduledSlice> slices_;  // of the planned step
  std::vector<ScheduledCopy> copies_;   // the same
  WaitingQueue waiting_;
  StepPace pace_;
  Arrivals arrivals_;
  Restores restores_;
  SequenceBlocks blocks_;
  PrefixWaits waits_;
  TenantShares shares_;
  StepBudget budget_;  // of the planned step

  std::uint32_t coming_forks_ = 0;        // forks that running sequences still expect
  std::size_t promised_block_count_ = 0;  // promised to running sequences in the planned step
  std::vector<Partial> partial_;          // by rank
  std::vector<Sequence*> late_;           // sequences that would miss first_token_target, by age
  std::vector<SequenceId> resolved_;      // sequences that have a block to commit
  std::vector<BlockRef> matched_;         // match of the sequence that is being considered
};

}  // namespace roost::worker
