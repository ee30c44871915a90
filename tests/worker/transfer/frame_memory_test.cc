// Frames that a model's staging gives, and what a wipe leaves of them.
#include "worker/transfer/frame_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "tests/support/heap_staging.h"
#include "tests/worker/transfer/frame_tools.h"

namespace roost::worker {
namespace {

using testing_support::HeapStaging;

class FrameMemoryTest : public testing::Test {
 protected:
  FrameBuffer Take() {
    FrameBuffer frame = *memory_->Take([] { return true; });
    std::fill(frame.bytes().begin(), frame.bytes().end(), std::byte{7});
    return frame;
  }

  HeapStaging staging_{4, kTestSizes.frame_bytes()};
  std::shared_ptr<FrameMemory> memory_ = std::make_shared<FrameMemory>(kTestSizes, 4, &staging_);
};

TEST_F(FrameMemoryTest, AWipeClearsWhatWasUsedAndNothingElse) {
  { const FrameBuffer used = Take(); }
  memory_->BeginWipe();
  memory_->Wipe();
  EXPECT_EQ(staging_.written_count(), 0U);
  EXPECT_EQ(staging_.cleared_count, 1);
  memory_->BeginWipe();
  memory_->Wipe();
  EXPECT_EQ(staging_.cleared_count, 1);
}

TEST_F(FrameMemoryTest, AWipeWaitsForFramesThatWereInUseAndForNoOthers) {
  std::optional<FrameBuffer> before = Take();
  memory_->BeginWipe();
  const FrameBuffer after = Take();
  std::promise<void> is_wiped;
  std::future<void> wiped = is_wiped.get_future();
  std::thread wiper([&] {
    memory_->Wipe();
    is_wiped.set_value();
  });
  EXPECT_EQ(wiped.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  before.reset();
  wiped.wait();
  wiper.join();
  EXPECT_EQ(staging_.written_count(), 1U) << "the one that is in use again";
}

// A test that hangs here would show that a frame was lost.
TEST_F(FrameMemoryTest, AllFramesCanBeTakenAfterAWipe) {
  for (int round = 0; round < 3; ++round) {
    {
      std::vector<FrameBuffer> all;
      for (int i = 0; i < 4; ++i) all.push_back(Take());
      memory_->BeginWipe();
    }
    memory_->Wipe();
    EXPECT_EQ(memory_->used(), 0U);
  }
  EXPECT_EQ(staging_.cleared_count, 12);
}

TEST_F(FrameMemoryTest, AWiperTellsWhenItIsDone) {
  std::optional<FrameBuffer> used = Take();
  std::promise<void> woken;
  int ended_count = 0;
  FrameWiper wiper(
      {memory_}, [&] { ++ended_count; }, [&] { woken.set_value(); });
  EXPECT_EQ(wiper.Begin(), 1U);
  EXPECT_EQ(wiper.done_number(), 0U);
  used.reset();
  woken.get_future().wait();
  EXPECT_EQ(wiper.done_number(), 1U);
  EXPECT_EQ(ended_count, 1);
  EXPECT_EQ(staging_.written_count(), 0U);
}

TEST_F(FrameMemoryTest, AWiperEndsWhileFramesAreInUse) {
  const FrameBuffer used = Take();
  FrameWiper wiper(
      {memory_}, [] {}, [] {});
  EXPECT_EQ(wiper.Begin(), 1U);
}

}  // namespace
}  // namespace roost::worker
