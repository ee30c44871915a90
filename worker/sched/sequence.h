// One request's sequence of tokens as the scheduler sees it, and where its KV is stored.
//
//   tokens      [0, prompt_token_count)                  the prompt
//               [prompt_token_count, tokens.size())      output so far; the last one may not be known yet
//   KV          [0, computed_token_count)                is in `blocks`; the rest is still to be computed
//   blocks      [0, committed_block_count)               full, ready in the cache, shared
//               [committed_block_count, blocks.size())   the sequence's own, or shared with its forks until one of them
//                                                        writes there
//
// Only the scheduler and its parts change it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/prefix/block_hash.h"
#include "common/wire/messages.h"
#include "worker/cache/prefix_cache.h"
#include "worker/engine_api/miss_reasons.h"
#include "worker/transfer/frame_source.h"

namespace roost::worker {

// Unique within a scheduler, never reused, ascending in order of arrival. See sequence_slots.h.
using SequenceId = StrongId<struct SequenceTag, std::uint64_t>;

// The time for which a sequence's blocks are retained after its end, and their priority for that time.
struct RetentionHint {
  std::uint32_t priority = kDefaultRetentionPriority;
  Duration duration = Duration(0);  // 0: no hint
};

// The properties of a new sequence.
struct SequenceSpec {
  BlockHash root;
  std::optional<OwnScope> own = {};
  std::vector<TokenId> prompt;
  std::vector<BlockHash> block_hashes = {};  // of the prompt's full blocks; computed here if their number is wrong
  std::optional<Instant> deadline = {};      // for waiting; see Scheduler::Expired
  std::uint32_t priority = 50;               // higher priorities are taken first
  wire::CacheMode cache_mode = wire::CacheMode::kOn;
  EvictionGroup group = EvictionGroup(0);
  std::string_view tenant = {};  // read by Submit alone
  RetentionHint prompt_retention = {};
  RetentionHint decode_retention = {};
  std::vector<FrontLifetime> lifetimes = {};  // of its prompt
  std::uint64_t session = 0;                  // see SessionTable; 0: none
  std::uint32_t fork_count = 0;               // number of Fork calls after the prompt has been computed
  std::uint32_t max_output_tokens = 0;  // only to reserve memory: no allocation for this much output while it runs
  bool scores_prompt = false;           // the logits of all prompt tokens are wanted
};

// The place of a waiting sequence: the lowest rank is taken first.
struct WaitingRank {
  enum class Class : std::uint8_t { kPreempted, kNew };
  Class standing = Class::kNew;
  std::int64_t lateness = 0;  // minus its priority
  std::int64_t key = 0;       // set by the policy
  std::int64_t order = 0;     // by arrival; among preempted sequences, the latest first
  auto operator<=>(const WaitingRank&) const = default;
};

// Orders sequences by priority, the higher first, and then by arrival.
struct SequenceAge {
  std::int64_t lateness = 0;
  SequenceId id;
  auto operator<=>(const SequenceAge&) const = default;
};

// Blocks first … end - 1 of a prompt; none by default.
struct BlockRange {
  std::uint32_t first = 0;
  std::uint32_t end = 0;

  [[nodiscard]] bool Contains(std::uint32_t block) const { return first <= block && block < end; }
};

// The arrival that a sequence waits for, and how much of it had come when the sequence could have begun: the first time
// that it was its turn.
struct AwaitedArrival {
  HoldId hold;
  std::optional<Instant> since = {};
  std::uint32_t first_position = 0;  // of the arrival's next block at that time
};

struct Sequence {
  enum class State : std::uint8_t { kWaiting, kRunning };

  // Blocks that this sequence will match as soon as `sequence` has computed its first `block_count` blocks, or the
  // arrival has brought them.
  struct AwaitedPrefix {
    SequenceId sequence;
    std::optional<AwaitedArrival> arrival = {};  // set: no sequence is awaited
    std::uint32_t block_count = 0;
    // Waiting is worth it until both have passed.
    std::uint64_t last_step = 0;
    Instant until = {};
  };

  // The fields that every step reads are next to each other.
  SequenceId id;
  std::vector<TokenId> tokens;
  std::uint32_t prompt_token_count = 0;
  std::uint32_t computed_token_count = 0;
  std::uint32_t committed_block_count = 0;
  std::uint32_t dealt_token_count = 0;        // its part of this step's prefill budget, until the step is planned
  std::optional<std::uint32_t> awaited_draw;  // the draw that gives the last token, until it is known
  std::vector<BlockId> blocks;
  std::uint32_t fork_count = 0;  // forks still to come
  bool forked = false;           // has forks or is one: others may hold its last block, even a partial one
  // False after a hash collision, and once a block has been discarded: what follows an uncommitted block can not be
  // committed.
  bool can_commit = true;
  bool is_erased = false;  // its text was erased on demand: it leaves nothing in the cache, also after a preemption
  std::optional<std::uint32_t> first_stored_block;  // the first block that it has added to the cache
  wire::CacheMode cache_mode = wire::CacheMode::kOn;
  State state = State::kWaiting;
  // Tokens whose logits are wanted, besides those of the last token: all of the prompt but its last token, or none. And
  // how many of them have been computed, and so are not wanted again.
  std::uint32_t scored_token_count = 0;
  std::uint32_t scored_so_far = 0;

  BlockHash root;
  std::optional<OwnScope> own;
  std::vector<BlockHash> hashes;  // of the prompt's full blocks and of every later one that filled
  std::uint32_t most_tokens = 0;  // that memory is reserved for while it runs
  std::optional<Instant> deadline;
  std::uint32_t priority = 50;  // rises when it has waited long, see WaitingQueue
  EvictionGroup group;
  TenantId tenant;
  RetentionHint prompt_retention;
  RetentionHint decode_retention;
  std::vector<FrontLifetime> lifetimes;
  std::uint64_t session = 0;

  // Prompt tokens that this sequence never computed, and how far into the prompt these have been counted. Recomputing
  // after a preemption changes neither.
  std::uint32_t cached_token_count = 0;
  std::uint32_t counted_token_count = 0;
  // Prompt tokens that this sequence computed and whose blocks it added to the cache; each block counts once.
  std::uint32_t written_token_count = 0;
  std::uint32_t written_block_end = 0;        // those before it have been counted, or are not its own
  std::uint32_t tail_end = 0;                 // the tokens before it in their block were copied, not computed
  MissReason first_miss = MissReason::kTail;  // of the first prompt token that was computed; tail: none else was
  // Blocks before this index are computed although another sequence was computing them, because waiting took too long.
  // 0: none.
  std::uint32_t given_up_block_count = 0;
  // Blocks that were to come from elsewhere; those that it computes have not arrived.
  BlockRange promised;

  // While waiting. Given way: others were preempted so that it can start.
  bool was_given_way = false;
  Instant arrival;
  WaitingRank rank;
  std::uint32_t expected_uncached_count = 0;
  std::optional<AwaitedPrefix> awaited;
  Duration awaited_arrivals{};               // so long its turn had come, and it waited for blocks from elsewhere
  std::vector<BlockRef> wanted;              // blocks of its match that the cache was asked to keep
  std::optional<Instant> hold_patience_end;  // set when held blocks leave no space; then it may take them

  [[nodiscard]] std::uint32_t token_count() const { return static_cast<std::uint32_t>(tokens.size()); }
  // The tokens of these that are known.
  [[nodiscard]] std::uint32_t known_count() const { return token_count() - (awaited_draw ? 1 : 0); }
  [[nodiscard]] std::uint32_t remaining_count() const { return token_count() - computed_token_count; }
  // True if only the newest token is left to compute, and it is an output token.
  [[nodiscard]] bool decoding() const { return remaining_count() == 1 && computed_token_count >= prompt_token_count; }
  [[nodiscard]] bool scoring() const { return scored_so_far < scored_token_count; }
  // The most blocks of a match: the last known token is always computed, and so is a token whose logits are still
  // wanted.
  [[nodiscard]] std::uint32_t MatchableBlocks(std::uint32_t block_tokens) const {
    return (scoring() ? scored_so_far : token_count() - 1) / block_tokens;
  }
  [[nodiscard]] bool uses_cache() const { return cache_mode == wire::CacheMode::kOn; }
  [[nodiscard]] SequenceAge age() const { return {-std::int64_t{priority}, id}; }
  [[nodiscard]] bool leaves_blocks() const { return uses_cache() && !is_erased; }
  [[nodiscard]] BlockChain chain() const { return {root, hashes, tokens, own, tenant}; }
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

}  // namespace roost::worker
