// The determinism suite over the transformer on devices that compute as late as they may (late_ops.h), whose blocks
// travel through staging memory and frames.
#include <string>
#include <utility>

#include "tests/support/late_ops.h"
#include "tests/worker/engine/determinism_suite.h"
#include "tests/worker/model/rank_testing.h"

namespace roost::testing_support {
namespace {

DeterminismSubject Subject(std::string name, std::uint32_t ranks, bool plan_ahead) {
  const auto make = [ranks](BlockShape shape) -> std::unique_ptr<worker::Model> {
    LateStreams::All().ResetOrder(ranks);
    return worker::MakeRanks(*worker::SyntheticConfig("tiny"), ranks,
                             {.block_tokens = shape.block_tokens,
                              .block_count = shape.block_count,
                              .step_bounds = {.token_count = 128, .request_count = 16},
                              .ops = &LateOps<kernels::CpuOps>(),
                              .frame_count = 8})
        .value();
  };
  return {.name = std::move(name),
          .make = make,
          .vocab_size = 256,
          .request_count = 16,
          .max_prompt_tokens = 100,
          .max_output_tokens = 12,
          .plan_ahead = plan_ahead};
}

INSTANTIATE_TEST_SUITE_P(LateModel, DeterminismTest,
                         testing::Values(Subject("OneRank", 1, false), Subject("OneRankPlannedAhead", 1, true),
                                         Subject("TwoRanksPlannedAhead", 2, true)),
                         SubjectName());

}  // namespace
}  // namespace roost::testing_support
