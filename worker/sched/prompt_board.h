// The prompts that a worker still has to compute, by the router that sent them, so that each router can be told of the
// others' prompts.
//
//   router ──► Arrive ──► the engine's inbox ──► the engine has it, says a report: Assign
//                              └── its link is gone: Remove
//
// The engine reports when a step ends, and requests that arrive during a step are in the report of the next. If routers
// heard of each other's requests so late, several would send one where there is room for one. So arrived requests are
// announced at once. A report lists the first kMaxReportedPrompts of the engine's queue; its load counts all.
//
// Not thread-safe. What it holds, and what it does for a report, is bounded by that list and by what arrives between
// two reports, not by what waits at the engine.
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
#include "worker/sched/prompt_teller.h"

namespace roost::worker {

// With the link by which it came.
struct OwnedPrompt {
  std::uint32_t link = 0;
  QueuedPrompt prompt;
  std::shared_ptr<const std::vector<BlockHash>> hashes;  // that `prompt` shows; null when it shows none
};

// What `generate` says of itself, which has come now. It has hashes if it is to leave blocks in the cache.
[[nodiscard]] OwnedPrompt PromptOf(const wire::Generate& generate, std::uint32_t link, std::uint64_t id, Instant now);

class PromptBoard {
 public:
  // At least between a message and the next one that only tells what has arrived.
  static constexpr Duration kNewsInterval = std::chrono::milliseconds(10);

  // A prompt that the engine has not received yet; its id is not 0, and larger than all before.
  void Arrive(OwnedPrompt prompt);
  // The front of the queue in the engine's next report, in the order in which it runs. The engine has received the
  // prompts up to `last_taken_id`, whether they are computed or not.
  void Assign(std::vector<OwnedPrompt> queue, std::uint64_t last_taken_id);
  // What has arrived, and was computed or is given up. Nothing if the engine has got it.
  void Remove(std::uint64_t id) { arrived_.erase(id); }
  void Clear();

  // Turns a load, as the engine reported it, into one for the router of `link`: it counts the requests that have
  // arrived from other routers, which that router can not know, and lists all of theirs. The router counts its own
  // arrived requests itself.
  void TellTo(std::uint32_t link, PromptTeller& teller, Instant now, wire::Load& load) const;

  [[nodiscard]] std::size_t arrived_count() const { return arrived_.size(); }

 private:
  std::vector<OwnedPrompt> queue_;
  std::map<std::uint64_t, OwnedPrompt> arrived_;  // by id
};

}  // namespace roost::worker
