// The scheduler: chooses the tokens of each sequence that the next step computes, and their blocks.
//
//   Submit ──▶ waiting ──admit──▶ running ──Remove──▶ gone        Fork: one more running sequence, with the same blocks
//                 ▲                  │
//                 └────preempt───────┘   (to the front; its committed blocks stay cached)
//
// One step: Schedule() → the model makes the copies and computes the slices → Commit() → Append() a sampled token or
// Remove() each sequence whose slice wants logits.
//
// Commit() may be called as soon as the model has begun the step, if it computes steps in order: then the next step can
// be scheduled before the tokens of this one are known. AppendAwaited() gives a sequence the place of its next token,
// which is computed like any other, and Resolve() later says which token it is. The hash of a block with an awaited
// token is unknown, so the block enters the cache only then.
//
// - One token budget per step. Every decoding sequence gets its one token. The rest goes to prefill chunks of running
//   and newly admitted sequences, in the order of the WaitingQueue. So a partly computed prompt may pause, with its
//   blocks, for one that goes before it. There are at most max_partial_prefills such prompts, beside those for which
//   time presses (first_token_target).
// - A step that completes a prompt is short (short_step_tokens): the chunk of a long prompt that would fill it comes
//   with the next step. It is filled up if the waiting prompts would lose more by one more step than the first token
//   gains.
// - A sequence is admitted when its prompt fits the free and evictable blocks. When blocks still run out (outputs
// grow),
//   the sequence admitted last is preempted and recomputed later. So the one admitted first always continues, and every
//   sequence ends. Pins do not prevent that: they end if a sequence that runs alone needs their blocks.
// - Held blocks (the minimum hold, see PrefixCache) are taken only for a sequence that could not run otherwise, the
//   oldest first. A waiting sequence without room waits while the running ones will free enough, but at most min_hold.
//   It takes held blocks at once when none runs, or when all running ones could not free enough. A running sequence
//   takes held blocks before another one is preempted and before pins end: a held block may save computation later, a
//   preemption costs it now. No other sequence passes one that lacks room, so holds starve none.
// - Nothing is computed twice: a sequence whose next block is being computed by a running one waits for it; if the
//   running one is cancelled or preempted, the waiting one goes first. Others may pass it meanwhile. It waits at most
//   for the time that computing these blocks itself would take, at the pace of recent steps. The match with the cache
//   is repeated at every chunk, for blocks that became ready since.
// - Tokens, not blocks, are shared: where the match ends, the rows of the block with the most equal tokens are copied
//   into the sequence's own block (see PrefixCache::FindTail). Forks share the partial block too, until one writes
//   there: then it gets a copy.
// - At least one token is left to compute, however much is cached, because its logits are needed.
// - A sequence whose prompt is scored needs the logits of all its tokens: it takes no cached block for those, and a
//   step computes few of them (max_scored_tokens), because each needs memory for its row.
// - The blocks that waiting sequences will hit are evicted after all others.
// - What a session's last turn retained stays until its next turn comes (see SessionTable).
//
// Pure: no thread, no clock, no device. Not thread-safe. The cache outlives it. A step costs O(running sequences +
// kMaxPassedOver + blocks matched), and no heap allocation unless sequences come; a waiting sequence behind these costs
// nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/rate_estimator.h"
#include "common/base/result.h"
#include "worker/cache/miss_reasons.h"
#include "worker/cache/prefix_cache.h"
#include "worker/sched/sequence.h"
#include "worker/sched/sequence_slots.h"
#include "worker/sched/session_table.h"
#include "worker/sched/waiting_queue.h"

namespace roost::worker {

// How many waiting sequences one step passes over, because another computes their next block, to look for one that it
// can admit.
inline constexpr std::uint32_t kMaxPassedOver = 64;

struct SchedulerOptions {
  std::uint32_t max_batch_tokens = 512;
  // Once a step completes a prompt it computes no more prompt tokens than this, so that the first token does not wait
  // for a full step. The other prompts then lose the fixed time of a step, decodes included, as fitted to recent steps.
  // Where they would lose more than is gained, and where time presses (see below), steps are full. 0: all steps are
  // full.
  std::uint32_t short_step_tokens = 0;
  // Never more than max_batch_tokens in effect: each decoding sequence has a token in every step.
  std::uint32_t max_running = 64;
  std::uint32_t max_waiting = 1024;
  std::uint32_t max_context_tokens = 0;  // prompt and output; the caller never appends beyond it
  // Sequences that may have a partly computed prompt after a step. There may be more where time presses, and where a
  // short step could have completed them. Each holds the blocks of its part. 0: no bound.
  std::uint32_t max_partial_prefills = 4;
  SchedulePolicy policy = SchedulePolicy::kFcfs;
  // Target for the time to the first token, whatever the policy prefers. Sequences that would miss it share a part of
  // the prefill budget, first come first served. It is no promise: they leave a part to the others.
  std::optional<Duration> first_token_target = {};
  // Tokens of one step, of all sequences that are scored.
  std::uint32_t max_scored_tokens = 64;
};

// Rows to copy before the slices are computed, in order.
struct ScheduledCopy {
  BlockId from;
  BlockId to;
  std::uint32_t row_count = 0;
};

// Totals since construction.
struct SchedulerCounters {
  std::uint64_t preemptions = 0;
  MissCounts computed_prompt_tokens{};  // by reason
  std::uint64_t tail_cached_tokens = 0;
  std::uint64_t returned_sessions = 0;  // whose blocks were retained for that, and no longer
  std::uint64_t dropped_pins = 0;       // times that all pins ended, because a sequence needed their blocks
};

// Tokens first_position … first_position + token_count - 1 of `sequence`, to be computed in this step.
struct ScheduledSlice {
  const Sequence* sequence = nullptr;
  std::uint32_t first_position = 0;
  std::uint32_t token_count = 0;
  bool wants_logits = false;  // the slice ends with the sequence's last token
  // The prompt's tokens that are scored: from first_scored on. With logits wanted, those of the last token come after.
  std::uint32_t first_scored = 0;
  std::uint32_t scored_token_count = 0;
  bool is_decode = false;
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

  // Forgets a sequence in whatever state it is, and releases what it holds. Not between Schedule and Commit.
  void Remove(SequenceId id);

  // What the sequence has computed may be wrong, in whatever state it is: none of it stays in the cache, nor what
  // others computed behind it, which those keep for themselves. Remove the sequence afterwards. Not between Schedule
  // and Commit.
  void Discard(SequenceId id);

  // Erases a prompt, or all blocks of a tenant, as much as the step's budget allows: see PrefixCache::ErasePrompt. Call
  // it again, with the same values, until it is complete. Not between Schedule and Commit. Call KeepOut first, once:
  // then no sequence that is here now, waiting or running, leaves blocks of that prompt or tenant in the cache from now
  // on, also after a preemption. O(sequences).
  void KeepOut(const BlockChain& prompt);
  void KeepOut(std::string_view tenant);
  [[nodiscard]] EraseProgress Erase(const BlockChain& prompt, PromptPin pin, EraseStep& step);
  [[nodiscard]] EraseProgress Erase(std::string_view tenant, EraseStep& step);

  // The sequences without output that wait beyond their deadline. They wait on until they are removed.
  [[nodiscard]] std::vector<SequenceId> Expired(Instant now) const { return waiting_.Expired(now); }

  // Chooses the slices of the next step and gives them their blocks. Valid until the next call; a slice's sequence as
  // long as it is not removed.
  [[nodiscard]] const std::vector<ScheduledSlice>& Schedule();
  // What must be copied before these slices are computed. Valid as long.
  [[nodiscard]] const std::vector<ScheduledCopy>& copies() const { return copies_; }

  // The slices have been computed, or will be before whatever is scheduled from now on: their full blocks enter the
  // cache.
  void Commit();
  // The time of a step, once it is known: Commit may come before.
  void NotePace(const StepSample& step);

  // Tokens that were sampled after a running sequence's last, which has been computed. Several at once are computed
  // together, as a prefill is.
  void Append(SequenceId id, std::span<const TokenId> tokens);
  void Append(SequenceId id, TokenId token) { Append(id, std::span(&token, 1)); }

  // One token that is not known yet: draw `draw` of the step before gives it. A sequence awaits one at most, and none
  // when it is scheduled from the queue.
  void AppendAwaited(SequenceId id, std::uint32_t draw);
  // What the awaited token is. The sequence may have been preempted since. If its block is full with it, that enters
  // the cache with CommitResolved: looking up several at a time does not wait for memory each time.
  void Resolve(SequenceId id, TokenId token);
  // After the last Resolve of a step.
  void CommitResolved();

  // Adds a sequence with the same tokens and blocks, which continues like any other; used for several samples. Call it
  // after Commit, for a running sequence that has all its tokens computed and awaits none. There is a place for as many
  // forks as its fork_count said when it was submitted, and for more while CanFork.
  [[nodiscard]] SequenceId Fork(SequenceId id);
  // Is there a place for a fork of this running sequence?
  [[nodiscard]] bool CanFork(SequenceId id) const;

  // Valid until it is removed.
  [[nodiscard]] const Sequence& Get(SequenceId id) const { return sequences_.At(id); }

  [[nodiscard]] std::uint32_t waiting_count() const { return waiting_.size(); }
  [[nodiscard]] std::uint32_t running_count() const { return static_cast<std::uint32_t>(running_.size()); }
  [[nodiscard]] const SchedulerCounters& counters() const { return counters_; }

  // The report of now, without what the last step did. Queued are the tokens of waiting sequences that were not cached
  // when they were last looked at, and those that running sequences still have to prefill.
  [[nodiscard]] wire::Load Load() const;

  // Calls visit(sequence, tokens) for the first `limit` that Load() counts as queued, with what each has to compute:
  // first those that run, then the others in the order in which they wait. O(running + limit · log waiting).
  template <typename Visit>
  void VisitQueued(std::size_t limit, Visit visit) const {
    for (const Sequence* sequence : running_) {
      const bool is_queued = !sequence->decoding() && sequence->remaining_count() > 0;
      if (!is_queued) continue;
      if (limit-- == 0) return;
      visit(*sequence, sequence->remaining_count());
    }
    for (const Sequence* next = waiting_.First(); next != nullptr && limit-- > 0; next = waiting_.After(next->rank)) {
      visit(*next, next->expected_uncached_count);
    }
  }

  // The cache's invariants against this scheduler's block tables, and the tables' own. O(blocks).
  [[nodiscard]] Result<void> CheckInvariants() const;

 private:
  [[nodiscard]] bool HasPlaceFor(std::uint32_t sequence_count) const;
  [[nodiscard]] std::uint32_t BlocksFor(std::uint32_t token_count) const;
  [[nodiscard]] std::uint32_t MatchableBlocks(const Sequence& sequence) const;
  [[nodiscard]] std::unique_ptr<Sequence> MakeSequence(SequenceSpec spec);

  void Append(Sequence& sequence, std::span<const TokenId> tokens) const;
  // ---- the running sequences (scheduler_running.cc) ----
  void PlanSlices();
  void PlanSlice(const Sequence& sequence, std::uint32_t token_count);

  // Allocates blocks for `token_count` more tokens, preempting from the back where needed. False: the sequence itself
  // was preempted.
  [[nodiscard]] bool SecureBlocks(Sequence& sequence, std::uint32_t token_count);
  [[nodiscard]] bool SecureBlock(Sequence& sequence);
  [[nodiscard]] bool MakeRoom(const Sequence& sequence);
  [[nodiscard]] bool OwnLastBlock(Sequence& sequence);
  void PreemptLast();
  void StorePartialBlock(const Sequence& sequence);
  void ReleaseBlocks(Sequence& sequence);
  void ExpectBack(const Sequence& sequence, const RequestRetention& retention);
  void WelcomeBack(std::uint64_t session);
  [[nodiscard]] RequestRetention RetentionOf(const Sequence& sequence) const;
  [[nodiscard]] RequestUse UseOf(const Sequence& sequence) const;

  void MatchAgain(Sequence& sequence);
  void TakeMatched(Sequence& sequence, BlockRef ref);
  void TakeTail(Sequence& sequence);
  void CountCached(Sequence& sequence);
  void CountComputed(const Sequence& sequence, const ScheduledSlice& slice);
  [[nodiscard]] MissReason ReasonOf(const Sequence& sequence, std::uint32_t block) const;
  [[nodiscard]] bool HasFullBlock(const Sequence& sequence) const;
  void HashFullBlock(Sequence& sequence) const;
  void CommitFullBlocks(Sequence& sequence);
  void ForgetDiscarded(Sequence& sequence) const;
  static void KeepOut(Sequence& sequence);

  // ---- admission (scheduler_admission.cc) ----
  // A running sequence whose prompt is computed in part.
  struct Partial {
    WaitingRank rank;
    Sequence* sequence;
  };
  enum class Admission : std::uint8_t {
    kStarted,
    kPassedOver,  // it can not start now, but one after it may
    kRefused,     // nor can one after it
  };

  void DealOut(std::uint32_t budget);
  // What sequences that are pressed for time were dealt, and whether one found no room.
  struct Pressing {
    std::uint32_t dealt_token_count = 0;
    bool lacks_room = false;
  };
  [[nodiscard]] Pressing DealToPressing(std::uint32_t budget);
  [[nodiscard]] double CollectPressing();
  void CollectWithoutToken();
  // What is left of a step. Admission depends on the budget alone, as if the step were full.
  struct Room {
    std::uint32_t budget = 0;     // for prompts
    std::uint32_t dealable = 0;   // of it, before the step ends
    std::uint32_t for_short = 0;  // of it, if the step is short
    std::uint32_t complete_count = 0;
    std::uint32_t scored_in_part = 0;  // prompts that get what is left of max_scored_tokens, and pause then
  };
  // `later_count` prompts come after it.
  void DealFrom(Room& room, Sequence& sequence, std::size_t later_count);
  [[nodiscard]] bool ShouldEnd(const Room& room, std::size_t later_count) const;
  // So many of `limit` tokens as it has left. Returns how many.
  std::uint32_t Deal(Sequence& sequence, std::uint32_t limit);
  // Of the tokens that it has left, those that may be in this step.
  [[nodiscard]] std::uint32_t DealableTo(const Sequence& sequence) const;
  [[nodiscard]] std::uint32_t SurveyRunning();
  void InsertPartial(Sequence& sequence);
  [[nodiscard]] static bool GoesBefore(const Sequence& waiting, const WaitingRank& running);
  [[nodiscard]] Admission TryAdmit(Sequence& sequence, std::uint32_t budget, std::size_t paused_count);
  [[nodiscard]] bool MayStartPrefill(const Sequence& sequence, std::uint32_t budget, std::size_t paused_count) const;
  [[nodiscard]] bool WritesToSharedBlock(const Sequence& sequence) const;
  void LookUp(Sequence& sequence);
  void WantMatched(Sequence& sequence);
  void UnwantAll(Sequence& sequence);
  [[nodiscard]] bool IsAwaitingPrefix(const Sequence& sequence) const;
  [[nodiscard]] bool IsBeingComputed(const Sequence::AwaitedPrefix& prefix) const;
  void AwaitIfBeingComputed(Sequence& sequence, std::uint32_t matched_count);
  [[nodiscard]] bool IsWorthWaiting(const Sequence::AwaitedPrefix& prefix) const;
  [[nodiscard]] Sequence::AwaitedPrefix Await(const Sequence& other, std::uint32_t block_count,
                                              std::uint32_t missing_count) const;
  // Blocks that a sequence needs to start, beside those of its match.
  struct Need {
    std::size_t block_count = 0;
    // Blocks of its match:
    std::size_t available_matched = 0;  // idle, neither held nor pinned
    std::size_t held_matched = 0;
    std::size_t unkept_matched = 0;  // idle or in use, neither held nor pinned
  };
  [[nodiscard]] Need NeedOf(const Sequence& sequence) const;
  [[nodiscard]] bool HasRoomFor(Sequence& sequence) const;
  [[nodiscard]] bool MayTakeHeld(Sequence& sequence, const Need& need) const;
  void Start(Sequence& sequence);
  void Expect(Sequence& sequence, std::uint32_t matched_count);

  PrefixCache& cache_;
  const SchedulerOptions options_;
  const std::uint32_t block_tokens_;

  Instant now_;
  SequenceIds ids_;
  SequenceSlots<Sequence> sequences_;
  WaitingQueue waiting_;
  SessionTable sessions_;
  std::vector<Sequence*> running_;  // in order of admission
  std::uint32_t coming_forks_ = 0;  // of running sequences
  std::uint32_t wanted_count_ = 0;  // blocks that waiting sequences want, counted for each
  std::uint64_t step_ = 0;
  std::uint32_t prefill_budget_;  // of the latest step, after its decodes
  double paced_seconds_ = 0;      // of steps with prefill, the older the less
  double paced_tokens_ = 0;       // in them
  RateEstimator rates_;
  std::uint64_t release_count_ = 0;  // times that a sequence let go of its blocks
  SchedulerCounters counters_;

  std::vector<ScheduledSlice> slices_;
  std::vector<ScheduledCopy> copies_;
  std::vector<Sequence*> pressing_;       // those that came first, by age
  std::vector<Partial> partial_;          // by rank
  std::uint32_t scored_room_ = 0;         // tokens that may still be scored in the step that is being planned
  std::size_t promised_block_count_ = 0;  // to running sequences, in the step that is being planned
  std::vector<SequenceId> resolved_;      // that have a block to commit
  std::vector<BlockRef> matched_;         // of the sequence that is being looked at
};

}  // namespace roost::worker
