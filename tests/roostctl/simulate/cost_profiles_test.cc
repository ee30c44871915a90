#include "deploy/roostctl/simulate/cost_profiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace roost::simulate {
namespace {

Result<ServiceModel> Parsed(std::vector<std::string> costs) { return ParseCosts(costs); }

TEST(CostProfilesTest, EveryProfileHasItsName) {
  for (const CostProfile& profile : kCostProfiles) {
    const Result<ServiceModel> service = Parsed({std::string(profile.name)});
    ASSERT_TRUE(service.ok()) << profile.name;
    EXPECT_EQ(service->prefill_tokens_per_second, profile.service.prefill_tokens_per_second);
  }
}

TEST(CostProfilesTest, TermsChangeTheProfile) {
  const ServiceModel service = Parsed({"llama-8b-h100", "step-base-ms=8", "prefill-rate=100"}).value();
  EXPECT_DOUBLE_EQ(service.step_base_seconds, 0.008);
  EXPECT_DOUBLE_EQ(service.prefill_tokens_per_second, 100);
  EXPECT_DOUBLE_EQ(service.attention_seconds, kLlama8bOnH100.attention_seconds);
}

TEST(CostProfilesTest, WhatIsNoCostIsNamed) {
  for (const char* const wrong :
       {"step-base=8", "step-base-ms", "prefill-rate=0", "attention-ns=x", "attention-ns=-1"}) {
    const Result<ServiceModel> service = Parsed({"llama-8b-h100", wrong});
    ASSERT_FALSE(service.ok()) << wrong;
    EXPECT_EQ(service.error().field, "costs");
  }
  EXPECT_THAT(Parsed({"gpt"}).error().ToString(), testing::HasSubstr("dynamo-mocker"));
  EXPECT_FALSE(Parsed({}).ok());
}

// Published times to the first token of Llama-3.1-8B on an H100, and between tokens.
TEST(CostProfilesTest, LlamaIsAsFastAsPublished) {
  constexpr std::uint32_t kStepTokens = 8192;
  const std::pair<std::uint32_t, double> published[] = {
      {10'000, 0.26}, {20'000, 0.64}, {40'000, 1.65}, {50'000, 2.3}, {100'000, 6.85}};
  for (const auto& [tokens, seconds] : published) {
    const double steps = std::ceil(static_cast<double>(tokens) / kStepTokens);
    const double modelled = steps * kLlama8bOnH100.step_base_seconds + kLlama8bOnH100.ChunkSeconds(0, tokens);
    EXPECT_NEAR(modelled, seconds, 0.055 * seconds) << tokens;
  }
  EXPECT_NEAR(kLlama8bOnH100.DecodeStepSeconds(1, 20'000), 7.314e-3, 1e-6);
}

// The mock's answers to single requests of 512 to 8,192 tokens.
TEST(CostProfilesTest, TheMockerIsAsFastAsItself) {
  const auto ttft = [](std::uint32_t tokens) {
    return kDynamoMocker.PromptSeconds(kDynamoMocker.ChunkSeconds(0, tokens), tokens);
  };
  EXPECT_NEAR(ttft(512), 24.385704e-3, 1e-8);
  EXPECT_NEAR(ttft(8192), 169.136918e-3, 1e-8);
  EXPECT_NEAR(kDynamoMocker.DecodeStepSeconds(1, 1024), 5.795e-3, 1e-6);
}

}  // namespace
}  // namespace roost::simulate
