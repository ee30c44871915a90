// Ranks on the CUDA backend, behind the SIMT shim or on devices; see tests/kernels/tested_ops.h. On devices through
// NCCL: with one device in a group of one, with two devices in a group of two.
#include "tests/kernels/tested_ops.h"
#include "tests/worker/model/model_testing.h"
#include "worker/model/tensor_parallel.h"

namespace roost::worker {
namespace {

using kernels::Backend;
using kernels::DeviceBuffer;
using kernels::DType;

class CudaRanksTest : public testing::TestWithParam<std::uint32_t> {
 protected:
  void SetUp() override {
    const auto ops = kernels::TestedOps();
    if (!ops.ok()) GTEST_SKIP() << ops.error().ToString();
    ops_ = *ops;
    for (std::uint32_t rank = 0; rank < GetParam(); ++rank) {
      auto backend = Backend::Open(*ops_, {.ordinal = rank});
      if (!backend.ok()) GTEST_SKIP() << GetParam() << " devices are needed: " << backend.error().ToString();
      backends_.push_back(std::move(backend).value());
    }
  }

  // A model that CUDA's attention supports.
  static HfConfig Config() {
    HfConfig config = *SyntheticConfig("tiny");
    config.head_dim = 64;
    return config;
  }

  [[nodiscard]] Result<std::unique_ptr<TensorParallelModel>> MakeRanks() {
    return TensorParallelModel::Create(std::move(backends_), Config(), RandomWeights(kTestSeed),
                                       {.block_count = 50,
                                        .max_context_tokens = Config().max_positions,
                                        .step_bounds = {.token_count = 64, .request_count = 4},
                                        .compute_dtype = DType::kBF16});
  }

  const kernels::OpTable* ops_ = nullptr;
  std::vector<Backend> backends_;
};

TEST_P(CudaRanksTest, SumsAndColumnsAreThoseOfTheCpu) {
  constexpr std::uint32_t kRows = 3;
  constexpr std::uint32_t kWidth = 100;
  std::vector<kernels::Device*> devices;
  for (const Backend& backend : backends_) devices.push_back(&backend.device());
  auto communicators = ops_->connect(devices);
  ASSERT_TRUE(communicators.ok()) << communicators.error().ToString();
  std::vector<float> sums(kRows * kWidth);
  std::vector<float> gathered(kRows * kWidth);
  RankThreads threads(GetParam());
  threads.Run([&](std::uint32_t rank) {
    const Backend& backend = backends_[rank];
    kernels::Communicator* communicator = (*communicators)[rank].get();
    ops_->begin_batch(backend.device(), {.request_count = 1, .token_count = kRows});
    const std::uint32_t begin = kernels::ColumnsBegin(kWidth, rank, GetParam());
    const std::uint32_t columns = kernels::ColumnsBegin(kWidth, rank + 1, GetParam()) - begin;
    std::vector<float> part;
    for (std::uint32_t i = 0; i < kRows * columns; ++i) {
      part.push_back(static_cast<float>(i / columns * 1000 + begin + i % columns));
    }
    DeviceBuffer values(backend);
    DeviceBuffer own(backend);
    DeviceBuffer out(backend);
    DeviceBuffer scratch(backend);
    values.Upload(std::span<const float>(std::vector<float>(kRows * kWidth, static_cast<float>(rank + 1))));
    own.Upload(std::span<const float>(part));
    out.Reserve(sizeof(float) * kRows * kWidth);
    scratch.Reserve(sizeof(float) * kRows * kWidth);
    communicator->AwaitPeers();
    ops_->all_reduce(backend.device(), {communicator, values.data(), kRows * kWidth, DType::kF32});
    ops_->gather_columns(backend.device(),
                         {communicator, own.as<float>(), kRows, kWidth, out.as<float>(), scratch.as<float>()});
    if (rank == 0) {
      ops_->copy_to_host(backend.device(), sums.data(), values.data(), sums.size() * sizeof(float));
      ops_->copy_to_host(backend.device(), gathered.data(), out.data(), gathered.size() * sizeof(float));
    }
  });
  const auto ranks = static_cast<float>(GetParam());
  for (std::uint32_t i = 0; i < kRows * kWidth; ++i) {
    ASSERT_EQ(sums[i], ranks * (ranks + 1) / 2) << i;
    ASSERT_EQ(gathered[i], static_cast<float>(i / kWidth * 1000 + i % kWidth)) << i;
  }
}

// Two ranks' sums in bf16 are rounded more than one device's sums in f32.
TEST_P(CudaRanksTest, LogitsAreCloseToThoseOfOneDeviceInPrefillsAndRecordedDecodes) {
  const std::vector<TokenId> tokens = RandomTokens(1, 40, Config().vocab_size);
  const auto whole =
      MakeModel(Config(), RandomWeights(kTestSeed), {.block_count = 50, .ops = &kernels::CpuOps()}).value();
  const auto made = MakeRanks();
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  TensorParallelModel* const split = made->get();
  TestSequence whole_sequence(*whole, tokens);
  TestSequence split_sequence(*split, tokens);
  while (!split_sequence.done()) {
    Batch whole_batch;
    Batch split_batch;
    const std::uint32_t count = split_sequence.remaining() == tokens.size() ? 24 : 1;
    whole_sequence.AddTo(whole_batch, count);
    split_sequence.AddTo(split_batch, count);
    const auto wanted = whole->Forward(whole_batch);
    ASSERT_LT(RelativeError(split->Forward(split_batch), wanted), 0.04) << split_sequence.remaining() << " to go";
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, CudaRanksTest, testing::Values(1U, 2U));

}  // namespace
}  // namespace roost::worker
