// Guesses what workers hold from what this router sent them. It keeps the blocks of each worker's most recent requests,
// up to a bound, and forgets the least recently sent blocks first.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "common/base/ids.h"
#include "common/prefix/block_hash.h"
#include "router/route/worker_view.h"

namespace roost::router {

class ApproximateTree {
 public:
  explicit ApproximateTree(std::size_t max_blocks_per_worker) : max_blocks_(max_blocks_per_worker) {}

  struct Match {
    WorkerSlot slot;
    std::size_t block_count = 0;
  };
  // The deepest block of the chain that was sent to any worker, and the worker that got it last. O(blocks).
  [[nodiscard]] std::optional<Match> Find(std::span<const BlockHash> block_hashes) const;

  // Call it when the chain is sent to this worker. A new epoch forgets what its slot had. O(blocks).
  void Add(const WorkerView& worker, std::span<const BlockHash> block_hashes);

  [[nodiscard]] std::size_t block_count(WorkerSlot slot) const;

 private:
  using Recency = std::list<std::uint64_t>;  // block keys, most recently sent first
  struct Share {
    std::uint64_t epoch = 0;
    Recency recency;
    std::unordered_map<std::uint64_t, Recency::iterator> place;
  };

  void Touch(WorkerSlot slot, Share& share, std::uint64_t key);
  void ForgetOldest(WorkerSlot slot, Share& share);

  const std::size_t max_blocks_;
  std::unordered_map<WorkerSlot, Share> shares_;
  std::unordered_map<std::uint64_t, std::vector<WorkerSlot>> holders_;  // the one that got the block last is at the end
};

}  // namespace roost::router
