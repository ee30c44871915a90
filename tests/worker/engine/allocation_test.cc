// A decode step in steady state costs no heap allocation but that of what it reports, from the schedule to the last op
// of a device, when steps are planned ahead.
#include "tests/support/allocation_count.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "common/base/rng.h"
#include "tests/support/null_ops.h"
#include "worker/engine/engine.h"
#include "worker/model/synthetic.h"
#include "worker/model/transformer.h"

namespace roost::worker {
namespace {

constexpr std::uint32_t kRunning = 64;
constexpr std::uint32_t kPromptTokens = 100;
constexpr std::uint32_t kWarmUpSteps = 40;
constexpr std::uint32_t kMeasuredSteps = 64;

class EngineAllocationTest : public testing::Test {
 protected:
  EngineAllocationTest() {
    const HfConfig config = *SyntheticConfig("tiny");
    model_ = Transformer::Create(kernels::Backend::Open(testing_support::NullOps(), {}).value(), config,
                                 RandomWeights(1), {.block_count = 2000, .max_context_tokens = 512})
                 .value();
    EngineOptions options{.max_batch_tokens = kRunning * kPromptTokens, .max_running_requests = kRunning};
    options.plan_ahead = true;
    engine_ = std::make_unique<Engine>(*model_, clock_, std::move(options));
    Rng rng(1);
    for (std::uint64_t i = 0; i < kRunning; ++i) {
      wire::Generate request;
      request.request_id = RequestId(i);
      request.root = {1, 1};
      request.prompt.resize(kPromptTokens);
      for (TokenId& token : request.prompt) token = static_cast<TokenId>(rng.Below(config.vocab_size));
      request.max_output_tokens = 300;
      request.ignore_eos = true;
      request.sampling = {.temperature = i % 2 == 0 ? 0.0F : 1.0F, .top_k = 20, .seed = i};
      EXPECT_TRUE(engine_->Submit(LinkId(1), std::move(request)).ok());
    }
    for (std::uint32_t i = 0; i < kWarmUpSteps; ++i) (void)engine_->Step();
  }

  SteadyClock clock_;
  std::unique_ptr<Transformer> model_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(EngineAllocationTest, ADecodeStepAllocatesItsReportAlone) {
  std::uint32_t without_events = 0;
  for (std::uint32_t i = 0; i < kMeasuredSteps; ++i) {
    const std::uint64_t before = testing_support::AllocationCount();
    const StepReport report = engine_->Step();
    const std::uint64_t allocated = testing_support::AllocationCount() - before;
    ASSERT_EQ(report.tokens.size(), kRunning);
    ASSERT_EQ(report.load.step_decode_tokens, kRunning);
    // The tokens and the times between them; the events, and the hashes of each.
    const std::uint64_t of_events = report.events.empty() ? 0 : 1 + report.events.size();
    EXPECT_EQ(allocated, 2 + of_events) << "step " << i;
    without_events += report.events.empty() ? 1 : 0;
  }
  EXPECT_EQ(without_events, kMeasuredSteps / 16 * 15);  // all fill their blocks at the same steps
}

}  // namespace
}  // namespace roost::worker
