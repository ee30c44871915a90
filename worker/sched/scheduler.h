// The scheduler: which tokens of which sequences are computed in the next step, and which blocks they lie in.
//
//   Submit ──▶ waiting ──admit──▶ running ──Remove──▶ gone
//                 ▲                  │
//                 └────preempt───────┘   (to the front; its committed blocks stay cached)
//
// One step: Schedule() → the model computes the slices → Commit() → Append() a sampled token or Remove() each sequence
// whose slice wants logits.
//
// - One token budget per step. Every decoding sequence gets its one token; the rest goes to prefill chunks in order of
//   admission, then to sequences newly admitted, first come, first served.
// - A sequence is admitted when its prompt fits the blocks that are free or evictable. When blocks run out all the
//   same (outputs grow), the sequence admitted last is preempted and recomputed later. So the one admitted first always
//   goes on, and every sequence ends.
// - Nothing is computed twice: a sequence whose next block is being computed by a running one waits until it is there
//   (or until the other is cancelled or preempted, and then it goes first); others may pass it meanwhile. The match
//   with the cache is repeated at every chunk, for what became ready since.
// - At least one token is left to compute, however much is cached: there would be no logits otherwise.
//
// Pure: no thread, no clock, no device. Not thread-safe. The cache outlives it. A step costs O(running sequences +
// kMaxPassedOver + blocks matched); a waiting sequence behind these costs nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "worker/cache/prefix_cache.h"
#include "worker/sched/sequence.h"

namespace roost::worker {

// How many waiting sequences one step passes over, because another computes their next block, to look for one that it
// can admit.
inline constexpr std::uint32_t kMaxPassedOver = 64;

struct SchedulerOptions {
  std::uint32_t max_batch_tokens = 512;
  // Never more than max_batch_tokens in effect: each decoding sequence has a token in every step.
  std::uint32_t max_running = 64;
  std::uint32_t max_waiting = 1024;
  std::uint32_t max_context_tokens = 0;  // prompt and output; the caller never appends beyond it
};

// Tokens first_position … first_position + token_count - 1 of `sequence`, to be computed in this step.
struct ScheduledSlice {
  const Sequence* sequence = nullptr;
  std::uint32_t first_position = 0;
  std::uint32_t token_count = 0;
  bool wants_logits = false;  // the slice ends with the sequence's last token
  bool is_decode = false;
};

class Scheduler {
 public:
  // The context must fit the pool: max_context_tokens <= block count · B.
  Scheduler(PrefixCache& cache, SchedulerOptions options);

  // kOverloaded when the queue is full, kContextTooLong when the sequence could never run, kInvalidArgument for an
  // empty prompt.
  [[nodiscard]] Result<SequenceId> Submit(SequenceSpec spec);

  // Forgets a sequence in whatever state it is, and releases what it holds. Not between Schedule and Commit.
  void Remove(SequenceId id);

  // The sequences without output that wait beyond their deadline. They wait on until they are removed.
  [[nodiscard]] std::vector<SequenceId> Expired(Instant now) const;

  // Chooses the slices of the next step and gives them their blocks. Valid until the next call; a slice's sequence as
  // long as it is not removed.
  [[nodiscard]] const std::vector<ScheduledSlice>& Schedule();

  // The slices have been computed: their full blocks enter the cache.
  void Commit();

  // A token that was sampled after a running sequence's last.
  void Append(SequenceId id, TokenId token);

  // Valid until it is removed.
  [[nodiscard]] const Sequence& Get(SequenceId id) const { return *sequences_.at(id); }

  [[nodiscard]] std::uint32_t waiting_count() const { return static_cast<std::uint32_t>(waiting_.size()); }
  [[nodiscard]] std::uint32_t running_count() const { return static_cast<std::uint32_t>(running_.size()); }
  [[nodiscard]] std::uint64_t preemption_count() const { return preemption_count_; }

  // Tokens of waiting sequences that were not cached when they were last looked at, and those that running sequences
  // still have to prefill.
  [[nodiscard]] std::uint64_t queued_prefill_tokens() const;
  // Tokens whose KV running sequences hold.
  [[nodiscard]] std::uint64_t running_context_tokens() const;

  // The cache's invariants against this scheduler's block tables, and the tables' own. O(blocks).
  [[nodiscard]] Result<void> CheckInvariants() const;

 private:
  [[nodiscard]] std::uint32_t BlocksFor(std::uint32_t token_count) const;
  [[nodiscard]] std::uint32_t MatchableBlocks(const Sequence& sequence) const;

  // Returns the budget left for new sequences.
  [[nodiscard]] std::uint32_t ScheduleRunning();
  void Admit(std::uint32_t budget);
  void PlanSlice(const Sequence& sequence, std::uint32_t token_count);

  // Blocks for `token_count` more tokens, at the price of preempting from the back. False: it had to go itself.
  [[nodiscard]] bool SecureBlocks(Sequence& sequence, std::uint32_t token_count);
  void PreemptLast();
  void ReleaseBlocks(Sequence& sequence);

  void MatchAgain(Sequence& sequence);
  void TakeMatched(Sequence& sequence, BlockRef ref);
  void CommitFullBlocks(Sequence& sequence);

  [[nodiscard]] bool IsAwaitingPrefix(const Sequence& sequence) const;
  void AwaitIfBeingComputed(Sequence& sequence, std::uint32_t matched_count);
  [[nodiscard]] bool HasRoomFor(const Sequence& sequence) const;
  void Start(Sequence& sequence);

  enum class QueueEnd { kFront, kBack };
  void Enqueue(Sequence& sequence, QueueEnd end);
  std::list<Sequence*>::iterator Dequeue(Sequence& sequence);
  void ExpectUncached(Sequence& sequence, std::uint32_t matched_count);

  PrefixCache& cache_;
  const SchedulerOptions options_;
  const std::uint32_t block_tokens_;

  std::unordered_map<SequenceId, std::unique_ptr<Sequence>> sequences_;
  std::list<Sequence*> waiting_;
  std::vector<Sequence*> running_;                      // in order of admission
  std::set<std::pair<Instant, SequenceId>> deadlines_;  // of waiting sequences without output
  std::uint64_t next_id_ = 0;
  std::uint64_t waiting_uncached_count_ = 0;
  std::uint64_t preemption_count_ = 0;
  std::uint64_t release_count_ = 0;  // times that a sequence let go of its blocks

  std::vector<ScheduledSlice> slices_;
  std::vector<BlockRef> matched_;  // of the sequence that is being looked at
};

}  // namespace roost::worker
