// Tells ReadableBlocks which of the cache's blocks other threads may read.
//
//   commit while step n is the last that has begun ─▶ published when step n has finished, if it is still ready
//   leaves the tree                                ─▶ retracted before the next step begins, which may write to it
//
// Not thread-safe: the engine's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "worker/cache/prefix_cache.h"
#include "worker/transfer/readable_blocks.h"

namespace roost::worker {

class BlockPublisher {
 public:
  // Both outlive it. Without `readable` it does nothing.
  BlockPublisher(PrefixCache& cache, ReadableBlocks* readable);

  // The model begins the next step. Waits for copies of blocks that the step may write to.
  void OnBegin();
  // The oldest step that has begun is finished.
  void OnFinish() { ++finished_count_; }
  // At the end of the engine's step: publishes what is written, and retracts what has left.
  void Publish();

 private:
  struct Stored {
    BlockRef block;
    std::uint64_t step = 0;  // that may still be writing it
  };

  void TakeChanges();

  PrefixCache& cache_;
  ReadableBlocks* const readable_;
  std::uint64_t begun_count_ = 0;
  std::uint64_t finished_count_ = 0;
  std::deque<Stored> stored_;              // by step
  std::vector<PublishedBlock> published_;  // memory that is used again
};

}  // namespace roost::worker
