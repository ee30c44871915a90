// Tells one router in each load report what the other routers have queued at this worker: how much is left to compute
// and how long each prompt has waited, so that all routers see one queue. The hashes are sent once per prompt, so that
// requests of other routers follow a prefix while it is still being computed.
//
//   list 1   7: 900 tokens, hashes   8: 40 tokens, hashes
//   list 2   7: 500 tokens           8: 40 tokens           9: 60 tokens, hashes
//   list 3                           8: 40 tokens                                   the hashes of 7 and 9 are forgotten
//
// The router keeps what the last list said. Both sides follow the same lists, which are neither lost nor reordered
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
  std::uint64_t id = 0;  // not 0 and unique in this worker, unless there are no hashes
  std::uint32_t uncached_tokens = 0;
  Instant submitted{};
  std::span<const BlockHash> hashes = {};  // front to back
};

class PeerPromptSender {
 public:
  // Makes the next list, of the first wire::kMaxOtherPrompts of `prompts`, which are in the order in which they run.
  // Sends the hashes of the first prompts, as far as they fit beside those that the router holds
  // (wire::kMaxOtherHashes); the others follow when there is space. O(prompts + hashes sent).
  [[nodiscard]] std::vector<wire::OtherPrompt> Tell(std::span<const QueuedPrompt> prompts, Instant now);

 private:
  struct Told {
    std::size_t hash_count = 0;
    std::uint64_t list = 0;  // the last list with the prompt
  };

  void KeepThoseOf(std::span<const QueuedPrompt> prompts);
  [[nodiscard]] bool TakeHashes(const QueuedPrompt& prompt);

  std::unordered_map<std::uint64_t, Told> told_;  // by id: prompts whose hashes the router holds
  std::size_t hash_count_ = 0;                    // number of hashes that the router holds
  std::uint64_t list_ = 0;                        // number of the current list
};

}  // namespace roost::worker
