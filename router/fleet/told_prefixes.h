// The prefixes that a worker is computing for other routers, as its load reports tell: siblings that come by this
// router follow them there like those that it sent itself.
//
// A worker lists what the others have queued in each report, and tells the hashes of a prompt once. They are pending
// until a list lacks the prompt: it was computed, and the report's events have told of its blocks, or it was cancelled.
//
// Not thread-safe. What it is given outlives it. Bounded by what a worker may tell: wire::kMaxOtherHashes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "common/base/ids.h"
#include "common/prefix/block_hash.h"
#include "common/wire/messages.h"
#include "router/index/pending_prefixes.h"

namespace roost::router {

class ToldPrefixes {
 public:
  ToldPrefixes(PendingPrefixes& pending, WorkerSlot worker) : pending_(pending), worker_(worker) {}

  // The list of the next report. O(prompts), and for each new one what PendingPrefixes::Add takes.
  void Follow(std::vector<wire::OtherPrompt> prompts);

  [[nodiscard]] std::size_t size() const { return told_.size(); }

 private:
  struct Told {
    std::vector<BlockHash> hashes;
    PendingPrefixes::Guard pending;  // of the hashes, so it goes first
    std::uint64_t list = 0;          // the last that had it
  };

  void KeepThoseOf(const std::vector<wire::OtherPrompt>& prompts);

  PendingPrefixes& pending_;
  const WorkerSlot worker_;
  std::unordered_map<std::uint64_t, Told> told_;  // by the worker's id
  std::size_t hash_count_ = 0;
  std::uint64_t list_ = 0;  // the number of the current one
};

}  // namespace roost::router
