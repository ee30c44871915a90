#include "deploy/roostctl/simulate/fluid_decode.h"

#include <gtest/gtest.h>

#include <map>

#include "common/base/rng.h"

namespace roost::simulate {
namespace {

Instant At(double seconds) { return Instant(FromSeconds(seconds)); }

TEST(FluidDecodeTest, RequestsThatDoNotSlowEachOtherEndAfterTheirTokens) {
  const ServiceModel model;  // 50 tokens per second
  FluidDecode decode(model, 1);
  decode.Start({.id = 1, .token_count = 100, .context_token_count = 10}, At(0));
  decode.Start({.id = 2, .token_count = 10, .context_token_count = 10}, At(1));
  ASSERT_TRUE(decode.NextEnd().has_value());
  EXPECT_NEAR(ToSeconds(*decode.NextEnd() - At(0)), 1.2, 1e-6);
  EXPECT_TRUE(decode.TakeEnded(At(1.1)).empty());
  EXPECT_EQ(decode.TakeEnded(*decode.NextEnd()), std::vector<std::uint64_t>{2});
  EXPECT_NEAR(ToSeconds(*decode.NextEnd() - At(0)), 2, 1e-6);
}

TEST(FluidDecodeTest, AFasterWorkerDrawsFaster) {
  const ServiceModel model;
  FluidDecode decode(model, 2);
  decode.Start({.id = 1, .token_count = 100, .context_token_count = 0}, At(0));
  EXPECT_NEAR(ToSeconds(*decode.NextEnd() - At(0)), 1, 1e-6);
}

TEST(FluidDecodeTest, WhoStopsHasTheRestStillToDraw) {
  const ServiceModel model;
  FluidDecode decode(model, 1);
  decode.Start({.id = 1, .token_count = 100, .context_token_count = 0}, At(0));
  EXPECT_NEAR(decode.Stop(1, At(1)), 50, 1e-6);
  EXPECT_EQ(decode.request_count(), 0U);
  EXPECT_FALSE(decode.NextEnd().has_value());
}

// A context that grows by one in each of 10,000 steps, with no call in between.
TEST(FluidDecodeTest, StepsGrowWithTheirContexts) {
  ServiceModel model;
  model.decode_base_seconds = 0.006;
  model.decode_seconds_per_context_token = 1e-6;
  FluidDecode decode(model, 1);
  decode.Start({.id = 1, .token_count = 10'000, .context_token_count = 1000}, At(0));
  EXPECT_NEAR(ToSeconds(*decode.NextEnd() - At(0)), 10'000 * (0.006 + 0.001) + 1e-6 * 10'000 * 10'000 / 2, 1e-3);
  EXPECT_NEAR(decode.Stop(1, *decode.NextEnd()), 0, 1e-3);
}

TEST(FluidDecodeTest, PromptsDelayWhatIsDrawnBesideThem) {
  const ServiceModel model;  // 20 ms
  FluidDecode decode(model, 1);
  decode.Start({.id = 1, .token_count = 3, .context_token_count = 0}, At(0));
  decode.SetPrompts({.worker_share = 1, .seconds_per_step = 0.08}, At(0.02));
  EXPECT_NEAR(decode.StepSeconds(), 0.1, 1e-9);
  decode.SetPrompts({}, At(0.12));
  EXPECT_NEAR(ToSeconds(*decode.NextEnd() - At(0)), 0.14, 1e-6);
}

TEST(FluidDecodeTest, WhatArrivesInAStepFindsItsEnd) {
  const ServiceModel model;
  FluidDecode decode(model, 1);
  EXPECT_EQ(decode.StepEnd(At(1)), At(1));
  decode.Start({.id = 1, .token_count = 50, .context_token_count = 0}, At(1));
  EXPECT_EQ(decode.StepEnd(At(1)), At(1));
  EXPECT_NEAR(ToSeconds(decode.StepEnd(At(1.05)) - At(1)), 0.06, 1e-6);
  ServiceModel separate;
  separate.batching = Batching::kSeparate;
  FluidDecode apart(separate, 1);
  apart.Start({.id = 1, .token_count = 50, .context_token_count = 0}, At(1));
  EXPECT_EQ(apart.StepEnd(At(1.05)), At(1.05));
}

TEST(FluidDecodeTest, NoTokensEndAtOnce) {
  const ServiceModel model;
  FluidDecode decode(model, 1);
  decode.Start({.id = 1, .token_count = 0, .context_token_count = 0}, At(3));
  EXPECT_EQ(*decode.NextEnd(), At(3));
  EXPECT_EQ(decode.TakeEnded(At(3)).size(), 1U);
}

// Against a worker that decodes step by step: each step gives every request one token and takes the model's time.
TEST(FluidDecodeTest, EndsAboutWhenStepsWould) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    ServiceModel model;
    model.decode_seconds_per_request = 0.001;
    model.decode_seconds_per_context_token = 1e-6;
    struct Stepped {
      std::uint64_t left = 0;
      double context = 0;
    };
    FluidDecode decode(model, 1);
    std::map<std::uint64_t, Stepped> stepped;
    for (std::uint64_t id = 0; id < 10; ++id) {
      const std::uint64_t tokens = 50 + rng.Below(400);
      const double context = static_cast<double>(rng.Below(20'000));
      stepped[id] = {tokens, context};
      decode.Start({.id = id, .token_count = static_cast<double>(tokens), .context_token_count = context}, At(0));
    }
    std::map<std::uint64_t, double> expected;
    for (double now = 0; !stepped.empty();) {
      double context = 0;
      for (const auto& [id, request] : stepped) context += request.context;
      now += model.DecodeStepSeconds(static_cast<double>(stepped.size()), context);
      for (auto entry = stepped.begin(); entry != stepped.end();) {
        entry->second.context += 1;
        if (--entry->second.left == 0) {
          expected[entry->first] = now;
          entry = stepped.erase(entry);
        } else {
          ++entry;
        }
      }
    }
    while (const std::optional<Instant> end = decode.NextEnd()) {
      for (const std::uint64_t id : decode.TakeEnded(*end)) {
        EXPECT_NEAR(ToSeconds(*end - At(0)), expected.at(id), 0.02 * expected.at(id)) << id;
        expected.erase(id);
      }
    }
    EXPECT_TRUE(expected.empty());
  }
}

}  // namespace
}  // namespace roost::simulate
