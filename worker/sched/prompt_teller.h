// Tells one router in each load report what the others have queued at this worker: how much is left to compute and how
// long each prompt has waited, so that all routers see one queue; and once the hashes, so that requests of other
// routers follow a prefix while it is still being computed.
//
//   list 1   7: 900 tokens, hashes   8: 40 tokens, hashes
//   list 2   7: 500 tokens           8: 40 tokens           9: 60 tokens, hashes
//   list 3                           8: 40 tokens                                   the hashes of 7 and 9 are forgotten
//
// The router holds what the last list said: both sides follow the same lists, which are neither lost nor reordered
// within a link's life. A new life has a new teller.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "common/base/clock.h"
#include "common/prefix/block_hash.h"
#include "common/wire/messages.h"

namespace roost::worker {

// A prompt that is still to be computed.
struct QueuedPrompt {
  std::uint64_t id = 0;  // not 0, and of no other prompt of this worker, unless there are no hashes
  std::uint32_t uncached_tokens = 0;
  Instant submitted{};
  std::span<const BlockHash> hashes = {};  // front to back
};

class PromptTeller {
 public:
  // The next list, of the first wire::kMaxOtherPrompts of `prompts`, which stand in the order in which they run. The
  // first whose hashes fit beside those that hold (wire::kMaxOtherHashes) are told; the others when there is room.
  // O(prompts + hashes told).
  [[nodiscard]] std::vector<wire::OtherPrompt> Tell(std::span<const QueuedPrompt> prompts, Instant now);

 private:
  struct Told {
    std::size_t hash_count = 0;
    std::uint64_t list = 0;  // the last that had the prompt
  };

  void KeepThoseOf(std::span<const QueuedPrompt> prompts);
  [[nodiscard]] bool TakeHashes(const QueuedPrompt& prompt);

  std::unordered_map<std::uint64_t, Told> told_;  // by id: those whose hashes the router holds
  std::size_t hash_count_ = 0;                    // theirs
  std::uint64_t list_ = 0;                        // the number of the current one
};

}  // namespace roost::worker
