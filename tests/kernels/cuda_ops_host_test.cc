// The op table of the CUDA backend on doubles of CUDA's libraries: which kernels each op launches and with which sizes,
// and recordings: what is captured, instantiated, uploaded and launched, and how a failure on the way ends.
#include "kernels/cuda/cuda_ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/backend_module.h"
#include "kernels/cuda/cuda_limits.h"
#include "kernels/device_memory.h"
#include "tests/support/fake_cuda/fake_cuda.h"
#include "tests/worker/model/model_testing.h"

extern "C" const roost::kernels::BackendModule* RoostBackendModule();

namespace roost::kernels {
namespace {

using fake_cuda::Launch;
using testing::ContainsRegex;
using testing::ElementsAre;
using testing::ExitedWithCode;
using testing::HasSubstr;

constexpr KvLayout kKv{.base = nullptr,
                       .dtype = DType::kBF16,
                       .block_count = 8,
                       .layer_count = 2,
                       .kv_head_count = 2,
                       .block_tokens = 16,
                       .head_dim = 64};

class CudaOpsHostTest : public testing::Test {
 protected:
  CudaOpsHostTest() {
    fake_cuda::Reset();
    backend_.emplace(Backend::Open(CudaOps(), {}).value());
    ops().begin_batch(device(), {.request_count = 3, .token_count = 5});
  }

  [[nodiscard]] const OpTable& ops() const { return backend_->ops(); }
  [[nodiscard]] Device& device() const { return backend_->device(); }

  // The names of what the device ran from the launch `first` on.
  static std::vector<std::string> Names(std::size_t first = 0) {
    std::vector<std::string> names;
    for (std::size_t i = first; i < fake_cuda::Launched(0).size(); ++i) {
      names.push_back(fake_cuda::Launched(0)[i].kernel);
    }
    return names;
  }
  // The kernels that `op` runs.
  template <typename Op>
  std::vector<std::string> NamesOf(const Op& op) {
    const std::size_t before = fake_cuda::Launched(0).size();
    op();
    return Names(before);
  }

  // Kernels do not run here, so their pointers may be null.
  void Normalise(std::uint32_t rows, std::uint32_t width) const {
    ops().rms_norm(device(), {.delta = nullptr,
                              .weight = nullptr,
                              .row_indices = nullptr,
                              .epsilon = 1e-6F,
                              .rows = rows,
                              .width = width,
                              .out = nullptr,
                              .out_dtype = DType::kBF16});
  }
  void Attend(std::uint32_t merge_count) const {
    ops().attention(device(), {.q_dtype = DType::kBF16,
                               .query_head_count = 8,
                               .kv = kKv,
                               .item_count = 3,
                               .merge_count = merge_count,
                               .out_dtype = DType::kBF16});
  }
  void Activate(std::uint32_t rows) const {
    ops().silu_mul(device(), {.gate_up = nullptr,
                              .rows = rows,
                              .width = 512,
                              .out = nullptr,
                              .out_dtype = DType::kBF16,
                              .gate_up_dtype = DType::kBF16});
  }

  [[nodiscard]] std::unique_ptr<Recording> RecordStep() const {
    ops().begin_recording(device());
    Normalise(5, 64);
    Attend(2);
    Activate(5);
    return ops().end_recording(device());
  }

  std::optional<Backend> backend_;
};

TEST_F(CudaOpsHostTest, EveryKernelIsLoadedWhenADeviceIsOpened) {
  EXPECT_GT(fake_cuda::Kernels().size(), 20U);
  EXPECT_EQ(fake_cuda::LoadedKernels(), fake_cuda::Kernels());
}

TEST_F(CudaOpsHostTest, EachOpLaunchesItsKernels) {
  EXPECT_THAT(NamesOf([&] { Normalise(5, 64); }), ElementsAre(HasSubstr("RmsNormKernel")));
  EXPECT_THAT(NamesOf([&] { Attend(0); }), ElementsAre(HasSubstr("AttentionKernel")));
  EXPECT_THAT(NamesOf([&] { Attend(2); }), ElementsAre(HasSubstr("AttentionKernel"), HasSubstr("MergeKernel")));
  EXPECT_THAT(NamesOf([&] { Activate(5); }), ElementsAre(HasSubstr("SiluMulKernel")));
  EXPECT_THAT(NamesOf([&] { ops().rope_angles(device(), {.rows = 5, .half_dim = 32}); }),
              ElementsAre(HasSubstr("RopeAnglesKernel")));
  EXPECT_THAT(NamesOf([&] {
                ops().rope_to_cache(device(),
                                    {.rows = 5, .query_head_count = 8, .kv = kKv, .activation_dtype = DType::kBF16});
              }),
              ElementsAre(HasSubstr("RopeToCacheKernel")));
  EXPECT_THAT(NamesOf([&] {
                ops().gather_embedding(device(),
                                       {.table_dtype = DType::kBF16, .token_count = 9, .rows = 5, .width = 64});
              }),
              ElementsAre(HasSubstr("GatherVectorsKernel")));
  EXPECT_THAT(NamesOf([&] { ops().sample(device(), {.vocab_size = 100, .row_count = 3}); }),
              ElementsAre(HasSubstr("SampleKernel")));
  EXPECT_THAT(NamesOf([&] { ops().logprobs(device(), {.vocab_size = 100, .row_count = 3}); }),
              ElementsAre(HasSubstr("LogprobsKernel")));
  EXPECT_THAT(NamesOf([&] { ops().place_sampled(device(), {.place_count = 3}); }),
              ElementsAre(HasSubstr("PlaceKernel")));
  // The direction is a parameter of the kernel's template.
  const std::vector<BlockMove> moves(300);
  const MoveBlocksArgs args{.kv = kKv, .moves = moves.data(), .count = 256};
  EXPECT_THAT(NamesOf([&] { ops().open_copy_streams(device())->Gather(args); }),
              ElementsAre(ContainsRegex("MoveBlocksKernel.*DirectionE0E")));
  EXPECT_THAT(NamesOf([&] { ops().scatter_blocks(device(), args); }),
              ElementsAre(ContainsRegex("MoveBlocksKernel.*DirectionE1E")));
}

TEST_F(CudaOpsHostTest, CopiesOfRowsAreLaunchedInGroupsThatDoNotTouch) {
  std::vector<BlockRowsCopy> copies;
  for (std::uint32_t i = 0; i < 200; ++i) copies.push_back({2 * i, 2 * i + 1, 7});
  copies.push_back({1, 0, 7});
  const std::size_t before = fake_cuda::Launched(0).size();
  ops().copy_block_rows(device(), {kKv, copies.data(), static_cast<std::uint32_t>(copies.size())});
  std::vector<unsigned> sizes;
  for (std::size_t i = before; i < fake_cuda::Launched(0).size(); ++i) {
    sizes.push_back(fake_cuda::Launched(0)[i].grid.x);
  }
  EXPECT_THAT(sizes, ElementsAre(128U, 73U));
}

TEST_F(CudaOpsHostTest, MovesOfBlocksAreLaunchedInGroupsThatFitTheArguments) {
  const std::vector<BlockMove> moves(300);
  const std::size_t before = fake_cuda::Launched(0).size();
  ops().scatter_blocks(device(), {.kv = kKv, .moves = moves.data(), .count = 300});
  ASSERT_EQ(fake_cuda::Launched(0).size(), before + 2);
  EXPECT_EQ(fake_cuda::Launched(0)[before].grid.x, 256U);
  EXPECT_EQ(fake_cuda::Launched(0)[before + 1].grid.x, 44U);
}

// A launch that is not would end the process.
TEST_F(CudaOpsHostTest, LaunchesAreWithinTheLimitsOfADevice) {
  constexpr std::uint32_t kDeclared = 128;  // of RMSNorm
  fake_cuda::SetDeclaredShared(kDeclared);
  backend_.emplace(Backend::Open(CudaOps(), {}).value());
  for (const std::uint32_t width : {8U, 12'256U, 12'257U, kMaxNormedWidth}) Normalise(2, width);
  for (const std::uint32_t rows : {1U, 65'535U, 65'536U, 1'000'000U}) Activate(rows);
  KvLayout kv = kKv;
  kv.layer_count = 40'000;  // more pieces than a grid has rows
  const BlockRowsCopy copy{0, 1, 7};
  ops().copy_block_rows(device(), {kv, &copy, 1});
  const std::vector<BlockMove> moves(3);
  ops().scatter_blocks(device(), {.kv = kv, .moves = moves.data(), .count = 3});
  for (const Launch& launch : fake_cuda::Launched(0)) {
    EXPECT_LE(launch.grid.y, 65'535U);
    EXPECT_LE(launch.shared_bytes, kMaxSharedBytes);
  }
  EXPECT_EQ(fake_cuda::Launched(0).size(), 10U);
}

TEST_F(CudaOpsHostTest, AttentionFillsTheDevice) {
  EXPECT_EQ(ops().attention_profile(device(), 64).concurrent_items, 2U);  // one multiprocessor, two blocks on it
}

TEST_F(CudaOpsHostTest, RecordedOpsRunAtEachReplayAndNotBefore) {
  const auto recording = RecordStep();
  EXPECT_TRUE(Names().empty());
  for (int replay = 1; replay <= 3; ++replay) {
    EXPECT_THAT(NamesOf([&] { ops().replay(device(), *recording); }),
                ElementsAre(HasSubstr("RmsNormKernel"), HasSubstr("AttentionKernel"), HasSubstr("MergeKernel"),
                            HasSubstr("SiluMulKernel")));
  }
  EXPECT_THAT(NamesOf([&] { Activate(5); }), ElementsAre(HasSubstr("SiluMulKernel")));
}

TEST_F(CudaOpsHostTest, ProductsAreRecordedToo) {
  const std::array<float, 32> values{};
  const MatmulPart part{.weight = values.data(), .dtype = DType::kF32, .outputs = 4};
  const auto weights =
      ops().prepare_matmul(device(), {.parts = {&part, 1}, .inputs = 8, .compute_dtype = DType::kBF16}).value();
  ops().begin_recording(device());
  ops().matmul(device(), {.weights = weights.get(), .rows = 3, .y_dtype = DType::kBF16});
  const auto recording = ops().end_recording(device());
  EXPECT_TRUE(Names().empty());
  ops().replay(device(), *recording);
  EXPECT_THAT(Names(), ElementsAre("cublasLtMatmul"));
}

TEST_F(CudaOpsHostTest, ARecordingIsOneUploadedGraphUntilItIsDestroyed) {
  auto recording = RecordStep();
  EXPECT_EQ(fake_cuda::CountsOfGraphs().graphs, 0);
  EXPECT_EQ(fake_cuda::CountsOfGraphs().executables, 1);
  EXPECT_EQ(fake_cuda::CountsOfGraphs().uploads, 1);
  const auto second = RecordStep();
  EXPECT_EQ(fake_cuda::CountsOfGraphs().executables, 2);
  ops().replay(device(), *recording);
  ops().replay(device(), *recording);
  EXPECT_EQ(fake_cuda::CountsOfGraphs().uploads, 2);
  recording.reset();
  EXPECT_EQ(fake_cuda::CountsOfGraphs().executables, 1);
  ops().replay(device(), *second);
  EXPECT_EQ(Names().size(), 12U);
}

TEST_F(CudaOpsHostTest, ARecordingWithoutMemoryIsNoneAndItsOpsRunOneByOne) {
  for (const char* const call : {"cudaGraphInstantiate", "cudaGraphUpload"}) {
    fake_cuda::FailCalls(call, cudaErrorMemoryAllocation);
    EXPECT_EQ(RecordStep(), nullptr);
    EXPECT_EQ(fake_cuda::CountsOfGraphs().graphs, 0);
    EXPECT_EQ(fake_cuda::CountsOfGraphs().executables, 0);
    // A launch looks at the last error.
    EXPECT_THAT(NamesOf([&] { Activate(5); }), ElementsAre(HasSubstr("SiluMulKernel")));
    fake_cuda::FailCalls(call, cudaSuccess);
  }
  EXPECT_NE(RecordStep(), nullptr);
}

// Neither the number of the device nor what its algorithms' measurements gave.
TEST_F(CudaOpsHostTest, ArithmeticIsNamedByTheCardAndTheVersions) {
  const auto arithmetic_of = [](std::uint32_t ordinal) {
    const Backend backend = Backend::Open(CudaOps(), {.ordinal = ordinal}).value();
    return backend.ops().arithmetic(backend.device());
  };
  fake_cuda::SetAlgorithms({3, 1});
  const Arithmetic one = arithmetic_of(0);
  fake_cuda::SetAlgorithms({1, 3});
  EXPECT_EQ(one.name, "Double, Roost " ROOST_VERSION_TEXT ", cuBLASLt 130200");
  EXPECT_EQ(arithmetic_of(1).name, one.name);
  EXPECT_GE(one.batch_tolerance, 0.02F);
}

// A call that spoils a recording would end the process; the numbers mean nothing here.
TEST_F(CudaOpsHostTest, AWarmModelsDecodesAreLaunchesOfGraphs) {
  worker::HfConfig config = *worker::SyntheticConfig("tiny");
  config.head_dim = 64;
  const auto model = worker::MakeModel(
      config, worker::RandomWeights(worker::kTestSeed),
      {.dtype = DType::kBF16, .step_bounds = {.token_count = 64, .request_count = 5}, .ops = &CudaOps()});
  ASSERT_TRUE(model.ok()) << model.error().ToString();
  const int graphs = fake_cuda::CountsOfGraphs().executables;
  EXPECT_GE(graphs, 4);                                        // of 1, 2, 4 and 8 rows
  fake_cuda::FailCalls("cudaLaunchKernel", cudaErrorUnknown);  // single launches end the process
  for (std::uint32_t requests = 1; requests <= 5; ++requests) {
    std::vector<worker::TestSequence> sequences;
    worker::Batch batch;
    for (std::uint32_t i = 0; i < requests; ++i) {
      sequences.emplace_back(**model, worker::RandomTokens(i, 1, config.vocab_size), i);
    }
    for (worker::TestSequence& sequence : sequences) sequence.AddTo(batch, 1);
    const auto names = NamesOf([&] { (void)(*model)->Forward(batch); });
    EXPECT_EQ(std::count_if(names.begin(), names.end(),
                            [](const auto& name) { return name.find("AttentionKernel") != std::string::npos; }),
              config.layer_count);
    EXPECT_EQ(std::count(names.begin(), names.end(), "cublasLtMatmul"), 4 * config.layer_count + 1);
  }
  EXPECT_EQ(fake_cuda::CountsOfGraphs().executables, graphs);
}

TEST_F(CudaOpsHostTest, AModelWithoutMemoryForGraphsLaunchesItsKernelsOneByOne) {
  fake_cuda::FailCalls("cudaGraphUpload", cudaErrorMemoryAllocation);
  worker::HfConfig config = *worker::SyntheticConfig("tiny");
  config.head_dim = 64;
  const auto model = worker::MakeModel(
      config, worker::RandomWeights(worker::kTestSeed),
      {.dtype = DType::kBF16, .step_bounds = {.token_count = 64, .request_count = 2}, .ops = &CudaOps()});
  ASSERT_TRUE(model.ok()) << model.error().ToString();
  worker::TestSequence sequence(**model, worker::RandomTokens(1, 3, config.vocab_size), 1);
  while (!sequence.done()) {
    worker::Batch batch;
    sequence.AddTo(batch, 1);
    const auto names = NamesOf([&] { (void)(*model)->Forward(batch); });
    EXPECT_EQ(std::count(names.begin(), names.end(), "cublasLtMatmul"), 4 * config.layer_count + 1);
  }
  EXPECT_EQ(fake_cuda::CountsOfGraphs().executables, 0);
}

// Steps of all kinds: a chunk without logits, the rest of the prompt beside it, decodes.
TEST_F(CudaOpsHostTest, WhileNoBlockTravelsAStepMakesTheCallsThatItMakesWithoutFrames) {
  worker::HfConfig config = *worker::SyntheticConfig("tiny");
  config.head_dim = 64;
  const auto calls_of_steps = [&](std::size_t frame_count) {
    const auto model = worker::MakeModel(config, worker::RandomWeights(worker::kTestSeed),
                                         {.dtype = DType::kBF16,
                                          .step_bounds = {.token_count = 64, .request_count = 2},
                                          .ops = &CudaOps(),
                                          .frame_count = frame_count});
    EXPECT_TRUE(model.ok()) << model.error().ToString();
    EXPECT_EQ((*model)->MakeBlockReader() != nullptr, frame_count > 0);
    std::vector<worker::TestSequence> sequences;
    for (std::uint32_t i = 0; i < 2; ++i) {
      sequences.emplace_back(**model, worker::RandomTokens(i, 40, config.vocab_size), i);
    }
    std::vector<std::map<std::string, int>> calls;
    for (const std::uint32_t count : {32U, 5U, 1U, 1U, 1U}) {
      const std::map<std::string, int> before = fake_cuda::CallCounts();
      worker::Batch batch;
      for (worker::TestSequence& sequence : sequences) sequence.AddTo(batch, count);
      if (count == 32) batch.slices.front().logits_count = 0;
      (void)(*model)->Forward(batch);
      std::map<std::string, int> made = fake_cuda::CallCounts();
      for (const auto& [name, earlier] : before) made[name] -= earlier;
      std::erase_if(made, [](const auto& each) { return each.second == 0; });
      calls.push_back(std::move(made));
    }
    return calls;
  };
  const auto without = calls_of_steps(0);
  EXPECT_THAT(without, testing::Each(testing::Not(testing::IsEmpty())));
  EXPECT_EQ(calls_of_steps(8), without);
}

TEST_F(CudaOpsHostTest, TheModuleOffersTheOpsAndTheDevices) {
  EXPECT_EQ(RoostBackendModule()->ops, &CudaOps());
  EXPECT_EQ(RoostBackendModule()->version, ROOST_VERSION_TEXT);
  fake_cuda::SetSharedBytes(1, 65'536);
  const std::vector<DeviceInfo> devices = RoostBackendModule()->list_devices().value();
  ASSERT_EQ(devices.size(), static_cast<std::size_t>(fake_cuda::kDevices));
  EXPECT_EQ(devices[2].ordinal, 2U);
  EXPECT_EQ(devices[2].name, "Double");
  EXPECT_EQ(devices[2].architecture, "sm_90");
  EXPECT_EQ(devices[2].unusable, "");
  EXPECT_THAT(devices[1].unusable, HasSubstr("65536 bytes of shared memory"));
}

class CudaRecordingsDeathTest : public CudaOpsHostTest {
 protected:
  CudaRecordingsDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  void RecordAndReplay() const { ops().replay(device(), *RecordStep()); }

  // One line and the exit code of a failed device.
  static std::string LineOf(const std::string& call, const std::string& error) {
    return "^[^\n]*the device failed, the worker ends: " + call +
           " failed on cuda:0 .Double. in a batch of 3 requests, 5 tokens: " + error + "[^\n]*\n$";
  }
};

TEST_F(CudaRecordingsDeathTest, EachCallOnTheWayEndsTheProcessWithOneLine) {
  for (const std::string call : {"cudaStreamBeginCapture", "cudaStreamEndCapture", "cudaGraphInstantiate",
                                 "cudaGraphDestroy", "cudaGraphUpload", "cudaGraphLaunch"}) {
    fake_cuda::Reset();
    fake_cuda::FailCalls(call, cudaErrorUnknown);
    EXPECT_EXIT(RecordAndReplay(), ExitedWithCode(kDeviceFailureExitCode), LineOf(call, "another error"));
  }
}

TEST_F(CudaRecordingsDeathTest, ALaunchThatFailsWhileItIsRecordedEndsTheProcessWithOneLine) {
  fake_cuda::FailCalls("cudaLaunchKernel", cudaErrorStreamCaptureInvalidated);
  EXPECT_EXIT(RecordAndReplay(), ExitedWithCode(kDeviceFailureExitCode),
              LineOf("a kernel's launch", "operation failed due to a previous error during capture"));
}

TEST_F(CudaRecordingsDeathTest, ADeviceThatFailsWhileItRecordsEndsTheProcessWithOneLine) {
  const auto fails_while_recording = [&] {
    ops().begin_recording(device());
    fake_cuda::Fail(0, cudaErrorIllegalAddress);
    Normalise(5, 64);
  };
  EXPECT_EXIT(fails_while_recording(), ExitedWithCode(kDeviceFailureExitCode),
              LineOf("a kernel's launch", "an illegal memory access was encountered"));
}

TEST_F(CudaRecordingsDeathTest, WhatIsNotAllowedInARecordingEndsTheProcessWithOneLine) {
  const auto allocates = [&] {
    ops().begin_recording(device());
    (void)ops().allocate(device(), 64);
  };
  EXPECT_EXIT(allocates(), ExitedWithCode(kDeviceFailureExitCode),
              LineOf("cudaMalloc", "operation not permitted when stream is capturing"));
  const auto waits = [&] {
    ops().begin_recording(device());
    ops().begin_readback(device(), nullptr, 0);
    ops().end_readback(device(), nullptr);
  };
  EXPECT_EXIT(
      waits(), ExitedWithCode(kDeviceFailureExitCode),
      LineOf("cudaEventSynchronize", "operation not permitted on an event last recorded in a capturing stream"));
  const auto is_spoilt = [&] {
    ops().begin_recording(device());
    void* memory = nullptr;
    (void)cudaMalloc(&memory, 64);  // by a library that does not tell
    (void)ops().end_recording(device());
  };
  EXPECT_EXIT(is_spoilt(), ExitedWithCode(kDeviceFailureExitCode),
              LineOf("cudaStreamEndCapture", "operation failed due to a previous error during capture"));
}

TEST_F(CudaRecordingsDeathTest, ALaunchBeyondTheDevicesLimitsEndsTheProcessWithOneLine) {
  fake_cuda::SetDeclaredShared(std::size_t{48} * 1024);  // none is left without asking
  EXPECT_EXIT(Normalise(5, 64), ExitedWithCode(kDeviceFailureExitCode),
              LineOf("a kernel's launch", "invalid configuration argument"));
}

}  // namespace
}  // namespace roost::kernels
