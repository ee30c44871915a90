// ReadableBlocks against a map, and with readers beside an engine that reuses blocks all the time: a copy is always of
// the block that was asked for, whole.
#include "worker/transfer/readable_blocks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <thread>

#include "tests/worker/transfer/pool_blocks.h"

namespace roost::worker {
namespace {

class ReadableBlocksTest : public testing::Test {
 protected:
  void Make(std::uint32_t block_count) {
    side_ = std::make_unique<PoolBlocks>(block_count);
    pool_ = side_->reader;
    blocks_ = side_->blocks.get();
  }
  void Put(const TestChain& chain, std::uint32_t index, std::uint32_t block) { side_->Put(chain, index, block); }
  void Retract(std::uint32_t block) { side_->Retract(block); }

  std::unique_ptr<PoolBlocks> side_;
  PoolReader* pool_ = nullptr;
  ReadableBlocks* blocks_ = nullptr;
};

TEST_F(ReadableBlocksTest, AgreesWithAMap) {
  constexpr std::uint32_t kBlocks = 40;
  Make(kBlocks);
  const TestChain chain(100, 5, OwnScope{.first_block = 50, .root = {5, 6}});
  std::map<std::uint32_t, std::uint32_t> index_of;  // of published blocks
  std::map<std::uint32_t, std::uint32_t> block_of;  // of published indices
  Rng rng(9);
  FrameBuffer frame(blocks_->sizes());
  for (int round = 0; round < 20'000; ++round) {
    const auto block = static_cast<std::uint32_t>(rng.Below(kBlocks));
    const auto index = static_cast<std::uint32_t>(rng.Below(100));
    if (const auto found = index_of.find(block); found != index_of.end()) {
      block_of.erase(found->second);
      index_of.erase(found);
      Retract(block);
    } else if (!block_of.contains(index)) {
      Put(chain, index, block);
      index_of[block] = index;
      block_of[index] = block;
    }
    const auto asked = static_cast<std::uint32_t>(rng.Below(100));
    const bool is_there = block_of.contains(asked);
    ASSERT_EQ(blocks_->Read(chain.chain.hashes[asked], chain.chain.tenant, frame), is_there) << "round " << round;
    if (is_there) {
      ASSERT_TRUE(IsRight(frame, chain, asked)) << "round " << round;
    }
    ASSERT_EQ(blocks_->size(), block_of.size());
    std::uint32_t front = 0;
    while (block_of.contains(front)) ++front;
    ASSERT_EQ(blocks_->CountFront(chain.chain), front);
  }
}

TEST_F(ReadableBlocksTest, ABlockOfAnotherTenantIsNotThere) {
  Make(4);
  const TestChain chain(2, 1, OwnScope{.first_block = 1, .root = {5, 6}});
  Put(chain, 0, 0);
  Put(chain, 1, 1);
  FrameBuffer frame(blocks_->sizes());
  EXPECT_TRUE(blocks_->Read(chain.chain.hashes[0], TenantHash("other"), frame));
  EXPECT_FALSE(blocks_->Read(chain.chain.hashes[1], TenantHash("other"), frame));
  EXPECT_FALSE(blocks_->Read(chain.chain.hashes[1], 0, frame));
  EXPECT_TRUE(blocks_->Read(chain.chain.hashes[1], TenantHash("acme"), frame));
}

TEST_F(ReadableBlocksTest, ARetractionWaitsForTheCopyUnderWay) {
  Make(4);
  const TestChain chain(2);
  Put(chain, 0, 3);
  std::atomic<bool> is_copying = false;
  std::atomic<bool> may_go_on = false;
  std::atomic<bool> is_retracted = false;
  pool_->during_read = [&] {
    is_copying = true;
    is_copying.notify_all();
    may_go_on.wait(false);
    EXPECT_FALSE(is_retracted);
  };
  FrameBuffer frame(blocks_->sizes());
  bool has_read = false;
  std::thread reader([&] { has_read = blocks_->Read(chain.chain.hashes[0], chain.chain.tenant, frame); });
  is_copying.wait(false);
  std::thread engine([&] {
    Retract(3);
    is_retracted = true;
    std::fill(pool_->pool.begin(), pool_->pool.end(), std::byte{0xFF});
  });
  // The retraction is under way once no reader finds the block any more.
  FrameBuffer other(blocks_->sizes());
  while (blocks_->size() > 0) std::this_thread::yield();
  EXPECT_FALSE(blocks_->Read(chain.chain.hashes[0], chain.chain.tenant, other));
  may_go_on = true;
  may_go_on.notify_all();
  reader.join();
  engine.join();
  EXPECT_TRUE(has_read);
  EXPECT_TRUE(IsRight(frame, chain, 0));
}

TEST_F(ReadableBlocksTest, ReadersBesideAnEngineThatReusesBlocksGetWholeBlocks) {
  constexpr std::uint32_t kBlocks = 8;
  constexpr std::uint32_t kIndices = 24;
  Make(kBlocks);
  const TestChain chain(kIndices);
  std::atomic<bool> is_over = false;
  std::atomic<std::uint64_t> read_count = 0;
  std::atomic<std::uint64_t> wrong_count = 0;
  std::vector<std::thread> readers;
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    readers.emplace_back([&, seed] {
      Rng rng(seed + 100);
      FrameBuffer frame(blocks_->sizes());
      while (!is_over) {
        const auto index = static_cast<std::uint32_t>(rng.Below(kIndices));
        if (!blocks_->Read(chain.chain.hashes[index], chain.chain.tenant, frame)) continue;
        ++read_count;
        if (!IsRight(frame, chain, index)) ++wrong_count;
      }
    });
  }
  Rng rng(1);
  std::vector<std::optional<std::uint32_t>> held(kBlocks);
  for (int round = 0; round < 20'000 || read_count < 100; ++round) {
    const auto block = static_cast<std::uint32_t>(rng.Below(kBlocks));
    if (held[block]) Retract(block);
    held[block].reset();
    const auto index = static_cast<std::uint32_t>(rng.Below(kIndices));
    if (std::find(held.begin(), held.end(), std::optional(index)) != held.end()) continue;
    Put(chain, index, block);
    held[block] = index;
  }
  is_over = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong_count, 0U);
}

}  // namespace
}  // namespace roost::worker
