#include "worker/disk/disk_cache.h"

#include <gtest/gtest.h>

#include <variant>

#include "tests/worker/disk/disk_tools.h"
#include "tests/worker/transfer/pool_blocks.h"

namespace roost::worker {
namespace {

using Kind = DiskOffer::Kind;

// A cache whose threads the test is.
class DiskCacheTest : public testing::Test {
 protected:
  void SetUp() override { Make(0); }

  void Make(std::uint64_t write_rate, std::size_t queue_limit = 100) {
    if (cache_ == nullptr) store_.Open();
    files_ = store_.files.get();
    cache_ = std::make_unique<DiskCache>(
        std::move(store_.store), *pool_.blocks, inbox_, clock_, [this] { ++wakes_; },
        DiskCache::Options{.write_rate = write_rate, .queue_limit = queue_limit});
  }
  void Again() {
    cache_.reset();
    Make(0);
  }

  void Offer(const TestChain& chain, Kind kind = Kind::kOther) {
    std::vector<DiskOffer> offers;
    for (std::uint32_t i = 0; i < chain.chain.size(); ++i) offers.push_back({StoreUser::BlockOf(chain, i), kind});
    cache_->Offer(offers);
  }
  void PutInPool(const TestChain& chain) {
    for (std::uint32_t i = 0; i < chain.chain.size(); ++i) pool_.Put(chain, i, next_block_++);
  }
  void WriteAll() {
    while (cache_->WriteNext()) {
    }
  }
  void Keep(const TestChain& chain) {
    PutInPool(chain);
    Offer(chain);
    WriteAll();
    ASSERT_EQ(cache_->CountFront(chain.chain), chain.chain.size());
  }
  // The frames that come for this chain, and its end.
  std::pair<std::uint32_t, wire::HoldOutcome> Restore(const TestChain& chain) {
    const HoldId id(++last_id_);
    cache_->Ask({.id = id, .chain = chain.chain, .peer = {}});
    while (cache_->ReadNext()) {
    }
    std::uint32_t count = 0;
    for (FrameNews& news : inbox_.Take()) {
      if (auto* const frame = std::get_if<ArrivedFrame>(&news)) {
        EXPECT_EQ(frame->index, count++);
        EXPECT_TRUE(IsRight(frame->buffer, chain, frame->index));
      } else {
        return {count, std::get<FramesEnded>(news).outcome};
      }
    }
    ADD_FAILURE() << "no end";
    return {count, wire::HoldOutcome::kBroken};
  }
  [[nodiscard]] std::uint64_t Dropped(DiskDrop reason) const {
    return cache_->counts().dropped[static_cast<std::size_t>(reason)];
  }

  ManualClock clock_;
  StoreUser store_;
  PoolBlocks pool_{200};
  int wakes_ = 0;
  FrameInbox inbox_{[] {}};
  FaultyFiles* files_ = nullptr;
  std::unique_ptr<DiskCache> cache_;
  std::uint32_t next_block_ = 0;
  std::uint64_t last_id_ = 0;
};

TEST_F(DiskCacheTest, WhatWasOfferedComesBackAfterAStart) {
  const TestChain chain(12);
  Keep(chain);
  EXPECT_EQ(Restore(chain), std::pair(12U, wire::HoldOutcome::kComplete));
  Again();
  EXPECT_EQ(cache_->CountFront(chain.chain), 12U);
  EXPECT_EQ(Restore(chain), std::pair(12U, wire::HoldOutcome::kComplete));
}

TEST_F(DiskCacheTest, ABlockThatHasLeftThePoolIsDroppedWithThoseBehindIt) {
  const TestChain chain(5);
  PutInPool(chain);
  Offer(chain);
  pool_.Retract(2);
  WriteAll();
  EXPECT_EQ(cache_->CountFront(chain.chain), 2U);
  EXPECT_EQ(Dropped(DiskDrop::kQueueFull), 1U);
  EXPECT_EQ(Dropped(DiskDrop::kOrphan), 2U);
}

TEST_F(DiskCacheTest, WritesKeepToTheirRate) {
  const std::uint64_t frame = kTestSizes.frame_bytes();
  cache_.reset();
  Make(frame);  // one block a second
  const TestChain chain(6);
  PutInPool(chain);
  clock_.Advance(std::chrono::seconds(100));
  Offer(chain);
  WriteAll();
  EXPECT_EQ(cache_->CountFront(chain.chain), 2U);  // the burst of a second, and one more
  clock_.Advance(std::chrono::seconds(1));
  WriteAll();
  EXPECT_EQ(cache_->CountFront(chain.chain), 3U);
  EXPECT_EQ(cache_->counts().written_bytes, 3 * frame);
}

TEST_F(DiskCacheTest, BeforeTheEndAllIsWrittenWithoutTheBound) {
  cache_.reset();
  Make(kTestSizes.frame_bytes());  // one block a second
  EXPECT_TRUE(cache_->WriteOut()) << "nothing waits";
  cache_.reset();
  Make(kTestSizes.frame_bytes());
  const TestChain chain(6);
  PutInPool(chain);
  clock_.Advance(std::chrono::seconds(100));
  Offer(chain);
  WriteAll();
  EXPECT_EQ(cache_->CountFront(chain.chain), 2U);
  EXPECT_FALSE(cache_->WriteOut());
  WriteAll();
  EXPECT_EQ(cache_->CountFront(chain.chain), 6U);
  EXPECT_TRUE(cache_->WriteOut());
}

TEST_F(DiskCacheTest, TheEndDoesNotWaitForAFullDisk) {
  const TestChain chain(4);
  PutInPool(chain);
  Offer(chain);
  EXPECT_FALSE(cache_->WriteOut());
  files_->is_full = true;
  WriteAll();
  EXPECT_TRUE(cache_->WriteOut());
}

TEST_F(DiskCacheTest, NewsTellOfTheSetInOrder) {
  const TestChain chain(3);
  Keep(chain);
  ASSERT_TRUE(cache_->has_news());
  DiskNews news = cache_->TakeNews();
  ASSERT_EQ(news.events.size(), 1U);
  EXPECT_EQ(news.events[0].kind, wire::CacheEvent::Kind::kDiskStored);
  EXPECT_EQ(news.events[0].disk_stored.hashes, chain.chain.hashes);
  EXPECT_EQ(news.block_count, 3U);
  EXPECT_GT(news.bytes_per_second, 0);
  EXPECT_FALSE(cache_->has_news());
  cache_->Erase(9, {.what = wire::BlockToEvict{chain.chain.hashes[1]}, .answer_id = 1});
  WriteAll();
  EXPECT_GT(wakes_, 0);
  news = cache_->TakeNews();
  ASSERT_EQ(news.erased.size(), 1U);
  EXPECT_EQ(news.erased[0].id, 9U);
  EXPECT_EQ(news.erased[0].block_count, 3U);
  ASSERT_EQ(news.events.size(), 1U);
  EXPECT_EQ(news.events[0].kind, wire::CacheEvent::Kind::kDiskRemoved);
  EXPECT_EQ(news.events[0].disk_removed,
            (std::vector<BlockHash>{chain.chain.hashes[2], chain.chain.hashes[1], chain.chain.hashes[0]}));
  EXPECT_EQ(news.block_count, 0U);
  EXPECT_EQ(news.digest, BlockHash());
}

TEST_F(DiskCacheTest, AnErasureIsNotDoneWhileItsFilesAreThere) {
  const TestChain chain(3);
  Keep(chain);
  files_->fails_writes = files_->fails_removals = true;  // the file system has become read-only
  cache_->Erase(9, {.what = wire::BlockToEvict{chain.chain.hashes[0]}, .answer_id = 1});
  WriteAll();
  clock_.Advance(kErrorPause);
  WriteAll();
  EXPECT_TRUE(cache_->TakeNews().erased.empty());
  EXPECT_EQ(cache_->CountFront(chain.chain), 0U);
  files_->fails_writes = files_->fails_removals = false;
  clock_.Advance(kErrorPause);
  WriteAll();
  const DiskNews news = cache_->TakeNews();
  ASSERT_EQ(news.erased.size(), 1U);
  EXPECT_EQ(news.erased[0].block_count, 3U);
  Again();
  EXPECT_EQ(cache_->CountFront(chain.chain), 0U);
}

TEST_F(DiskCacheTest, ASnapshotIsTheSetAndTakesTheNewsWithIt) {
  const TestChain chain(3);
  Keep(chain);
  const std::vector<wire::StoredRun> runs = cache_->Snapshot();
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].hashes, chain.chain.hashes);
  const DiskNews news = cache_->TakeNews();
  EXPECT_TRUE(news.events.empty());
  EXPECT_EQ(news.block_count, 3U);
}

TEST_F(DiskCacheTest, ABlockThatCanNotBeReadLeavesWithWhatContinuesIt) {
  const TestChain chain(5);
  Keep(chain);
  std::array<std::byte, 1> byte{std::byte{0x5A}};
  ASSERT_TRUE(files_->Write(store_.Segments()[0], TestShape().FrameOffset(2) + 300, byte).ok());
  EXPECT_EQ(Restore(chain), std::pair(2U, wire::HoldOutcome::kMissing));
  WriteAll();
  EXPECT_EQ(cache_->CountFront(chain.chain), 2U);
  EXPECT_EQ(Dropped(DiskDrop::kUnreadable), 3U);
  EXPECT_TRUE(cache_->counts().is_available);
}

TEST_F(DiskCacheTest, TenErrorsInAMinuteTurnItOff) {
  for (std::uint64_t i = 0; i < 12; ++i) Keep(TestChain(1, 10 + i));
  files_->fails_reads = true;
  for (std::uint64_t i = 0; i < kMostErrors; ++i) {
    EXPECT_TRUE(cache_->counts().is_available) << i;
    EXPECT_EQ(Restore(TestChain(1, 10 + i)).second, wire::HoldOutcome::kMissing);
  }
  EXPECT_FALSE(cache_->counts().is_available);
  files_->fails_reads = false;
  EXPECT_EQ(cache_->CountFront(TestChain(1, 21).chain), 0U);
  EXPECT_EQ(cache_->TakeNews().bytes_per_second, 0);
  EXPECT_EQ(Restore(TestChain(1, 21)).second, wire::HoldOutcome::kMissing);
}

TEST_F(DiskCacheTest, ErrorsFarApartDoNot) {
  for (std::uint64_t i = 0; i < 12; ++i) Keep(TestChain(1, 10 + i));
  files_->fails_reads = true;
  for (std::uint64_t i = 0; i < 12; ++i) {
    EXPECT_EQ(Restore(TestChain(1, 10 + i)).second, wire::HoldOutcome::kMissing);
    clock_.Advance(std::chrono::seconds(10));
  }
  EXPECT_TRUE(cache_->counts().is_available);
}

TEST_F(DiskCacheTest, NothingIsReadWhileAWrongBlockHasStillToLeave) {
  const TestChain chain(3);
  const TestChain other(2, 5);
  Keep(chain);
  Keep(other);
  cache_->Drop(chain.chain.hashes[1]);
  EXPECT_EQ(cache_->CountFront(chain.chain), 0U);
  EXPECT_EQ(Restore(other), std::pair(0U, wire::HoldOutcome::kMissing));
  WriteAll();
  EXPECT_EQ(cache_->CountFront(chain.chain), 1U);
  EXPECT_EQ(Restore(other), std::pair(2U, wire::HoldOutcome::kComplete));
}

TEST_F(DiskCacheTest, WritesThatFailTurnItOff) {
  const TestChain chain(20);
  PutInPool(chain);
  Offer(chain);
  files_->fails_writes = true;
  for (std::size_t i = 0; i < kMostErrors; ++i) {
    EXPECT_TRUE(cache_->counts().is_available) << i;
    WriteAll();
    clock_.Advance(kErrorPause);
  }
  EXPECT_FALSE(cache_->counts().is_available);
}

TEST_F(DiskCacheTest, AFileThatSomebodyRemovedIsAnError) {
  const TestChain chain(3);
  Keep(chain);
  for (const auto& file : store_.Segments()) std::filesystem::remove(file);
  EXPECT_EQ(Restore(chain), std::pair(0U, wire::HoldOutcome::kMissing));
  WriteAll();
  EXPECT_EQ(cache_->CountFront(chain.chain), 0U);
  EXPECT_EQ(Dropped(DiskDrop::kUnreadable), 3U);
}

TEST_F(DiskCacheTest, AFullDiskPausesWrites) {
  const TestChain chain(4);
  PutInPool(chain);
  Offer(chain);
  files_->is_full = true;
  for (int i = 0; i < 20; ++i) {
    WriteAll();
    clock_.Advance(kFullPause);
  }
  EXPECT_TRUE(cache_->counts().is_available);
  files_->is_full = false;
  clock_.Advance(kFullPause);
  WriteAll();
  EXPECT_EQ(cache_->CountFront(chain.chain), 4U);
}

TEST_F(DiskCacheTest, ACancelledRequestEnds) {
  const TestChain chain(5);
  Keep(chain);
  cache_->Ask({.id = HoldId(7), .chain = chain.chain, .peer = {}});
  EXPECT_TRUE(cache_->ReadNext());
  cache_->Cancel(HoldId(7));
  EXPECT_TRUE(cache_->ReadNext());
  EXPECT_FALSE(cache_->ReadNext());
  const std::vector<FrameNews> news = inbox_.Take();
  ASSERT_EQ(news.size(), 2U);
  EXPECT_EQ(std::get<FramesEnded>(news[1]).outcome, wire::HoldOutcome::kCancelled);
  EXPECT_EQ(cache_->SecondsFor(1), 0);  // nothing is ahead, and nothing was measured on this clock
}

TEST_F(DiskCacheTest, ADistrustedDiskIsEmptied) {
  Keep(TestChain(3));
  Keep(TestChain(3, 2));
  cache_->Distrust("");
  WriteAll();
  EXPECT_EQ(cache_->counts().blocks, 0U);
}

TEST_F(DiskCacheTest, ThreadsWriteAndRead) {
  const TestChain chain(10);
  PutInPool(chain);
  cache_->Start();
  Offer(chain);
  while (cache_->CountFront(chain.chain) < 10) std::this_thread::yield();
  cache_->Ask({.id = HoldId(1), .chain = chain.chain, .peer = {}});
  std::size_t news = 0;
  while (news < 11) {
    news += inbox_.Take().size();
    std::this_thread::yield();
  }
  cache_->Stop();
}

}  // namespace
}  // namespace roost::worker
