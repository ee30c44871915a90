// A worker's disk on virtual time: what worker/disk does with segments and a thread, without bytes.
//
//   a request ends ─▶ queue: found blocks first, then the others ─▶ write, one after the other ─▶ the newest segment
//   a restore      ─▶ read, front to back, one after the other   ─▶ news for the worker's engine
//
// A block is written while the pool still has it, and only behind its parent, so the disk's set is closed. The queue is
// at most a quarter of the pool; when it is full the newest of the others goes. When the disk is full the oldest
// segment goes: a block of it that was used since it was written is written again, any other goes with all that
// continues it. Reading and writing take a block's bytes by the disk's rate each, and do not slow each other.
//
// It outlives the worker's process: Attach and Detach begin and end one. Runs on one Timeline, which outlives it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common/prefix/block_hash.h"
#include "common/wire/messages.h"
#include "deploy/roostctl/simulate/timeline.h"
#include "worker/cache/prefix_cache.h"
#include "worker/transfer/frame_source.h"

namespace roost::simulate {

struct DiskOptions {
  std::uint64_t tokens = 0;  // 0: no disk
  double gigabits_per_second = 0;

  [[nodiscard]] bool is_on() const { return tokens > 0; }
};

class BlockDisk {
 public:
  // At least a segment, whatever `options` say.
  BlockDisk(const DiskOptions& options, std::uint32_t block_tokens, std::uint64_t frame_bytes, Timeline& timeline);

  // ---- for the worker's engine ----

  // The cache outlives the attachment. `tell` takes the news of restores.
  void Attach(worker::PrefixCache& cache, std::function<void(worker::FrameNews)> tell);
  void Detach();
  // A request has ended that held these blocks of `hashes`, front to back, and found the first of them in the cache.
  void Release(std::span<const worker::BlockRef> blocks, std::span<const BlockHash> hashes, std::uint32_t found_count);
  // Leading blocks that it has.
  [[nodiscard]] std::uint32_t CountFront(std::span<const BlockHash> hashes) const;
  void Ask(worker::HoldId id, worker::FrameChain chain);
  void Cancel(worker::HoldId id);

  // ---- for the worker's reports ----

  // The changes since the last call.
  [[nodiscard]] std::vector<wire::CacheEvent> TakeEvents() { return std::exchange(events_, {}); }
  // All of it, parents before children.
  [[nodiscard]] std::vector<wire::StoredRun> Runs() const;
  void Tell(wire::Load& load) const;

  [[nodiscard]] std::uint64_t written_block_count() const { return written_block_count_; }

 private:
  struct Entry {
    worker::FrameBlock about;
    std::vector<TokenId> tokens;
    std::uint64_t segment = 0;
    bool is_used = false;  // since it was written
    std::vector<BlockHash> children;
  };
  struct Queued {
    worker::BlockRef ref;
    BlockHash hash;
  };
  struct Restore {
    worker::HoldId id;
    worker::FrameChain chain;
    std::uint32_t next = 0;
  };

  void Queue(const Queued& block, bool was_found);
  [[nodiscard]] std::optional<Queued> TakeQueued();
  void StartWrite();
  void Write(const Queued& block);
  void Append(BlockHash hash, Entry& entry);
  // Frees the oldest segment. False when all of it is written again.
  void MakeRoom();
  void Drop(BlockHash hash);
  void StartRead();
  void Read();

  const std::size_t most_blocks_;
  const std::size_t segment_blocks_;
  const std::uint64_t frame_bytes_;
  const double bytes_per_second_;
  Timeline& timeline_;

  std::unordered_map<BlockHash, Entry, BlockHashHasher> entries_;
  std::deque<std::vector<BlockHash>>
      segments_;                     // oldest first; hashes that are gone, or in a later one, are passed over
  std::uint64_t first_segment_ = 0;  // the number of the oldest
  BlockHash digest_;
  std::vector<wire::CacheEvent> events_;
  std::uint64_t written_block_count_ = 0;  // with those that were written again

  // The attached process's.
  worker::PrefixCache* cache_ = nullptr;
  std::function<void(worker::FrameNews)> tell_;
  std::uint64_t life_ = 0;  // events of earlier ones do nothing
  std::deque<Queued> found_;
  std::deque<Queued> others_;
  std::unordered_set<BlockHash, BlockHashHasher> queued_;  // of both
  bool is_writing_ = false;
  std::deque<Restore> restores_;
  bool is_reading_ = false;
};

}  // namespace roost::simulate
