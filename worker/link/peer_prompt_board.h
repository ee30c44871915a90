// The prompts that a worker still has to compute, by the router that sent them, so that each router can be told how
// much is left of its own, and about the others' prompts.
//
//   router ──► Arrive ──► the engine's inbox ──► a report says that the engine has it: Assign
//                              └── its link has ended: Remove
//
// The engine reports when a step ends, and requests that arrive during a step are in the report of the next step. If
// routers heard of each other's requests so late, several would send one where there is space for one. So arrived
// requests are announced at once. A report lists the first kMaxReportedPrompts of the engine's queue; its load counts
// all.
//
// Not thread-safe. Its size, and its work per report, depend on that list and on what arrives between two reports, not
// on the length of the engine's queue.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "common/base/clock.h"
#include "common/prefix/block_hash.h"
#include "common/wire/messages.h"
#include "worker/link/peer_prompt_sender.h"

namespace roost::worker {

// A prompt, the link on which it came, and its name there.
struct OwnedPrompt {
  std::uint32_t link = 0;
  RequestId request;
  QueuedPrompt prompt;
  std::shared_ptr<const std::vector<BlockHash>> hashes;  // owns the hashes of `prompt`; null when it has none
};

// The prompt of a request that arrives now. It has hashes if the request may leave blocks in the cache.
[[nodiscard]] OwnedPrompt PromptOf(const wire::Generate& generate, std::uint32_t link, std::uint64_t id, Instant now);

class PeerPromptBoard {
 public:
  // The least time between a message and the next one that only announces arrivals.
  static constexpr Duration kNewsInterval = std::chrono::milliseconds(10);

  // A prompt that the engine has not received yet. Its id is not 0, and larger than all earlier ids.
  void Arrive(OwnedPrompt prompt);
  // The front of the queue in the engine's next report, in the order in which it runs. The engine has received the
  // prompts up to `last_taken_id`, whether they have been computed or not.
  void Assign(std::vector<OwnedPrompt> queue, std::uint64_t last_taken_id);
  // Removes an arrived prompt that was computed or given up. Does nothing if the engine has received it.
  void Remove(std::uint64_t id) { arrived_.erase(id); }

  // Turns a load from the engine's report into one for the router of `link`: adds the requests that have arrived from
  // other routers, which that router can not know, and lists all prompts of theirs, and its own ones that the engine
  // has. The router counts its own arrived requests itself.
  void TellTo(std::uint32_t link, PeerPromptSender& teller, Instant now, wire::Load& load) const;

  [[nodiscard]] std::size_t arrived_count() const { return arrived_.size(); }

 private:
  std::vector<OwnedPrompt> queue_;
  std::map<std::uint64_t, OwnedPrompt> arrived_;  // by id
};

}  // namespace roost::worker
