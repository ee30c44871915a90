// A device that fails in the middle of a step ends the worker from the engine's thread, with the batch in its log line.
// The same holds for one of several devices, while the others wait for it in a collective op.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "common/base/clock.h"
#include "common/prefix/block_hash.h"
#include "kernels/ops.h"
#include "tests/worker/model/model_testing.h"
#include "worker/engine/engine.h"
#include "worker/model/tensor_parallel.h"

namespace roost::worker {
namespace {

using kernels::BatchShape;
using kernels::Device;

// The last batch shape of this thread's device.
BatchShape& LastShape() {
  thread_local BatchShape shape;
  return shape;
}

// The reference ops, until the third call of an op on the device that was opened last.
const kernels::OpTable& FailingOps() {
  static std::atomic<const Device*> failing{nullptr};
  static const kernels::OpTable kOps = [] {
    kernels::OpTable ops = kernels::ReferenceOps();
    ops.open = [](const kernels::DeviceOptions& options) {
      auto opened = kernels::ReferenceOps().open(options);
      failing = opened.value();
      return opened;
    };
    ops.begin_batch = [](Device& /*device*/, const BatchShape& shape) { LastShape() = shape; };
    ops.silu_mul = [](Device& device, const kernels::SiluMulArgs& args) {
      thread_local int calls = 0;
      if (&device == failing && ++calls == 3) {
        kernels::EndOnDeviceFailure(
            {.call = "cudaStreamSynchronize", .error = "lost", .device = "cuda:0 (Test)", .batch = LastShape()});
      }
      kernels::SiluMulRef(device, args);
    };
    return ops;
  }();
  return kOps;
}

void RunUntilItFails(Model& model) {
  const SteadyClock clock;
  Engine engine(model, clock, {});
  wire::Generate request;
  request.request_id = RequestId(1);
  request.prompt = RandomTokens(1, 21, model.shape().vocab_size);
  request.block_hashes = HashBlocks(request.root, request.prompt, model.block_tokens());
  request.max_output_tokens = 50;
  ASSERT_TRUE(engine.Submit(LinkId(1), request).ok());
  std::thread thread([&engine] {
    while (engine.HasWork()) (void)engine.Step();
  });
  thread.join();
}

// With several ranks the last one's device fails.
std::unique_ptr<Model> MakeRanks(std::uint32_t rank_count) {
  std::vector<kernels::Backend> backends;
  for (std::uint32_t rank = 0; rank < rank_count; ++rank) {
    backends.push_back(kernels::Backend::Open(FailingOps(), {}).value());
  }
  return TensorParallelModel::Create(std::move(backends), *SyntheticConfig("tiny"), RandomWeights(kTestSeed),
                                     {.block_count = 200, .max_context_tokens = 4096})
      .value();
}

constexpr const char* kLine =
    "^[^\n]*the device failed, the worker ends: cudaStreamSynchronize failed on cuda:0 .Test. in a batch of 1 "
    "requests, 1 tokens: lost[^\n]*\n$";

TEST(DeviceFailureInAStepDeathTest, EndsTheProcessWithTheBatchInItsLine) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(RunUntilItFails(*MakeTestModel({.ops = &FailingOps()})),
              testing::ExitedWithCode(kernels::kDeviceFailureExitCode), kLine);
}

TEST(DeviceFailureInAStepDeathTest, ARankThatFailsEndsTheProcessWhileTheOthersWaitForIt) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(RunUntilItFails(*MakeRanks(4)), testing::ExitedWithCode(kernels::kDeviceFailureExitCode), kLine);
}

}  // namespace
}  // namespace roost::worker
