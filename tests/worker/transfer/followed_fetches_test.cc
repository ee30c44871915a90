// Fetches of blocks that their source is still computing.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/worker/transfer/arrived.h"
#include "worker/transfer/block_server.h"
#include "worker/transfer/peers.h"

namespace roost::worker {
namespace {

using std::chrono::milliseconds;
using wire::HoldCause;
using wire::HoldOutcome;

constexpr milliseconds kLong{60'000};

class FollowedFetchesTest : public TransferTest {
 protected:
  void SetUp() override {
    TransferTest::SetUp();
    server_ =
        BlockServer::Start(*from_.blocks, {.worker_id = "a", .layout = kLayout, .address = {"127.0.0.1", 0}}).value();
    memory_ = std::make_shared<FrameMemory>(kTestSizes, 8);
    peers_ = std::make_unique<Peers>(arrived_.inbox, *to_.blocks, memory_,
                                     PeersOptions{.worker_id = "b", .layout = kLayout, .most_peers = 1}, clock_);
  }
  void Ask(std::uint64_t id, FrameChain chain, milliseconds follow) {
    peers_->Ask({.id = HoldId(id), .chain = std::move(chain), .peer = {"a", server_->address()}, .follow = follow});
  }
  // The first blocks of the chain.
  [[nodiscard]] FrameChain Front(std::uint32_t count) const {
    FrameChain part = chain_.chain;
    part.hashes.resize(count);
    return part;
  }
};

TEST_F(FollowedFetchesTest, BlocksComeAsTheyAreComputed) {
  Ask(1, chain_.chain, kLong);
  for (std::uint32_t i = 40; i < 50; ++i) {
    arrived_.AwaitFrames(1, i);
    EXPECT_FALSE(arrived_.ends.contains(1));
    from_.Put(chain_, i, i);
  }
  EXPECT_EQ(arrived_.EndOf(1), HoldOutcome::kComplete);
  EXPECT_EQ(arrived_.frames[1], 50U);
}

// It waits for longer than a peer may be silent.
TEST_F(FollowedFetchesTest, WhatDoesNotComeInTimeIsMissing) {
  const auto begin = std::chrono::steady_clock::now();
  Ask(1, chain_.chain, kPeerSilence + kFollowKeepAlive);
  EXPECT_EQ(arrived_.EndOf(1), HoldOutcome::kMissing);
  EXPECT_EQ(arrived_.frames[1], 40U);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, kPeerSilence + kFollowKeepAlive);
}

TEST_F(FollowedFetchesTest, EachHasAConnectionSoThatNoneWaitsForAnother) {
  Ask(1, Front(45), kLong);
  arrived_.AwaitFrames(1, 40);
  Ask(2, chain_.chain, milliseconds(0));
  EXPECT_EQ(arrived_.EndOf(2), HoldOutcome::kMissing);
  Ask(3, Front(47), kLong);
  arrived_.AwaitFrames(3, 40);
  Ask(4, Front(30), milliseconds(0));
  EXPECT_FALSE(arrived_.ends.contains(1));
  for (std::uint32_t i = 40; i < 47; ++i) from_.Put(chain_, i, i);
  EXPECT_EQ(arrived_.EndOf(1), HoldOutcome::kComplete);
  EXPECT_EQ(arrived_.EndOf(3), HoldOutcome::kComplete);
  EXPECT_EQ(arrived_.joins[4], 1U) << "what is on its way is not asked for again";
}

// All dial at once, and none drops another's handshake.
TEST_F(FollowedFetchesTest, MoreThanTheMostAreBusy) {
  static_assert(kMaxFollowed < kMaxHandshakes);
  for (std::uint64_t id = 1; id <= kMaxFollowed; ++id) {
    FrameChain chain = chain_.chain;
    chain.tenant = id;  // so that none joins another
    Ask(id, std::move(chain), kLong);
  }
  FrameChain more = chain_.chain;
  more.tenant = TenantHash("more");
  Ask(100, more, kLong);
  EXPECT_EQ(arrived_.EndOf(100), HoldOutcome::kBusy);
  EXPECT_EQ(arrived_.CauseOf(100), HoldCause::kOwnLimit);
  for (std::uint64_t id = 1; id <= kMaxFollowed; ++id) peers_->Cancel(HoldId(id));
  for (std::uint64_t id = 1; id <= kMaxFollowed; ++id) EXPECT_EQ(arrived_.EndOf(id), HoldOutcome::kCancelled);
}

TEST_F(FollowedFetchesTest, ASourceThatStopsKeepsNobodyWaiting) {
  Ask(1, chain_.chain, kLong);
  arrived_.AwaitFrames(1, 40);
  server_->Stop();
  const HoldOutcome outcome = arrived_.EndOf(1);
  EXPECT_TRUE(outcome == HoldOutcome::kMissing || outcome == HoldOutcome::kBroken);
}

// The source finds that out at its next word.
TEST_F(FollowedFetchesTest, AConsumerThatHangsUpLeavesItsPlace) {
  Ask(1, chain_.chain, kLong);
  arrived_.AwaitFrames(1, 40);
  peers_->Cancel(HoldId(1));
  EXPECT_EQ(arrived_.EndOf(1), HoldOutcome::kCancelled);
  while (server_->counts().readers > 0) std::this_thread::yield();
  EXPECT_EQ(server_->counts().leaving_bytes, 0U);
}

}  // namespace
}  // namespace roost::worker
