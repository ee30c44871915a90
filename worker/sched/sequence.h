// One request's sequence of tokens as the scheduler sees it, and where its KV lies.
//
//   tokens      [0, prompt_token_count)                  the prompt
//               [prompt_token_count, tokens.size())      output so far
//   KV          [0, computed_token_count)                lies in `blocks`; the rest is still to be computed
//   blocks      [0, committed_block_count)               full, ready in the cache, shared
//               [committed_block_count, blocks.size())   the sequence's own
//
// The scheduler alone changes it.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/prefix/block_hash.h"
#include "worker/cache/prefix_cache.h"

namespace roost::worker {

// Unique within a scheduler, never reused, growing in order of arrival.
using SequenceId = StrongId<struct SequenceTag, std::uint64_t>;

// What a new sequence brings along.
struct SequenceSpec {
  BlockHash root;
  std::vector<TokenId> prompt;
  std::vector<BlockHash> block_hashes;  // of the prompt's full blocks; if their number is wrong they are computed here
  std::optional<Instant> deadline;      // for waiting; see Scheduler::Expired
};

struct Sequence {
  enum class State { kWaiting, kRunning };

  // Blocks that this sequence will match as soon as `sequence` has computed its first `block_count`.
  struct AwaitedPrefix {
    SequenceId sequence;
    std::uint32_t block_count = 0;
  };

  SequenceId id;
  BlockHash root;
  std::vector<TokenId> tokens;
  std::uint32_t prompt_token_count = 0;
  std::vector<BlockHash> hashes;  // of the prompt's full blocks and of every later one that filled
  std::optional<Instant> deadline;

  State state = State::kWaiting;
  std::vector<BlockId> blocks;
  std::uint32_t computed_token_count = 0;
  std::uint32_t committed_block_count = 0;
  bool can_commit = true;  // false after a hash collision: what follows an uncommitted block can not be committed

  // Prompt tokens that this sequence never computed, and how far into the prompt that has been counted. A recomputation
  // after a preemption changes neither.
  std::uint32_t cached_token_count = 0;
  std::uint32_t counted_token_count = 0;

  // While waiting.
  std::list<Sequence*>::iterator place;
  std::uint32_t expected_uncached_count = 0;
  std::optional<AwaitedPrefix> awaited;

  [[nodiscard]] std::uint32_t token_count() const { return static_cast<std::uint32_t>(tokens.size()); }
  [[nodiscard]] std::uint32_t remaining_count() const { return token_count() - computed_token_count; }
  // Only the newest token is left to compute, and it is output.
  [[nodiscard]] bool decoding() const { return remaining_count() == 1 && computed_token_count >= prompt_token_count; }
  [[nodiscard]] BlockChain chain() const { return {root, hashes, tokens}; }
};

}  // namespace roost::worker
