// A real device fails: the process ends with one line, and does not hang.
#include <gtest/gtest.h>

#include "kernels/ops.h"
#include "tests/kernels/tested_ops.h"

namespace roost::kernels {
namespace {

void ReadAnIllegalAddress(const OpTable& ops) {
  Device& device = *ops.open({}).value();
  ops.begin_batch(device, {.request_count = 3, .token_count = 5});
  auto* out = static_cast<float*>(ops.allocate(device, 64));
  // No allocation begins at this address.
  const auto* nowhere = reinterpret_cast<const TokenId*>(std::uintptr_t{64});
  ops.gather_embedding(device, {.table = out, .tokens = nowhere, .rows = 1, .width = 16, .out = out});
  ops.copy_to_host(device, nullptr, nullptr, 0);
}

TEST(DeviceFailureGpuDeathTest, AnIllegalAddressEndsTheProcessWithOneLine) {
  const auto ops = TestedOps();
  if (!ops.ok()) GTEST_SKIP() << ops.error().ToString();
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(ReadAnIllegalAddress(**ops), testing::ExitedWithCode(kDeviceFailureExitCode),
              "^[^\n]*the device failed, the worker ends: [^\n]* failed on cuda:0 [^\n]* in a batch of 3 requests, 5 "
              "tokens: [^\n]*illegal[^\n]*\n$");
}

}  // namespace
}  // namespace roost::kernels
