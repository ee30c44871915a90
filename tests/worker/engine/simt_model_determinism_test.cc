// The determinism suite over the transformer on the CUDA backend behind the SIMT shim, on devices that compute as late
// as they may (late_ops.h), with pulls, preemption and evictions between.
#include "tests/support/late_ops.h"
#include "tests/support/simt/simt_ops.h"
#include "tests/worker/engine/determinism_suite.h"
#include "tests/worker/model/rank_testing.h"

namespace roost::testing_support {
namespace {

std::unique_ptr<worker::Model> MakeSimtModel(BlockShape shape) {
  worker::HfConfig config = *worker::SyntheticConfig("tiny");
  config.head_dim = 64;
  LateStreams::All().ResetOrder(1);
  return worker::MakeRanks(config, 1,
                           {.dtype = kernels::DType::kBF16,
                            .block_tokens = shape.block_tokens,
                            .block_count = shape.block_count,
                            .step_bounds = {.token_count = 128, .request_count = 16},
                            .ops = &LateOps<simt::SimtOps>(),
                            .frame_count = 8})
      .value();
}

INSTANTIATE_TEST_SUITE_P(SimtModel, DeterminismTest,
                         testing::Values(DeterminismSubject{.name = "PlannedAhead",
                                                            .make = MakeSimtModel,
                                                            .vocab_size = 256,
                                                            .request_count = 5,
                                                            .max_prompt_tokens = 60,
                                                            .max_output_tokens = 4,
                                                            .plan_ahead = true,
                                                            .least_block_tokens = 16}),
                         SubjectName());

}  // namespace
}  // namespace roost::testing_support
