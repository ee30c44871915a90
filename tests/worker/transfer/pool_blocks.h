// A worker's blocks without an engine: a pool of bytes, and what is readable of it.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "tests/worker/transfer/frame_tools.h"
#include "worker/transfer/readable_blocks.h"

namespace roost::worker {

class PoolReader final : public BlockReader {
 public:
  explicit PoolReader(std::uint32_t block_count) : pool(block_count * kTestSizes.data_bytes) {}

  [[nodiscard]] std::size_t block_bytes() const override { return kTestSizes.data_bytes; }
  void Read(BlockId block, std::span<std::byte> to, const std::function<void()>& may_change) const override {
    if (during_read) during_read();
    const auto from = std::span(pool).subspan(block.value() * block_bytes(), block_bytes());
    std::copy(from.begin(), from.end(), to.begin());
    may_change();
  }

  std::vector<std::byte> pool;
  std::function<void()> during_read;  // may wait
};

struct PoolBlocks {
  explicit PoolBlocks(std::uint32_t block_count) {
    auto made = std::make_unique<PoolReader>(block_count);
    reader = made.get();
    blocks = std::make_unique<ReadableBlocks>(std::move(made), block_count, kTestSizes.block_tokens);
  }

  // Writes the chain's block into the pool and publishes it.
  void Put(const TestChain& chain, std::uint32_t index, std::uint32_t block) {
    FillData(chain.chain.hashes[index],
             std::span(reader->pool).subspan(block * kTestSizes.data_bytes, kTestSizes.data_bytes));
    const PublishedBlock published{BlockId(block), chain.BlockAt(index), chain.TokensAt(index)};
    blocks->Publish(std::span(&published, 1));
  }
  void Retract(std::uint32_t block) {
    const BlockId id(block);
    blocks->Retract(std::span(&id, 1));
  }

  PoolReader* reader = nullptr;
  std::unique_ptr<ReadableBlocks> blocks;
};

// The frame equals the one made without a pool.
inline bool IsRight(const FrameBuffer& frame, const TestChain& chain, std::uint32_t index) {
  const FrameBuffer wanted = FrameOf(chain, index);
  return std::equal(wanted.bytes().begin(), wanted.bytes().end(), frame.bytes().begin(), frame.bytes().end());
}

}  // namespace roost::worker
