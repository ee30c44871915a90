// The blocks of the pool that other threads may read: the only way to the pool's bytes beside the engine's.
//
//   engine    commit ─ step has finished ─▶ Publish …… Retract ─▶ evict, write again
//   readers                                  └─ Read: found ─ copy ─ done ─┘ Retract waits for a copy under way
//
// A block is published once the step that writes it has *finished*: a ready block may still be under way. It is
// retracted before anything writes to it again. Read copies one block, under a guard of that block alone, so the engine
// waits for one copy at most, and readers do not wait for each other. Nothing is leased: after Read the copy is all
// there is.
//
// Threads: Publish and Retract are the engine's; the rest is anybody's. The model outlives it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "common/base/big_vector.h"
#include "common/base/ids.h"
#include "common/prefix/block_hash.h"
#include "worker/model/block_reader.h"
#include "worker/transfer/frame.h"

namespace roost::worker {

// A block to publish. Its tokens are copied.
struct PublishedBlock {
  BlockId block;
  FrameBlock about;
  std::span<const TokenId> tokens;
};

class ReadableBlocks {
 public:
  ReadableBlocks(std::unique_ptr<BlockReader> reader, std::uint32_t block_count, std::uint32_t block_tokens);
  ReadableBlocks(const ReadableBlocks&) = delete;
  ReadableBlocks& operator=(const ReadableBlocks&) = delete;

  [[nodiscard]] FrameSizes sizes() const { return sizes_; }

  // ---- the engine ----

  // None of the blocks is published, nor another one with the same hash.
  void Publish(std::span<const PublishedBlock> blocks);
  // From here on no thread reads these blocks. Skips those that are not published. Waits while one of them is being
  // copied.
  void Retract(std::span<const BlockId> blocks);

  // ---- any thread ----

  // Writes the block's frame to `to`, which has sizes(). False when there is no such block, or it belongs to another
  // tenant; blocks without a tenant are everybody's.
  [[nodiscard]] bool Read(BlockHash hash, std::uint64_t tenant, FrameBuffer& to);
  // Waits until Read would find the block, for at most `time` or until WakeFollowers. True if it would.
  [[nodiscard]] bool AwaitPublished(BlockHash hash, std::uint64_t tenant, std::chrono::milliseconds time);
  // Ends all waits that are under way.
  void WakeFollowers();
  // Would Read find it now?
  [[nodiscard]] bool Has(BlockHash hash, std::uint64_t tenant) const {
    const std::lock_guard lock(mutex_);
    return Find(hash, tenant).has_value();
  }
  // The number of the chain's first blocks that Read finds now.
  [[nodiscard]] std::uint32_t CountFront(const FrameChain& chain) const;
  [[nodiscard]] std::uint32_t size() const;

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFFU;

  struct Entry {
    FrameBlock about;
    std::uint32_t next = kNone;  // in the list of its bucket
    std::uint32_t copy_count = 0;
    bool is_published = false;
  };

  [[nodiscard]] std::uint32_t& FirstOf(BlockHash hash) { return first_[hasher_(hash) & (first_.size() - 1)]; }
  // The memory of a block to publish has left the processor's caches.
  void PrefetchPublish(const PublishedBlock& block);
  [[nodiscard]] std::optional<std::uint32_t> Find(BlockHash hash, std::uint64_t tenant) const;
  [[nodiscard]] std::span<TokenId> TokensOf(std::uint32_t block);
  // Takes it out of the index. False if it was not there.
  bool TakeOut(std::uint32_t block);
  void EndCopy(std::uint32_t block);

  const std::unique_ptr<BlockReader> reader_;
  const FrameSizes sizes_;
  const BlockHashHasher hasher_;

  mutable std::mutex mutex_;
  std::condition_variable copied_;     // a copy of a retracted block is done
  std::condition_variable published_;  // notified only while a fetch follows
  // Guarded by mutex_.
  std::uint32_t follower_count_ = 0;  // in AwaitPublished
  std::uint64_t wake_count_ = 0;      // of WakeFollowers
  BigVector<std::uint32_t> first_;    // by bucket: the first block with such a hash
  BigVector<Entry> entries_;          // by block
  BigVector<TokenId> tokens_;         // block_tokens for each block
  std::uint32_t count_ = 0;

  std::vector<std::uint32_t> awaited_;  // the engine's: retracted blocks that are being copied
};

}  // namespace roost::worker
