// The prefixes that a worker is computing for other routers, as its load reports list them. Requests with the same
// prefix go to that worker, just as they follow this router's own requests.
//
// In each report a worker lists the prompts that other routers have queued there; it sends the hashes of a prompt once.
// The hashes are pending until a list lacks the prompt. Then it was cancelled, or it was computed and the report's
// events contain its blocks.
//
// Not thread-safe. The constructor's arguments outlive it. wire::kMaxOtherHashes bounds its memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "common/base/ids.h"
#include "common/prefix/block_hash.h"
#include "common/wire/messages.h"
#include "router/index/pending_prefixes.h"

namespace roost::router {

class PeerPrompts {
 public:
  // With kWhole a request goes on only behind a whole prompt; see PendingPrefixes::AddWhole.
  enum class GoesOn : std::uint8_t { kAnywhere, kWhole };
  PeerPrompts(PendingPrefixes& pending, WorkerSlot worker, GoesOn goes_on = GoesOn::kAnywhere)
      : pending_(pending), worker_(worker), only_whole_(goes_on == GoesOn::kWhole) {}

  // Applies the list of the next report. O(prompts), plus PendingPrefixes::Add for each new prompt.
  void Follow(std::vector<wire::OtherPrompt> prompts);

  // Those with such hashes are not pending any more: the worker computes them and keeps no block. O(prompts).
  void Forget(const std::function<bool(std::span<const BlockHash>)>& is_meant);

  [[nodiscard]] std::size_t size() const { return told_.size(); }

 private:
  struct Told {
    std::vector<BlockHash> hashes;
    PendingPrefixes::Guard pending;  // refers to the hashes, so it is destroyed first
    std::uint64_t list = 0;          // the last list with this prompt
  };

  void KeepThoseOf(const std::vector<wire::OtherPrompt>& prompts);

  PendingPrefixes& pending_;
  const WorkerSlot worker_;
  const bool only_whole_;
  std::unordered_map<std::uint64_t, Told> told_;  // by the worker's id
  std::size_t hash_count_ = 0;
  std::uint64_t list_ = 0;  // the number of the current list
};

}  // namespace roost::router
