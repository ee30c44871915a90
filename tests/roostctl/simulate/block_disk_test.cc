#include "deploy/roostctl/simulate/block_disk.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string_view>
#include <variant>
#include <vector>

#include "worker/cache/eviction/eviction_factory.h"

namespace roost::simulate {
namespace {

using std::chrono::milliseconds;
using worker::BlockRef;
using worker::HoldId;

constexpr std::uint32_t kDiskBlockTokens = 4;
constexpr std::uint32_t kDiskPoolBlocks = 64;
constexpr std::uint64_t kFrameBytes = std::uint64_t{64} << 20U;  // eight blocks are a segment
constexpr BlockHash kDiskRoot{1, 1};

// A disk of so many blocks that reads or writes one in a millisecond.
class BlockDiskTest : public ::testing::Test {
 protected:
  struct Held {
    std::vector<BlockRef> refs;
    std::vector<BlockHash> hashes;
  };

  void Make(std::uint32_t blocks) {
    const double gigabits = static_cast<double>(kFrameBytes) * 1000 * 8 / 1e9;
    disk_ = std::make_unique<BlockDisk>(
        DiskOptions{.tokens = std::uint64_t{blocks} * kDiskBlockTokens, .gigabits_per_second = gigabits},
        kDiskBlockTokens, kFrameBytes, timeline_);
    Attach();
  }
  void Attach() {
    disk_->Attach(cache_, [this](worker::FrameNews news) {
      if (const auto* const frame = std::get_if<worker::ArrivedFrame>(&news)) {
        frames_.push_back(frame->index);
        last_tokens_ = frame->opened.tokens;
      } else {
        ends_.push_back(std::get<worker::FramesEnded>(news).outcome);
      }
    });
  }
  // Blocks of a chain in the cache; another seed gives another chain.
  Held Cache(TokenId seed, std::uint32_t count) {
    std::vector<TokenId> tokens(std::size_t{count} * kDiskBlockTokens, seed);
    Held held{.refs = {}, .hashes = HashBlocks(kDiskRoot, tokens, kDiskBlockTokens)};
    std::optional<BlockId> parent;
    for (std::uint32_t i = 0; i < count; ++i) {
      const BlockId block = cache_.Allocate(worker::EvictionGroup(0)).value();
      const auto result = cache_.Commit({.hash = held.hashes[i],
                                         .root = kDiskRoot,
                                         .position = i,
                                         .tokens = std::span(tokens).subspan(i * kDiskBlockTokens, kDiskBlockTokens)},
                                        parent, block, worker::EvictionGroup(0));
      EXPECT_EQ(result.kind, worker::CommitResult::Kind::kStored);
      parent = block;
      held.refs.push_back({block, pool_.generation(block)});
    }
    return held;
  }
  void Release(const Held& held, std::uint32_t found_count = 0) { disk_->Release(held.refs, held.hashes, found_count); }
  void Pass(int time) {
    bool is_over = false;
    timeline_.After(milliseconds(time), [&] { is_over = true; });
    while (!is_over) ASSERT_TRUE(timeline_.RunNext());
  }
  // A router's view, by the events alone.
  void Follow() {
    for (const wire::CacheEvent& event : disk_->TakeEvents()) {
      for (const BlockHash hash : event.disk_stored.hashes) told_ = told_ ^ hash;
      for (const BlockHash hash : event.disk_removed) told_ = told_ ^ hash;
      told_count_ += event.disk_stored.hashes.size();
      told_count_ -= event.disk_removed.size();
    }
    wire::Load load;
    disk_->Tell(load);
    EXPECT_EQ(load.disk_digest, told_);
    EXPECT_EQ(load.disk_block_count, told_count_);
    EXPECT_EQ(disk_->Runs().size(), told_count_);
  }

  Timeline timeline_;
  worker::BlockPool pool_{kDiskPoolBlocks};
  worker::PrefixCache cache_{
      pool_, {.block_tokens = kDiskBlockTokens}, worker::MakeEvictionPolicy("lru", kDiskPoolBlocks).value()};
  std::unique_ptr<BlockDisk> disk_;
  std::vector<std::uint32_t> frames_;
  std::vector<wire::HoldOutcome> ends_;
  std::vector<TokenId> last_tokens_;
  BlockHash told_;
  std::uint64_t told_count_ = 0;
};

TEST_F(BlockDiskTest, WritesFrontToBackAtItsRateAndReadsBack) {
  Make(32);
  const Held held = Cache(5, 6);
  Release(held);
  Pass(3);
  EXPECT_GE(disk_->CountFront(held.hashes), 3U);
  EXPECT_LT(disk_->CountFront(held.hashes), 6U);
  Pass(10);
  EXPECT_EQ(disk_->CountFront(held.hashes), 6U);
  Follow();
  disk_->Ask(HoldId(9),
             {.root = kDiskRoot, .first_position = 2, .hashes = {held.hashes.begin() + 2, held.hashes.end()}});
  Pass(2);
  EXPECT_TRUE(ends_.empty());
  Pass(10);
  EXPECT_EQ(frames_, (std::vector<std::uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(ends_, std::vector{wire::HoldOutcome::kComplete});
  EXPECT_EQ(last_tokens_, std::vector<TokenId>(kDiskBlockTokens, 5));
}

TEST_F(BlockDiskTest, FoundBlocksGoFirstAndTheNewestOfTheOthersIsDropped) {
  Make(64);
  const Held others = Cache(1, 20);  // a quarter of the pool may wait
  const Held found = Cache(2, 4);
  Release(others);
  Release(found, 4);
  Pass(6);
  EXPECT_EQ(disk_->CountFront(found.hashes), 4U);
  Pass(40);
  EXPECT_LT(disk_->CountFront(others.hashes), 16U);
  EXPECT_GE(disk_->CountFront(others.hashes), 12U);
  Follow();
}

TEST_F(BlockDiskTest, TheOldestSegmentGoesButForWhatWasUsed) {
  Make(16);
  const Held used = Cache(1, 4);
  const Held unused = Cache(2, 4);
  const Held later = Cache(3, 8);
  for (const Held* const held : {&used, &unused, &later}) {
    Release(*held);
    Pass(20);
  }
  Release(used, 4);
  Release(Cache(4, 4));
  Pass(20);
  EXPECT_EQ(disk_->CountFront(used.hashes), 4U);
  EXPECT_EQ(disk_->CountFront(unused.hashes), 0U);
  EXPECT_EQ(disk_->written_block_count(), 16U + 4U + 4U);
  Follow();
}

TEST_F(BlockDiskTest, OutlivesTheProcessButWhatWasQueuedDoesNot) {
  Make(32);
  const Held held = Cache(5, 6);
  Release(held);
  Pass(3);
  disk_->Detach();
  const std::uint32_t written = disk_->CountFront(held.hashes);
  Pass(10);
  EXPECT_EQ(disk_->CountFront(held.hashes), written);
  Attach();
  disk_->Ask(HoldId(1), {.root = kDiskRoot, .hashes = held.hashes});
  Pass(20);
  EXPECT_EQ(frames_.size(), written);
  EXPECT_EQ(ends_, std::vector{wire::HoldOutcome::kMissing});
  disk_->Ask(HoldId(2), {.root = kDiskRoot, .hashes = {held.hashes.front()}});
  disk_->Cancel(HoldId(2));
  Pass(5);
  EXPECT_EQ(ends_.size(), 1U);
}

}  // namespace
}  // namespace roost::simulate
