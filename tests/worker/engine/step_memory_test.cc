// The device's memory while serving: everything is reserved at load, before the KV pool. If a step needs more than is
// left, the device fails.
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "tests/support/engine_harness.h"
#include "tests/support/recording_ops.h"
#include "tests/worker/model/rank_testing.h"
#include "worker/model/load_model.h"

namespace roost::testing_support {
namespace {

using kernels::Device;
using kernels::OpTable;

constexpr std::size_t kDeviceBytes = std::size_t{256} << 20U;

// The memory that devices were asked for, and the batches that they computed; all ranks together.
struct Memory {
  std::mutex mutex;
  std::map<const void*, std::size_t> sizes;
  std::size_t taken_bytes = 0;
  std::uint64_t allocations = 0;
  std::size_t last_bytes = 0;
  std::size_t bound = kDeviceBytes;
  std::uint32_t largest_batch = 0;
  std::uint32_t most_requests = 0;
  std::uint32_t most_draws = 0;
};

Memory& DeviceMemory() {
  static Memory memory;
  return memory;
}

void* Allocate(Device& device, std::size_t bytes) {
  Memory& memory = DeviceMemory();
  const std::lock_guard lock(memory.mutex);
  if (memory.taken_bytes + bytes > memory.bound) return nullptr;
  void* allocated = RecordingOps().allocate(device, bytes);
  memory.sizes[allocated] = bytes;
  memory.taken_bytes += bytes;
  ++memory.allocations;
  memory.last_bytes = bytes;
  return allocated;
}

void Release(Device& device, void* allocated) {
  Memory& memory = DeviceMemory();
  const std::lock_guard lock(memory.mutex);
  memory.taken_bytes -= memory.sizes[allocated];
  memory.sizes.erase(allocated);
  RecordingOps().release(device, allocated);
}

// A device that records, with its own memory and enough places that attention is cut.
const OpTable& MeteredOps() {
  static const OpTable kOps = [] {
    OpTable ops = RecordingOps();
    ops.allocate = Allocate;
    ops.release = Release;
    ops.memory_use = [](Device& /*device*/) -> std::optional<kernels::MemoryUse> {
      const std::lock_guard lock(DeviceMemory().mutex);
      return kernels::MemoryUse{.free_bytes = kDeviceBytes - DeviceMemory().taken_bytes, .total_bytes = kDeviceBytes};
    };
    ops.attention_profile = [](Device& device, std::uint32_t head_dim) {
      kernels::AttentionProfile profile = RecordingOps().attention_profile(device, head_dim);
      profile.concurrent_items = 24;
      return profile;
    };
    ops.begin_batch = [](Device& device, const kernels::BatchShape& shape) {
      RecordingOps().begin_batch(device, shape);
      const std::lock_guard lock(DeviceMemory().mutex);
      DeviceMemory().largest_batch = std::max(DeviceMemory().largest_batch, shape.token_count);
      DeviceMemory().most_requests = std::max(DeviceMemory().most_requests, shape.request_count);
    };
    ops.sample = [](Device& device, const kernels::SampleArgs& args) {
      RecordingOps().sample(device, args);
      const std::lock_guard lock(DeviceMemory().mutex);
      DeviceMemory().most_draws = std::max(DeviceMemory().most_draws, args.row_count);
    };
    return ops;
  }();
  return kOps;
}

constexpr std::uint32_t kBatchTokens = 48;
constexpr std::uint32_t kRunning = 12;
constexpr std::uint32_t kContext = 1024;

worker::ModelOptions OptionsOf(std::uint32_t rank_count, const worker::StepBounds& bounds) {
  return {.compute_dtype = worker::ComputeDType::kF32,
          .block_count = kRunning * kContext / 16 + 50,
          .step_bounds = bounds,
          .max_context_tokens = kContext,
          .ops = &MeteredOps(),
          .device_ordinals = std::vector<std::uint32_t>(rank_count, 0)};
}

constexpr worker::StepBounds kBounds{.token_count = kBatchTokens, .request_count = kRunning};

worker::EngineOptions EngineOptionsOf(const worker::StepBounds& bounds) {
  return {.max_batch_tokens = bounds.token_count, .max_running_requests = bounds.request_count};
}

std::vector<TokenId> Prompt(std::uint64_t id, std::size_t count) {
  std::vector<TokenId> prompt;
  for (std::size_t i = 0; i < count; ++i) prompt.push_back(static_cast<TokenId>((id * 50 + i * 7) % 256));
  return prompt;
}

// Every token of the vocabulary occurs in such a prompt, so that each draw has the most adjustments possible.
wire::Generate LongAndPenalized(std::uint64_t id) {
  wire::Generate request = GreedyRequest(id, Prompt(id, kContext - 24), 24);
  request.sampling.repetition_penalty = 1.2F;
  request.sampling.frequency_penalty = 0.5F;
  return request;
}

class StepMemoryTest : public testing::TestWithParam<std::uint32_t> {
 protected:
  void Make(bool plan_ahead) {
    harness_.reset();
    loaded_ = worker::LoadedModel();
    loaded_ = worker::LoadModel({"synthetic:tiny"}, OptionsOf(GetParam(), kBounds)).value();
    worker::EngineOptions options = EngineOptionsOf(kBounds);
    options.plan_ahead = plan_ahead;
    harness_ = std::make_unique<EngineHarness>(*loaded_.model, clock_, std::move(options));
    DeviceMemory().allocations = 0;
    DeviceMemory().largest_batch = DeviceMemory().most_requests = DeviceMemory().most_draws = 0;
  }

  void Serve(std::vector<wire::Generate> requests) {
    for (wire::Generate& request : requests) {
      ASSERT_TRUE(harness_->Submit(std::move(request)).ok());
      harness_->Step();
    }
    harness_->Run();
  }

  ManualClock clock_;
  worker::LoadedModel loaded_;
  std::unique_ptr<EngineHarness> harness_;
};

TEST_P(StepMemoryTest, NoStepWithinTheBoundsAsksForMemory) {
  for (const bool plan_ahead : {false, true}) {
    Make(plan_ahead);
    std::vector<wire::Generate> requests;
    for (std::uint64_t id = 1; id <= kRunning; ++id) requests.push_back(LongAndPenalized(id));
    Serve(requests);
    // Most of the batch decodes after one prefix while others arrive; several choices fill the remaining places.
    requests.clear();
    for (std::uint64_t id = 101; id <= 108; ++id) {
      std::vector<TokenId> prompt = Prompt(1, 900);
      prompt.push_back(static_cast<TokenId>(id));
      requests.push_back(GreedyRequest(id, std::move(prompt), 90));
    }
    requests.push_back(GreedyRequest(109, Prompt(109, 77), 30));
    requests.back().sample_count = 4;
    requests.back().sampling.presence_penalty = 0.5F;
    requests.back().sampling.temperature = 1;
    Serve(requests);
    EXPECT_EQ(DeviceMemory().largest_batch, kBatchTokens);
    EXPECT_EQ(DeviceMemory().most_requests, kRunning);
    EXPECT_EQ(DeviceMemory().most_draws, kRunning);
    EXPECT_EQ(DeviceMemory().allocations, 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, StepMemoryTest, testing::Values(1U, 2U));

// ---- memory of the KV pool ----

TEST(StepMemoryAtLoadTest, TheKvPoolIsAShareOfWhatStepsLeave) {
  const auto blocks_beside = [](const worker::StepBounds& bounds) {
    worker::ModelOptions options = OptionsOf(1, bounds);
    options.block_count.reset();
    options.kv_share = 0.5;
    return worker::LoadModel({"synthetic:tiny"}, options).value().model->block_count();
  };
  const std::uint32_t all = blocks_beside({});
  const std::uint32_t beside_large_steps = blocks_beside({.token_count = 4096, .request_count = 256});
  EXPECT_LT(beside_large_steps, all - all / 20);
  EXPECT_GT(beside_large_steps, 0U);
}

TEST(StepMemoryAtLoadTest, BoundsThatTheDeviceHasNoMemoryForAreAnErrorThatNamesTheFlag) {
  const auto loaded =
      worker::LoadModel({"synthetic:tiny"}, OptionsOf(1, {.token_count = 65'536, .request_count = 65'536}));
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().field, "max_batch_tokens");
  EXPECT_EQ(loaded.error().code, ErrorCode::kInvalidArgument);
}

// ---- steps larger than what was reserved ----

TEST(StepMemoryBeyondTheBoundsTest, GrowsInLargeSteps) {
  const worker::LoadedModel loaded = worker::LoadModel({"synthetic:tiny"}, OptionsOf(1, {})).value();
  const SteadyClock clock;
  EngineHarness harness(*loaded.model, clock, {.max_batch_tokens = 512, .max_running_requests = 64});
  DeviceMemory().allocations = 0;
  constexpr std::uint64_t kBuffers = 14;
  for (std::uint64_t id = 1; id <= 64; ++id) {
    ASSERT_TRUE(harness.Submit(GreedyRequest(id, Prompt(id, 8 * id), 3)).ok());
    harness.Step();
    harness.Step();
  }
  harness.Run();
  // 1, 2, 4, … 512 tokens, and as many sizes of the lists.
  EXPECT_LT(DeviceMemory().allocations, 12 * kBuffers);
}

// ---- lists of penalties larger than what was reserved ----

// A text of many different tokens, more than there is room for at load.
class LongListsTest : public testing::TestWithParam<std::uint32_t> {
 protected:
  ~LongListsTest() override { DeviceMemory().bound = kDeviceBytes; }

  void Make() {
    worker::HfConfig config = *worker::SyntheticConfig("tiny");
    config.vocab_size = kVocab;
    config.max_positions = kVocab;
    harness_.reset();
    model_.reset();
    DeviceMemory().bound = kDeviceBytes;
    model_ = worker::MakeRanks(config, GetParam(),
                               {.block_count = 2 * kVocab / 16, .step_bounds = kOne, .ops = &MeteredOps()})
                 .value();
    worker::EngineOptions options = EngineOptionsOf(kOne);
    options.plan_ahead = true;
    harness_ = std::make_unique<EngineHarness>(*model_, clock_, std::move(options));
  }

  static wire::Generate Penalized(std::uint64_t id) {
    std::vector<TokenId> prompt;
    for (std::uint32_t i = 0; i < 6000; ++i) prompt.push_back(static_cast<TokenId>(i));
    wire::Generate request = GreedyRequest(id, std::move(prompt), 4);
    request.sampling.repetition_penalty = 1.2F;
    return request;
  }

  std::vector<TokenId> ServeShort(std::uint64_t id) {
    wire::Generate request = GreedyRequest(id, Prompt(7, 60), 12);
    request.sampling.frequency_penalty = 0.5F;
    return harness_->Serve(std::move(request)).tokens;
  }

  static constexpr std::uint32_t kVocab = 8192;
  static constexpr worker::StepBounds kOne{.token_count = 1024, .request_count = 1};

  SteadyClock clock_;
  std::unique_ptr<worker::TensorParallelModel> model_;
  std::unique_ptr<EngineHarness> harness_;
};

TEST_P(LongListsTest, WithoutMemoryTheirRequestIsRefusedAndTheWorkerGoesOn) {
  Make();
  const std::vector<TokenId> short_answer = ServeShort(1);
  const std::vector<TokenId> long_answer = harness_->Serve(Penalized(2)).tokens;
  ASSERT_EQ(long_answer.size(), 4U);
  const std::size_t grown_bytes = DeviceMemory().last_bytes;
  // Without memory for any rank, and with memory for all but one.
  for (const std::size_t left : {std::size_t{0}, (GetParam() - 1) * grown_bytes}) {
    Make();
    EXPECT_EQ(ServeShort(1), short_answer);
    DeviceMemory().bound = DeviceMemory().taken_bytes + left;
    const EngineHarness::Outcome refused = harness_->Serve(Penalized(2));
    ASSERT_TRUE(refused.error.has_value());
    EXPECT_EQ(refused.error->code, ErrorCode::kInvalidArgument);
    EXPECT_TRUE(refused.tokens.empty());
    EXPECT_EQ(ServeShort(3), short_answer);
    DeviceMemory().bound = kDeviceBytes;
    EXPECT_EQ(harness_->Serve(Penalized(4)).tokens, long_answer);
    EXPECT_EQ(ServeShort(5), short_answer);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, LongListsTest, testing::Values(1U, 2U));

void ServeWithoutMemory() {
  const worker::LoadedModel loaded =
      worker::LoadModel({"synthetic:tiny"}, OptionsOf(1, {.token_count = 4, .request_count = 4})).value();
  const SteadyClock clock;
  EngineHarness harness(*loaded.model, clock, EngineOptionsOf(kBounds));
  DeviceMemory().bound = DeviceMemory().taken_bytes;
  (void)harness.Submit(GreedyRequest(1, Prompt(1, 40), 3));
  harness.Step();
}

TEST(StepMemoryBeyondTheBoundsDeathTest, MemoryThatRunsShortIsAFailureOfTheDevice) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      ServeWithoutMemory(), testing::ExitedWithCode(kernels::kDeviceFailureExitCode),
      "the device failed, the worker ends: allocate failed on cpu in a batch of 1 requests, 40 tokens: no memory "
      "for a step of 40 tokens[^\n]*\n$");
}

}  // namespace
}  // namespace roost::testing_support
