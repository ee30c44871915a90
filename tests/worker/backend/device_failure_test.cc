// The remains of a worker whose device failed: one line and an exit code.
#include "kernels/device.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace roost::kernels {
namespace {

constexpr DeviceFailure kFailure{.call = "cudaStreamSynchronize",
                                 .error = "an illegal memory access was encountered",
                                 .device = "cuda:0 (NVIDIA H100)",
                                 .batch = BatchShape{.request_count = 12, .token_count = 345}};

TEST(DeviceFailureTest, OneLineTellsCallErrorDeviceAndBatch) {
  EXPECT_EQ(Describe(kFailure),
            "cudaStreamSynchronize failed on cuda:0 (NVIDIA H100) in a batch of 12 requests, 345 tokens: an illegal "
            "memory access was encountered");
}

TEST(DeviceFailureTest, BesideBatchesTheLineTellsNone) {
  EXPECT_EQ(
      Describe({.call = "a copy of blocks (cudaMemcpyAsync)", .error = "it broke", .device = "cuda:0", .batch = {}}),
      "a copy of blocks (cudaMemcpyAsync) failed on cuda:0: it broke");
}

TEST(DeviceFailureDeathTest, EndsTheProcessWithThatLineFromAnyThread) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto fail_in_a_thread = [] {
    std::thread engine([] { EndOnDeviceFailure(kFailure); });
    engine.join();
  };
  EXPECT_EXIT(fail_in_a_thread(), testing::ExitedWithCode(kDeviceFailureExitCode),
              "^[^\n]*the device failed, the worker ends: cudaStreamSynchronize failed on cuda:0 .NVIDIA H100. in a "
              "batch of 12 requests, 345 tokens: an illegal memory access was encountered[^\n]*\n$");
}

TEST(DeviceFailureDeathTest, OfThreadsThatFailTogetherOneTells) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto fail_together = [] {
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < 4; ++rank) ranks.emplace_back([] { EndOnDeviceFailure(kFailure); });
    for (std::thread& rank : ranks) rank.join();
  };
  EXPECT_EXIT(fail_together(), testing::ExitedWithCode(kDeviceFailureExitCode), "^[^\n]*the worker ends[^\n]*\n$");
}

}  // namespace
}  // namespace roost::kernels
