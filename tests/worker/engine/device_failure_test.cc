// A device that fails in the middle of a step ends the worker, from the engine's thread, with the batch in its line.
#include <gtest/gtest.h>

#include <thread>

#include "common/base/clock.h"
#include "common/prefix/block_hash.h"
#include "kernels/ops.h"
#include "tests/worker/model/model_testing.h"
#include "worker/engine/engine.h"

namespace roost::worker {
namespace {

using kernels::BatchShape;
using kernels::Device;

// The reference, until the third time that an op is called.
BatchShape& LastShape() {
  static BatchShape shape;
  return shape;
}

const kernels::OpTable& FailingOps() {
  static const kernels::OpTable kOps = [] {
    kernels::OpTable ops = kernels::ReferenceOps();
    ops.begin_batch = [](Device& /*device*/, const BatchShape& shape) { LastShape() = shape; };
    ops.silu_mul = [](Device& device, const kernels::SiluMulArgs& args) {
      static int calls = 0;
      if (++calls == 3) {
        kernels::EndOnDeviceFailure(
            {.call = "cudaStreamSynchronize", .error = "lost", .device = "cuda:0 (Test)", .batch = LastShape()});
      }
      kernels::SiluMulRef(device, args);
    };
    return ops;
  }();
  return kOps;
}

void RunUntilItFails() {
  const auto model = MakeTestModel({.ops = &FailingOps()});
  const SteadyClock clock;
  Engine engine(*model, clock, {});
  wire::Generate request;
  request.request_id = RequestId(1);
  request.prompt = RandomTokens(1, 21, model->shape().vocab_size);
  request.block_hashes = HashBlocks(request.root, request.prompt, model->block_tokens());
  request.max_output_tokens = 50;
  ASSERT_TRUE(engine.Submit(LinkId(1), request).ok());
  std::thread thread([&engine] {
    while (engine.HasWork()) (void)engine.Step();
  });
  thread.join();
}

TEST(DeviceFailureInAStepDeathTest, EndsTheProcessWithTheBatchInItsLine) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      RunUntilItFails(), testing::ExitedWithCode(kernels::kDeviceFailureExitCode),
      "^[^\n]*the device failed, the worker ends: cudaStreamSynchronize failed on cuda:0 .Test. in a batch of 1 "
      "requests, 1 tokens: lost[^\n]*\n$");
}

}  // namespace
}  // namespace roost::worker
