// With steps planned ahead, a decode step in steady state allocates nothing on the heap except its report, from the
// schedule to the last op of a device. Waiting requests cost a step nothing.
#include "tests/support/allocation_count.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "common/base/rng.h"
#include "tests/support/null_ops.h"
#include "worker/engine/engine.h"
#include "worker/model/loading/synthetic.h"
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
    Submit(kRunning);
    for (std::uint32_t i = 0; i < kWarmUpSteps; ++i) (void)engine_->Step();
  }

  void Submit(std::uint32_t count) {
    for (; count > 0; --count) {
      const std::uint64_t id = next_id_++;
      wire::Generate request;
      request.request_id = RequestId(id);
      request.root = {1, 1};
      request.prompt.resize(kPromptTokens);
      for (TokenId& token : request.prompt) token = static_cast<TokenId>(rng_.Below(model_->shape().vocab_size));
      request.max_output_tokens = 300;
      request.ignore_eos = true;
      request.sampling = {.temperature = id % 2 == 0 ? 0.0F : 1.0F, .top_k = 20, .seed = id};
      EXPECT_TRUE(engine_->Submit(LinkId(1), std::move(request)).ok());
    }
  }

  // Allocations of this many steps, without those of their events.
  std::uint64_t AllocationsOf(std::uint32_t step_count) {
    std::uint64_t allocated = 0;
    for (; step_count > 0; --step_count) {
      const std::uint64_t before = testing_support::AllocationCount();
      const StepReport report = engine_->Step();
      allocated += testing_support::AllocationCount() - before;
      if (!report.events.empty()) allocated -= 1 + report.events.size();
    }
    return allocated;
  }

  SteadyClock clock_;
  std::unique_ptr<Transformer> model_;
  std::unique_ptr<Engine> engine_;
  Rng rng_{1};
  std::uint64_t next_id_ = 0;
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
  EXPECT_EQ(without_events, kMeasuredSteps / 16 * 15);  // all requests fill their blocks at the same steps
}

TEST_F(EngineAllocationTest, AThousandThatWaitCostAStepWhatTenCost) {
  Submit(10);
  const std::uint64_t with_ten = AllocationsOf(32);
  EXPECT_EQ(with_ten, 32 * 3U);  // the queued prompts, tokens and times
  Submit(990);
  EXPECT_EQ(AllocationsOf(32), with_ten);
  EXPECT_EQ(engine_->Step().load.waiting_requests, 1000U);
}

}  // namespace
}  // namespace roost::worker
