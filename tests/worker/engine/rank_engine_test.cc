// The engine with the demo model on several ranks gives the same tokens as on one.
#include "tests/support/engine_harness.h"
#include "tests/support/source_dir.h"
#include "worker/model/load_model.h"

namespace roost::testing_support {
namespace {

using worker::LoadModel;

// The outputs of requests that share a prompt, come in pairs, and run in a pool too small for all of them.
std::vector<std::vector<TokenId>> Outputs(std::uint32_t rank_count) {
  const worker::LoadedModel loaded = LoadModel({std::string(SourceDir()) + "/deploy/demo-model"},
                                               {.compute_dtype = worker::ComputeDType::kF32,
                                                .block_count = 40,
                                                .device_ordinals = std::vector<std::uint32_t>(rank_count, 0)})
                                         .value();
  const SteadyClock clock;
  EngineHarness harness(*loaded.model, clock, {.max_batch_tokens = 64, .check_invariants = true});
  std::vector<TokenId> prompt;
  for (TokenId token = 100; token < 150; ++token) prompt.push_back(token);
  constexpr std::uint64_t kRequests = 6;
  for (std::uint64_t id = 1; id <= kRequests; ++id) {
    prompt.resize(40);
    for (std::uint64_t i = 0; i < 10 + id; ++i) prompt.push_back(static_cast<TokenId>(300 + 17 * id + i));
    EXPECT_TRUE(harness.Submit(GreedyRequest(id, prompt, 40)).ok());
    if (id % 2 == 0) (void)harness.Step();
  }
  harness.Run();
  EXPECT_GT(harness.totals().cached_prompt_tokens, 0U);
  std::vector<std::vector<TokenId>> outputs;
  for (std::uint64_t id = 1; id <= kRequests; ++id) outputs.push_back(harness.outcome(id).tokens);
  return outputs;
}

TEST(RankEngineTest, TheDemoModelsGreedyTokensAreThoseOfOneRank) {
  const auto wanted = Outputs(1);
  for (const auto& tokens : wanted) EXPECT_EQ(tokens.size(), 40U);
  EXPECT_EQ(Outputs(2), wanted);
  EXPECT_EQ(Outputs(4), wanted);
}

}  // namespace
}  // namespace roost::testing_support
