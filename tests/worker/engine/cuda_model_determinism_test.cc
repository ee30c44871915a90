// The determinism suite over whole models on the CUDA backend behind the SIMT shim, on devices that compute as late as
// they may (late_ops.h). There rounding depends on the batch, so log probabilities and clear tokens are compared.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "kernels/cuda/cuda_ops.h"
#include "tests/support/late_ops.h"
#include "tests/support/simt/simt_ops.h"
#include "tests/worker/engine/determinism_suite.h"
#include "tests/worker/model/rank_testing.h"

namespace roost::testing_support {
namespace {

worker::HfConfig Config() {
  worker::HfConfig config = *worker::SyntheticConfig("tiny");
  config.head_dim = 64;
  return config;
}

// Two logits may differ by so much, each by a part of the largest.
float Tolerance() {
  const auto model = worker::MakeModel(Config(), worker::RandomWeights(worker::kTestSeed), {}).value();
  float largest = 0;
  for (const float logit : worker::AllLogits(*model, worker::RandomTokens(1, 40, Config().vocab_size))) {
    largest = std::max(largest, std::abs(logit));
  }
  return 2 * kernels::kCudaBatchTolerance * largest;
}

DeterminismSubject Subject(std::string name, std::uint32_t ranks, bool plan_ahead) {
  const auto make = [ranks](BlockShape shape) -> std::unique_ptr<worker::Model> {
    LateStreams::All().ResetOrder(ranks);
    return worker::MakeRanks(Config(), ranks,
                             {.dtype = kernels::DType::kBF16,
                              .block_tokens = shape.block_tokens,
                              .block_count = shape.block_count,
                              .step_bounds = {.token_count = 128, .request_count = 16},
                              .ops = &LateOps<simt::SimtOps>(),
                              .frame_count = 8})
        .value();
  };
  return {.name = std::move(name),
          .make = make,
          .vocab_size = 256,
          .request_count = 6,
          .max_prompt_tokens = 40,
          .max_output_tokens = 20,
          .plan_ahead = plan_ahead,
          .tolerance = Tolerance(),
          .fewest_block_tokens = 16};
}

INSTANTIATE_TEST_SUITE_P(CudaModel, DeterminismTest,
                         testing::Values(Subject("OneRankPlannedAhead", 1, true), Subject("TwoRanks", 2, false)),
                         SubjectName());

}  // namespace
}  // namespace roost::testing_support
