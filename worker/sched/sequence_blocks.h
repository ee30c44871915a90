// The blocks of sequences: what a sequence takes from the cache, what it commits to it, and what it leaves there.
//
//   TakeMatch ─▶ [matched │ tail] ─ Grow, Commit … ─▶ [matched │ tail │ computed │ part] ─ Release ─▶ the cache keeps
//   all
//
// - Tokens, not only blocks, are shared: where the match ends, the rows of the block with the most equal tokens are
//   copied into the sequence's own block (see PrefixCache::FindTail). Forks also share the partial block, until one
//   writes to it and gets a copy.
// - At least one token is left to compute, however much is cached, because its logits are needed. A sequence whose
//   prompt is scored needs the logits of all its tokens, so it takes no cached block for those.
// - The blocks that waiting sequences will hit are evicted after all others; at most half of the pool.
// - The retention of a session's last turn lasts until its next turn comes.
//
// Decides nothing: who runs, and who gives up blocks, is the scheduler's. Not thread-safe. The cache outlives it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "common/base/clock.h"
#include "worker/cache/prefix_cache.h"
#include "worker/engine_api/miss_reasons.h"
#include "worker/sched/sequence.h"

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

// Totals since construction.
struct SchedulerCounters {
  std::uint64_t preemptions = 0;
  MissCounts computed_prompt_tokens{};  // by reason
  std::uint64_t tail_cached_tokens = 0;
  std::uint64_t returned_sessions = 0;  // sessions whose retention ended because they came back
  std::uint64_t dropped_pins = 0;       // times that all pins ended because a sequence needed their blocks
};

// Rows to copy before the slices are computed, in order.
struct ScheduledCopy {
  BlockId from;
  BlockId to;
  std::uint32_t row_count = 0;
};

class SequenceBlocks {
 public:
  // `release_count` counts the times that a sequence, or an arrival, released its blocks; see RequestUse. `copies` gets
  // the copies of a step. All outlive it.
  SequenceBlocks(PrefixCache& cache, std::uint64_t& release_count, std::vector<ScheduledCopy>& copies,
                 SchedulerCounters& counters)
      : cache_(cache),
        block_tokens_(cache.block_tokens()),
        release_count_(release_count),
        copies_(copies),
        counters_(counters) {}

  void AdvanceTo(Instant now);
  [[nodiscard]] std::uint32_t BlocksFor(std::uint32_t token_count) const;
  // The next token goes to a partly filled block that forks share.
  [[nodiscard]] bool WritesToSharedBlock(const Sequence& sequence) const;
  // The blocks that the sequence needs besides its own, with this step's.
  [[nodiscard]] std::size_t MissingBlocks(const Sequence& sequence) const;

  // ---- a waiting sequence ----

  // Asks the cache to keep these blocks, which the sequence will hit.
  void Want(Sequence& sequence, const std::vector<BlockRef>& matched);
  void UnwantAll(Sequence& sequence);
  // A turn of the session has come: ends what the cache retains for it.
  void OnSessionReturn(std::uint64_t session);

  // ---- a running sequence ----

  // Takes its match, and the tail behind it if that leaves room for the rest.
  void TakeMatch(Sequence& sequence, const std::vector<BlockRef>& matched);
  // Replaces blocks that were still to be computed by blocks that became ready since the last chunk; a partly filled
  // own block is replaced too.
  void MatchAgain(Sequence& sequence);
  // Adds an empty block. False when none can be had.
  [[nodiscard]] bool Grow(Sequence& sequence);
  // Replaces the last block, which forks share, by a copy. The shared block stays unchanged until the copy is made,
  // because copies are made before anything is computed. False when no block can be had.
  [[nodiscard]] bool CopyLast(Sequence& sequence);
  // The slice has been computed, or will be before anything that is planned from now on.
  void CommitSlice(Sequence& sequence, const ScheduledSlice& slice);
  // True if there is a block to commit, which is hashed then, and what Commit reads is fetched ahead.
  [[nodiscard]] bool PrepareCommit(Sequence& sequence);
  void Commit(Sequence& sequence);
  // Lets all blocks go. The sequence begins from the front again, or is gone.
  void Release(Sequence& sequence);

 private:
  void TakeMatched(Sequence& sequence, BlockRef ref);
  void TakeTail(Sequence& sequence);
  void CountCached(Sequence& sequence);
  void CountComputed(Sequence& sequence, const ScheduledSlice& slice);
  void CountWritten(Sequence& sequence, std::uint32_t index) const;
  [[nodiscard]] MissReason ReasonOf(const Sequence& sequence, std::uint32_t block) const;
  [[nodiscard]] bool HasFullBlock(const Sequence& sequence) const;
  void HashFullBlock(Sequence& sequence) const;
  void StorePartialBlock(const Sequence& sequence);
  void ExpectBack(const Sequence& sequence, const RequestRetention& retention);
  [[nodiscard]] RequestRetention RetentionOf(const Sequence& sequence) const;
  [[nodiscard]] RequestUse UseOf(const Sequence& sequence) const;

  PrefixCache& cache_;
  const std::uint32_t block_tokens_;
  std::uint64_t& release_count_;
  std::vector<ScheduledCopy>& copies_;
  SchedulerCounters& counters_;
  SessionTable sessions_;
  Instant now_;
  std::uint32_t wanted_count_ = 0;  // blocks that waiting sequences want, counted once per sequence
};

}  // namespace roost::worker
