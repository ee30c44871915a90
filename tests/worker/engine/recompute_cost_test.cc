// The engine's steps teach its cache which blocks are expensive to compute again.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>

#include "common/base/rng.h"
#include "tests/worker/engine/engine_fixture.h"
#include "worker/sched/scheduler.h"

namespace roost::worker {
namespace {

using testing_support::FakeModel;
using testing_support::GreedyRequest;

class EngineRecomputeCostTest : public EngineTest {
 protected:
  static constexpr std::uint32_t kLongPrompts = 5;
  static constexpr std::uint32_t kLongTokens = 800;
  static constexpr std::uint32_t kShortPrompts = 40;
  static constexpr std::uint32_t kShortTokens = 100;

  // A token takes so much longer for each token before it.
  static Duration StepTime(const Batch& batch, double growth) {
    constexpr double kTokenSeconds = 20e-6;
    double seconds = 1e-3;
    for (const BatchSlice& slice : batch.slices) {
      const auto before = static_cast<double>(TokensBefore(slice.first_position, slice.token_count));
      seconds += kTokenSeconds * (slice.token_count + growth * before);
    }
    return FromSeconds(seconds);
  }

  // Prompts of both lengths, chosen at random, which need twice the pool together. Returns the share of the long ones'
  // tokens that hit.
  double LongHits(double growth) {
    FakeModel::Options model{.block_count = 256};
    model.duration_of = [growth](const Batch& batch) { return StepTime(batch, growth); };
    Make(model, {.plan_ahead = false});  // the model's clock runs when a step begins
    Rng rng(1);
    double hits = 0;
    double all = 0;
    for (std::uint64_t id = 1; id <= 800; ++id) {
      const std::uint64_t stream = rng.Below(kLongPrompts + kShortPrompts);
      const bool is_long = stream < kLongPrompts;
      const auto outcome = harness_->Serve(GreedyRequest(id, Text(is_long ? kLongTokens : kShortTokens, stream), 2));
      if (!is_long) continue;
      hits += outcome.cached_token_count.value_or(0);
      all += kLongTokens;
    }
    return hits / all;
  }
};

TEST_F(EngineRecomputeCostTest, KeepsMoreOfLongPromptsWhereTheirBlocksTakeLonger) {
  EXPECT_GT(LongHits(0.01), LongHits(0) + 0.1);
}

}  // namespace
}  // namespace roost::worker
