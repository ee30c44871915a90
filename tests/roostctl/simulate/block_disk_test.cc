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
using worker::HoldId;

constexpr std::uint32_t kDiskBlockTokens = 4;
constexpr std::uint32_t kDiskPoolBlocks = 64;
constexpr std::uint64_t kFrameBytes = std::uint64_t{64} << 20U;  // eight blocks are a segment
constexpr BlockHash kDiskRoot{1, 1};

// A disk of so many blocks that reads or writes one in a millisecond.
class BlockDiskTest : public ::testing::Test {
 protected:
  using Hashes = std::vector<BlockHash>;

  void Make(std::uint32_t blocks, std::uint64_t write_rate = 0) {
    const double gigabits = static_cast<double>(kFrameBytes) * 1000 * 8 / 1e9;
    disk_ = std::make_unique<BlockDisk>(DiskOptions{.tokens = std::uint64_t{blocks} * kDiskBlockTokens,
                                                    .gigabits_per_second = gigabits,
                                                    .write_rate = write_rate},
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
  Hashes Cache(TokenId seed, std::uint32_t count) {
    std::vector<TokenId> tokens(std::size_t{count} * kDiskBlockTokens, seed);
    Hashes hashes = HashBlocks(kDiskRoot, tokens, kDiskBlockTokens);
    std::optional<BlockId> parent;
    for (std::uint32_t i = 0; i < count; ++i) {
      const BlockId block = cache_.Allocate(worker::EvictionGroup(0)).value();
      const auto result = cache_.Commit({.hash = hashes[i],
                                         .root = kDiskRoot,
                                         .position = i,
                                         .tokens = std::span(tokens).subspan(i * kDiskBlockTokens, kDiskBlockTokens)},
                                        parent, block, worker::EvictionGroup(0));
      EXPECT_EQ(result.kind, worker::CommitResult::Kind::kStored);
      parent = block;
    }
    return hashes;
  }
  // A request with these blocks ends, the first of which have been found.
  void Release(const Hashes& hashes, std::uint32_t found_count = 0) {
    std::vector<worker::DiskOffer> offers;
    for (std::uint32_t i = 0; i < hashes.size(); ++i) {
      offers.push_back(
          {.block = {.hash = hashes[i], .before = i == 0 ? BlockHash() : hashes[i - 1], .tenant = 0, .position = i},
           .kind = i < found_count ? worker::DiskOffer::Kind::kFound : worker::DiskOffer::Kind::kOther});
    }
    disk_->Offer(offers);
  }
  [[nodiscard]] std::uint32_t CountFront(const Hashes& hashes) const { return disk_->CountFront(ChainOf(hashes)); }
  static worker::FrameChain ChainOf(const Hashes& hashes, std::uint32_t first = 0) {
    return {.root = kDiskRoot,
            .parent = first == 0 ? BlockHash() : hashes[first - 1],
            .first_position = first,
            .hashes = {hashes.begin() + first, hashes.end()}};
  }
  void Ask(std::uint64_t id, worker::FrameChain chain) {
    disk_->Ask({.id = HoldId(id), .chain = std::move(chain), .peer = {}});
  }
  void Pass(int time) {
    bool is_over = false;
    timeline_.After(milliseconds(time), [&] { is_over = true; });
    while (!is_over) ASSERT_TRUE(timeline_.RunNext());
  }
  // A router's view, by the events alone.
  void Follow() {
    const worker::DiskNews news = disk_->TakeNews();
    for (const wire::CacheEvent& event : news.events) {
      for (const BlockHash hash : event.disk_stored.hashes) told_ = told_ ^ hash;
      for (const BlockHash hash : event.disk_removed) told_ = told_ ^ hash;
      told_count_ += event.disk_stored.hashes.size();
      told_count_ -= event.disk_removed.size();
    }
    EXPECT_EQ(news.digest, told_);
    EXPECT_EQ(news.block_count, told_count_);
    std::uint64_t run_count = 0;
    for (const wire::StoredRun& run : disk_->Runs()) run_count += run.hashes.size();
    EXPECT_EQ(run_count, told_count_);
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
  const Hashes held = Cache(5, 6);
  Release(held);
  Pass(3);
  EXPECT_GE(CountFront(held), 3U);
  EXPECT_LT(CountFront(held), 6U);
  Pass(10);
  EXPECT_EQ(CountFront(held), 6U);
  Follow();
  Ask(9, ChainOf(held, 2));
  Pass(2);
  EXPECT_TRUE(ends_.empty());
  Pass(10);
  EXPECT_EQ(frames_, (std::vector<std::uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(ends_, std::vector{wire::HoldOutcome::kComplete});
  EXPECT_EQ(last_tokens_, std::vector<TokenId>(kDiskBlockTokens, 5));
}

TEST_F(BlockDiskTest, FoundBlocksGoFirstAndTheNewestOfTheOthersIsDropped) {
  Make(64);
  const Hashes others = Cache(1, 20);  // a quarter of the pool may wait
  const Hashes found = Cache(2, 4);
  Release(others);
  Release(found, 4);
  Pass(6);
  EXPECT_EQ(CountFront(found), 4U);
  Pass(40);
  EXPECT_LT(CountFront(others), 16U);
  EXPECT_GE(CountFront(others), 12U);
  Follow();
}

TEST_F(BlockDiskTest, TheOldestSegmentGoesButForWhatWasUsed) {
  Make(32);
  const Hashes used = Cache(1, 4);
  const Hashes unused = Cache(2, 4);
  const Hashes later = Cache(3, 16);
  for (const Hashes* const held : {&used, &unused, &later}) {
    Release(*held);
    Pass(20);
  }
  Release(used, 4);
  Release(Cache(4, 4));
  Pass(20);
  EXPECT_EQ(CountFront(used), 4U);
  EXPECT_EQ(CountFront(unused), 0U);
  EXPECT_EQ(disk_->written_block_count(), 24U + 4U + 4U);
  Follow();
}

TEST_F(BlockDiskTest, WritesNoFasterThanItMay) {
  Make(32, 100 * kFrameBytes);
  const Hashes held = Cache(5, 8);
  Release(held);
  Pass(35);
  EXPECT_EQ(CountFront(held), 4U);
  Pass(50);
  EXPECT_EQ(CountFront(held), 8U);
}

TEST_F(BlockDiskTest, OutlivesTheProcessButWhatWasQueuedDoesNot) {
  Make(32);
  const Hashes held = Cache(5, 6);
  Release(held);
  Pass(3);
  disk_->Detach();
  const std::uint32_t written = CountFront(held);
  Pass(10);
  EXPECT_EQ(CountFront(held), written);
  Attach();
  Ask(1, ChainOf(held));
  Pass(20);
  EXPECT_EQ(frames_.size(), written);
  EXPECT_EQ(ends_, std::vector{wire::HoldOutcome::kMissing});
  Ask(2, ChainOf({held.front()}));
  disk_->Cancel(HoldId(2));
  Pass(5);
  EXPECT_EQ(ends_.size(), 1U);
}

}  // namespace
}  // namespace roost::simulate
