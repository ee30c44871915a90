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
// - One token budget per step. Every decoding sequence gets its one token. The rest goes to prefill chunks of running
//   and newly admitted sequences, in the order of the WaitingQueue. So a partly computed prompt may pause, with its
//   blocks, for one that goes before it. There are at most max_partial_prefills such prompts, in addition to those that
//   would miss first_token_target.
// - A tenant that has computed most of the recent prompt tokens yields while requests of others are here (see
//   PromptMajority). Its prompts pause while others have had less time than these tokens took, as far as half a full
//   step back. From then on they get no more tokens in a step than take as long as the step takes besides them. So it
//   at most doubles the time of a step, and its paused prompts do not count against max_partial_prefills for others.
//   For half a minute after others were here its own steps are short too, so that a request that comes waits little
//   for the step under way: as short as costs little (see StepLength); beside decodes of its own, the fixed time of a
//   step is a 20th of them at most.
// - Running places and blocks have equal shares for the tenants that are here. For a sequence that its tenant's share
//   is for, and that lacks a place or blocks, the sequences admitted last of tenants above their shares are preempted,
//   but never a tenant's first. So long answers of one tenant do not keep another out.
// - A step that completes a prompt is short (short_step_tokens): the chunk of a long prompt that would fill it comes
//   with the next step. It is filled up if one more step would cost the waiting prompts more than the first token
//   gains.
// - A sequence is admitted when its prompt fits the free and evictable blocks. When blocks still run out (outputs
//   grow), the sequence admitted last is preempted and recomputed later, that of a tenant with more than its share
//   first. So the one admitted first always continues, and every sequence ends. Pins do not prevent that: they end if a
//   sequence that runs alone needs their blocks.
// - Held blocks (the minimum hold, see PrefixCache) are taken only for a sequence that could not run otherwise, the
//   oldest first. A waiting sequence without space waits while the running ones will free enough, but at most min_hold.
//   It takes held blocks at once when no sequence runs, or when all running ones together could not free enough. A
//   running sequence takes held blocks before another one is preempted and before pins end: a held block may save
//   computation later, a preemption costs it now. No other sequence overtakes one that lacks space, so holds never
//   starve one.
// - Nothing is computed twice: a sequence whose next block is being computed by a running one waits for it; if the
//   running one is cancelled or preempted, the waiting one goes first. Others may overtake it meanwhile. It waits at
//   most as long as computing these blocks itself would take, at the pace of recent steps. The match with the cache is
//   repeated at every chunk, for blocks that became ready since.
// - A sequence whose next block is arriving from elsewhere (see Arrivals) waits for it too, by the pace rule: while the
//   arrival has brought at least what would have been computed here since it was the sequence's turn, less a tenth of
//   the whole. Then it computes the rest. Arrivals give way first when a sequence needs room.
// - Tokens, not only blocks, are shared: where the match ends, the rows of the block with the most equal tokens are
//   copied into the sequence's own block (see PrefixCache::FindTail). Forks also share the partial block, until one
//   writes to it and gets a copy.
// - At least one token is left to compute, however much is cached, because its logits are needed.
// - A sequence whose prompt is scored needs the logits of all its tokens: it takes no cached block for those, and a
//   step computes few of them (max_scored_tokens), because each needs memory for its row.
// - The blocks that waiting sequences will hit are evicted after all others.
// - The retention of a session's last turn lasts until its next turn comes (see SessionTable).
//
// Pure: no thread, no clock, no device. Not thread-safe. The cache outlives it. A step costs O(running sequences +
// kMaxPassedOver + blocks matched), and allocates on the heap only when sequences arrive; waiting sequences beyond
// these cost nothing, unless several tenants are here: then a step looks at all of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/clock.h"
#include "common/base/rate_estimator.h"
#include "common/base/result.h"
#include "worker/cache/cache_eraser.h"
#include "worker/cache/prefix_cache.h"
#include "worker/engine_api/miss_reasons.h"
#include "worker/sched/arrivals.h"
#include "worker/sched/prompt_majority.h"
#include "worker/sched/sequence.h"
#include "worker/sched/sequence_slots.h"
#include "worker/sched/waiting_queue.h"

namespace roost::worker {

// The conversations whose next turn is expected, with what the cache retains for each until it comes. A turn replaces
// the previous one, so retention for a session ends when the session comes back, not when its time is over: parts of
// the conversation that the new prompt does not contain take no more space.
//
// At most kMaxSessions are expected; the blocks of further sessions are retained until their time is over.
//
// Every operation is O(log sessions).
class SessionTable {
 public:
  static constexpr std::size_t kMaxSessions = 65'536;

  // The last block of a turn in the cache, and its retention.
  struct Turn {
    BlockRef last;  // its last block
    RequestRetention retention;
  };

  // A turn of the session has ended. A turn without retention is not recorded.
  void Expect(std::uint64_t session, const Turn& turn);

  // The session is back: returns what its last turn left, if it is still expected.
  [[nodiscard]] std::optional<Turn> TakeBack(std::uint64_t session);

  // Forgets the sessions whose retention has ended; `now` never goes back.
  void AdvanceTo(Instant now);

  [[nodiscard]] std::size_t size() const { return turns_.size(); }

 private:
  struct Expected {
    Turn turn;
    std::multimap<Instant, std::uint64_t>::iterator end;
  };
  void Forget(std::unordered_map<std::uint64_t, Expected>::iterator session);

  std::unordered_map<std::uint64_t, Expected> turns_;
  std::multimap<Instant, std::uint64_t> ends_;  // end of retention and session
};

// The most waiting sequences that a step passes over, because another sequence computes their next block, in search of
// one that it can admit.
inline constexpr std::uint32_t kMaxPassedOver = 64;

// The prompt tokens of so many full steps are recent enough to make a tenant yield: see PromptMajority.
inline constexpr std::uint32_t kMajoritySteps = 8;

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
  std::uint64_t returned_sessions = 0;  // sessions whose retention ended because they came back
  std::uint64_t dropped_pins = 0;       // times that all pins ended because a sequence needed their blocks
};

// Tokens first_position … first_position + token_count - 1 of `sequence`, to be computed in this step.
struct ScheduledSlice {
  const Sequence* sequence = nullptr;
  std::uint32_t first_position = 0;
  std::uint32_t token_count = 0;
  bool wants_logits = false;  // the slice ends with the sequence's last token
  // Scored tokens of the prompt, from first_scored on. If logits are wanted, those of the last token come after them.
  std::uint32_t first_scored = 0;
  std::uint32_t scored_token_count = 0;
  bool is_decode = false;
};

// For each of these tokens of a prompt the tokens before it, added up: what attention reads.
[[nodiscard]] constexpr std::uint64_t TokensBefore(std::uint32_t first_position, std::uint32_t token_count) {
  const std::uint64_t count = token_count;
  return count * first_position + count * (count - 1) / 2;
}

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

  // Distrusts all that the sequence has computed, in any state: none of it stays in the cache, nor what others computed
  // behind it, which they keep for themselves. Remove the sequence afterwards. Not between Schedule and Commit.
  void Discard(SequenceId id);

  // The workers that blocks of its prompt came from, each once.
  [[nodiscard]] std::vector<SourceId> SourcesOf(const Sequence& sequence) const;
  // Distrusts all blocks that came from this source: they leave the cache with what was computed behind them, and what
  // still comes from there is not taken. Returns how many left. Not between Schedule and Commit. O(blocks).
  std::uint32_t DiscardFrom(SourceId source);

  // Erases a prompt, a block, or all blocks of a tenant, as much as the step's budget allows: see
  // PrefixCache::ErasePrompt. Call it again, with the same values, until it is complete. Not between Schedule and
  // Commit. Call KeepOut first, once: then no sequence that is here now, waiting or running, leaves blocks of it in the
  // cache from now on, also after a preemption. O(sequences).
  void KeepOut(const BlockChain& prompt);
  void KeepOut(std::string_view tenant);
  void KeepOut(BlockHash block);
  [[nodiscard]] EraseProgress Erase(const BlockChain& prompt, EraseStep& step);
  [[nodiscard]] EraseProgress Erase(std::string_view tenant, EraseStep& step);
  // See PrefixCache::EraseChain.
  [[nodiscard]] EraseProgress EraseChain(std::span<const BlockHash> chain, EraseStep& step);

  // The sequences without output that wait beyond their deadline. They keep waiting until they are removed.
  [[nodiscard]] std::vector<SequenceId> Expired(Instant now) const { return waiting_.Expired(now); }

  // Blocks that come from elsewhere. Advance it before Schedule.
  [[nodiscard]] Arrivals& arrivals() { return arrivals_; }
  [[nodiscard]] const Arrivals& arrivals() const { return arrivals_; }
  // True if a sequence has this block at this place and has not committed it yet. O(sequences).
  [[nodiscard]] bool Wants(BlockHash block, std::uint32_t position) const;
  // Set if the latest Schedule found nothing to compute because sequences wait for arrivals alone: the first time at
  // which one of them stops waiting if no block comes.
  [[nodiscard]] std::optional<Instant> AwaitsArrivalsUntil() const { return arrivals_awaited_until_; }

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

  // The time that prefill of this many tokens would take at the pace of recent steps, beside other tokens of a step;
  // zero until that is known.
  [[nodiscard]] double PrefillSecondsOf(std::uint32_t token_count) const;

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
  [[nodiscard]] const Sequence& Get(SequenceId id) const { return sequences_.At(id); }
  [[nodiscard]] std::string_view TenantOf(const Sequence& sequence) const {
    return cache_.tenants().name(sequence.tenant);
  }

  [[nodiscard]] std::uint32_t waiting_count() const { return waiting_.size(); }
  [[nodiscard]] std::uint32_t running_count() const { return static_cast<std::uint32_t>(running_.size()); }
  [[nodiscard]] const SchedulerCounters& counters() const { return counters_; }

  // The present load, without the numbers of the last step. Queued tokens are those of waiting sequences that were not
  // cached when the scheduler last looked, and those that running sequences still have to prefill.
  [[nodiscard]] wire::Load Load() const;

  // Calls visit(sequence, tokens) for the first `limit` sequences that Load() counts as queued, with the tokens that
  // each has to compute: first those that run, then the others in queue order. O(running + limit · log waiting).
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

  // Checks the cache's invariants against this scheduler's block tables, and the tables' own. O(blocks).
  [[nodiscard]] Result<void> CheckInvariants() const;

 private:
  // Each running sequence needs a token in every step.
  [[nodiscard]] std::uint32_t MostRunning() const { return std::min(options_.max_running, options_.max_batch_tokens); }
  [[nodiscard]] bool HasPlaceFor(std::uint32_t sequence_count) const;
  [[nodiscard]] std::uint32_t BlocksFor(std::uint32_t token_count) const;
  [[nodiscard]] std::uint32_t MatchableBlocks(const Sequence& sequence) const;
  [[nodiscard]] std::unique_ptr<Sequence> MakeSequence(SequenceSpec spec);

  void Append(Sequence& sequence, std::span<const TokenId> tokens) const;
  // ---- the running sequences (scheduler_running.cc) ----
  void NoteDepth(const StepSample& step, std::uint64_t tokens_before);
  void PlanSlices();
  void PlanSlice(const Sequence& sequence, std::uint32_t token_count);

  // Allocates blocks for `token_count` more tokens, and preempts the last sequences if necessary. False: the sequence
  // itself was preempted.
  [[nodiscard]] bool SecureBlocks(Sequence& sequence, std::uint32_t token_count);
  [[nodiscard]] bool SecureBlock(Sequence& sequence);
  [[nodiscard]] bool MakeRoom(const Sequence& sequence);
  [[nodiscard]] bool OwnLastBlock(Sequence& sequence);
  void Preempt(Sequence& sequence);
  void StorePartialBlock(const Sequence& sequence);
  void ReleaseBlocks(Sequence& sequence);
  void ExpectBack(const Sequence& sequence, const RequestRetention& retention);
  void OnSessionReturn(std::uint64_t session);
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
  void ForgetDiscarded();
  void ForgetDiscarded(Sequence& sequence) const;
  static void KeepOut(Sequence& sequence);

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

  void DealOut(std::uint32_t budget);
  // The tokens dealt to sequences that would miss first_token_target, and whether one of them lacked space.
  struct LateWork {
    std::uint32_t dealt_token_count = 0;
    bool lacks_room = false;
  };
  [[nodiscard]] LateWork ScheduleLate(std::uint32_t budget);
  [[nodiscard]] double CollectLate();
  void CollectWithoutToken();
  // The room that is left in a step. Admission depends only on the budget, as if the step were full.
  struct Room {
    std::uint32_t budget = 0;     // for prompts, in a full step
    std::uint32_t dealable = 0;   // the part that may still be dealt before the step ends
    std::uint32_t for_short = 0;  // the part that may be dealt if the step is short
    std::uint32_t complete_count = 0;
    std::uint32_t scored_in_part = 0;   // prompts that got the rest of max_scored_tokens and now pause
    std::uint32_t yielded_in_part = 0;  // the same of what the tenant that yields may have
  };
  // `later_count` prompts come after it.
  void DealFrom(Room& room, Sequence& sequence, std::size_t later_count);
  [[nodiscard]] bool ShouldEnd(const Room& room, std::size_t later_count) const;
  // Deals at most `limit` tokens of those that the sequence has left. Returns how many.
  std::uint32_t Deal(Sequence& sequence, std::uint32_t limit);
  // The most of its remaining tokens that may be in this step.
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
  void LookUpLeftBehind();
  [[nodiscard]] bool AwaitIfArriving(Sequence& sequence, std::uint32_t matched_count);
  static void Promise(Sequence& sequence, BlockRange blocks);
  [[nodiscard]] bool IsWorthWaiting(const Sequence::AwaitedPrefix& prefix) const;
  [[nodiscard]] Instant PatienceWith(const Sequence::AwaitedPrefix& prefix) const;
  [[nodiscard]] double SecondsPerPromptToken() const;
  void BeginWait(Sequence::AwaitedPrefix& prefix);
  [[nodiscard]] Sequence::AwaitedPrefix Await(const Sequence& other, std::uint32_t block_count,
                                              std::uint32_t missing_count) const;
  // Blocks that a sequence needs to start, besides those of its match.
  struct Need {
    std::size_t block_count = 0;
    // Blocks of its match:
    std::size_t available_matched = 0;  // idle, neither held nor pinned
    std::size_t held_matched = 0;
    std::size_t unkept_matched = 0;  // idle or in use, neither held nor pinned
  };
  [[nodiscard]] Need NeedOf(const Sequence& sequence) const;
  [[nodiscard]] bool HasRoomFor(Sequence& sequence) const;
  [[nodiscard]] bool MakeRoomFor(Sequence& sequence);
  [[nodiscard]] bool MayTakeHeld(Sequence& sequence, const Need& need) const;
  void Start(Sequence& sequence);
  void Expect(Sequence& sequence, std::uint32_t matched_count);

  // ---- tenants' shares (scheduler_shares.cc) ----
  [[nodiscard]] bool Yields(const Sequence& sequence) const { return yielding_ == sequence.tenant; }
  [[nodiscard]] std::uint32_t RoomForYielding(std::uint32_t decode_count) const;
  // The most prompt tokens of a step that the tenant with the majority has for itself while others may come.
  [[nodiscard]] std::uint32_t RoomForMajority(std::uint32_t decode_count);
  void DealOutShares(std::uint32_t budget, std::uint32_t decode_count);
  [[nodiscard]] bool ServesOthers() const;
  void CountOwed();
  // The prompts that pause if this one is computed in part, when the first `served` of partial_ have had their turns.
  [[nodiscard]] std::size_t PausedBehind(const Sequence& sequence, std::size_t served, const Room& room) const;
  // Places and blocks of running sequences, of a tenant or as a share.
  struct Use {
    TenantId tenant = {};
    std::uint32_t place_count = 0;
    std::size_t block_count = 0;
  };
  // Both return the tokens dealt.
  [[nodiscard]] std::uint32_t ScheduleShares(std::uint32_t budget);
  [[nodiscard]] std::uint32_t StartFirst(Sequence& sequence, std::uint32_t budget);
  [[nodiscard]] bool MayLack(const Sequence& sequence) const;
  void SurveyUse();
  // Valid until the next call.
  [[nodiscard]] Use& UseOfTenant(TenantId tenant);
  [[nodiscard]] bool IsWithinShare(const Sequence& sequence);
  [[nodiscard]] bool GiveUpFor(Sequence& sequence, std::uint32_t budget);
  [[nodiscard]] std::uint32_t LackingPlaces(const Sequence& sequence) const;
  [[nodiscard]] std::size_t LackingBlocks(Sequence& sequence) const;
  [[nodiscard]] std::size_t FreedBy(const Sequence& sequence) const;
  [[nodiscard]] bool IsFirstOfTenant(std::size_t running_index) const;
  [[nodiscard]] Sequence& VictimFor(const Sequence& sequence);

  PrefixCache& cache_;
  const SchedulerOptions options_;
  const std::uint32_t block_tokens_;

  Instant now_;
  SequenceIds ids_;
  SequenceSlots<Sequence> sequences_;
  WaitingQueue waiting_;
  SessionTable sessions_;
  PromptMajority majority_;
  std::vector<Sequence*> running_;  // in order of admission
  std::uint32_t coming_forks_ = 0;  // forks that running sequences still expect
  std::uint32_t wanted_count_ = 0;  // blocks that waiting sequences want, counted once per sequence
  std::uint64_t step_ = 0;
  std::uint32_t prefill_budget_;  // the latest step's, after its decodes
  double paced_seconds_ = 0;      // time of steps with prefill; older steps weigh less
  double paced_tokens_ = 0;       // prompt tokens of these steps
  RateEstimator rates_;
  RateEstimator depth_rates_;  // of steps with prefill; its context tokens are their tokens before
  double depth_seconds_ = 0;   // time of these steps; older ones weigh less
  double depth_tokens_ = 0;    // prompt tokens of these steps
  std::uint64_t prefill_steps_ = 0;
  std::uint64_t release_count_ = 0;  // times that a sequence, or an arrival, released its blocks
  Arrivals arrivals_{cache_, release_count_};
  std::optional<Instant> arrivals_awaited_until_;  // of the latest step: the first end of a wait for an arrival
  SchedulerCounters counters_;

  std::vector<ScheduledSlice> slices_;
  std::vector<ScheduledCopy> copies_;
  std::vector<Sequence*> late_;           // sequences that would miss first_token_target, by age
  std::vector<Partial> partial_;          // by rank
  std::vector<Use> uses_;                 // of tenants with running sequences
  Use share_;                             // of each tenant that is here
  std::vector<Sequence*> giving_;         // sequences that give up their places or blocks
  std::uint32_t scored_room_ = 0;         // tokens that may still be scored in the planned step
  std::optional<TenantId> yielding_;      // in the planned step
  std::uint32_t yielding_room_ = 0;       // prompt tokens that it may still have there
  StepLength majority_step_;              // of the tenant with the majority, while others may come
  bool is_shortened_ = false;             // the planned step is of that length at most
  std::optional<Instant> others_seen_;    // others than the tenant with the majority: when they were last here
  std::optional<TenantId> owing_;         // the tenant with the majority, as of the latest step
  std::uint32_t owed_ = 0;                // tokens' time that it owes to others
  std::size_t promised_block_count_ = 0;  // promised to running sequences in the planned step
  std::vector<SequenceId> resolved_;      // sequences that have a block to commit
  std::vector<BlockRef> matched_;         // match of the sequence that is being considered
};

}  // namespace roost::worker
