#include "common/base/rate_estimator.h"

#include <gtest/gtest.h>

#include <limits>

#include "common/base/rng.h"

namespace roost {
namespace {

struct Truth {
  double base = 0.002;
  double per_prefill_token = 0.0005;
  double per_decode_token = 0.003;

  [[nodiscard]] StepSample Sample(std::uint32_t prefill, std::uint32_t decode, double noise = 1) const {
    return {prefill, decode, noise * (base + prefill * per_prefill_token + decode * per_decode_token)};
  }
};

TEST(RateEstimatorTest, KnowsNothingBeforeStepsCame) {
  RateEstimator rates;
  EXPECT_EQ(rates.prefill_tokens_per_second(), 0);
  EXPECT_EQ(rates.decode_step_seconds(4), 0);
  rates.Observe(Truth{}.Sample(0, 3));
  rates.Observe(Truth{}.Sample(0, 5));
  EXPECT_EQ(rates.prefill_tokens_per_second(), 0);
  EXPECT_NEAR(rates.decode_step_seconds(4), 0.014, 1e-4);
}

TEST(RateEstimatorTest, KnowsWhatAStepTakesBesideItsPrefill) {
  RateEstimator rates;
  EXPECT_EQ(rates.seconds_beside_prefill(4), 0);
  for (std::uint32_t prefill = 10; prefill <= 500; prefill += 10) rates.Observe(Truth{}.Sample(prefill, 0));
  EXPECT_NEAR(rates.seconds_beside_prefill(0), 0.002, 1e-4);
  EXPECT_EQ(rates.decode_step_seconds(0), 0);  // no decode has been observed
  for (std::uint32_t prefill = 10; prefill <= 500; prefill += 10) {
    rates.Observe(Truth{}.Sample(prefill, prefill / 10 % 7));
  }
  EXPECT_NEAR(rates.seconds_beside_prefill(4), 0.014, 1e-4);
}

TEST(RateEstimatorTest, RecoversTheCostsOfMixedSteps) {
  RateEstimator rates;
  Rng rng(3);
  for (int i = 0; i < 100; ++i) {
    const auto prefill = static_cast<std::uint32_t>(rng.Below(512));
    const auto decode = static_cast<std::uint32_t>(rng.Below(32));
    rates.Observe(Truth{}.Sample(prefill, decode));
  }
  EXPECT_NEAR(rates.prefill_tokens_per_second(), 2000, 2);
  EXPECT_NEAR(rates.decode_step_seconds(10), 0.032, 1e-4);
}

TEST(RateEstimatorTest, RecoversWhatRequestsAndTheirContextsCost) {
  RateEstimator rates;
  Rng rng(4);
  for (int i = 0; i < 200; ++i) {
    const auto decodes = static_cast<std::uint32_t>(1 + rng.Below(64));
    const std::uint64_t context = decodes * (100 + rng.Below(4000));
    const double seconds = 6e-3 + 20e-6 * decodes + 44e-9 * static_cast<double>(context);
    rates.Observe({.prefill_tokens = 0, .decode_tokens = decodes, .seconds = seconds, .context_tokens = context});
  }
  const DecodeCost cost = rates.decode_cost();
  EXPECT_NEAR(cost.base_seconds, 6e-3, 1e-5);
  EXPECT_NEAR(cost.per_request_seconds, 20e-6, 1e-6);
  EXPECT_NEAR(cost.per_context_token_seconds, 44e-9, 1e-9);
  EXPECT_NEAR(rates.decode_step_seconds(10, 20'000), 6e-3 + 200e-6 + 880e-6, 1e-5);
}

// If all requests have the same context, their number explains the time as well: each request adds the same.
TEST(RateEstimatorTest, WhatARequestAddsIsKnownWhereContextsAreAllAlike) {
  RateEstimator rates;
  Rng rng(5);
  constexpr std::uint64_t kContext = 2000;
  for (int i = 0; i < 200; ++i) {
    const auto decodes = static_cast<std::uint32_t>(1 + rng.Below(64));
    const double seconds = 6e-3 + 44e-9 * static_cast<double>(decodes * kContext);
    rates.Observe({.decode_tokens = decodes, .seconds = seconds, .context_tokens = decodes * kContext});
  }
  const DecodeCost cost = rates.decode_cost();
  EXPECT_NEAR(cost.per_request_seconds + cost.per_context_token_seconds * kContext, 88e-6, 5e-6);
}

// A decode alone takes 20 ms, and short prefills run in the same steps. With one base for both, prefills would seem to
// take no time.
TEST(RateEstimatorTest, ShortPrefillsAreNotHiddenByLongDecodes) {
  RateEstimator rates;
  Rng rng(6);
  for (int i = 0; i < 100; ++i) {
    const auto prefill = static_cast<std::uint32_t>(16 + rng.Below(112));
    rates.Observe({prefill, 0, prefill * 0.0001});
    rates.Observe({0, static_cast<std::uint32_t>(1 + rng.Below(8)), 0.02});
  }
  EXPECT_NEAR(rates.prefill_tokens_per_second(), 10'000, 200);
  EXPECT_NEAR(rates.seconds_beside_prefill(0), 0, 1e-3);
  EXPECT_NEAR(rates.decode_step_seconds(4), 0.02, 1e-3);
}

TEST(RateEstimatorTest, WithoutStepsOfTheOtherKindBothBasesAreTheSame) {
  RateEstimator decodes;
  for (const std::uint32_t decode : {3U, 5U, 9U}) decodes.Observe(Truth{}.Sample(0, decode));
  EXPECT_NEAR(decodes.seconds_beside_prefill(0), 0.002, 1e-4);
  RateEstimator mixed;
  for (std::uint32_t decode = 0; decode < 50; ++decode) mixed.Observe(Truth{}.Sample(1 + decode * 37 % 50, decode));
  EXPECT_NEAR(mixed.decode_step_seconds(0), 0.002, 1e-4);
}

TEST(RateEstimatorTest, StepsThatAllLookAlikeBelongToTheirTokens) {
  RateEstimator rates;
  for (int i = 0; i < 10; ++i) rates.Observe({512, 0, 0.256});
  EXPECT_NEAR(rates.prefill_tokens_per_second(), 2000, 1);
}

// A prompt whose tokens are all cached but one takes a step as long as the full ones before it. This may be chance; the
// same again and again is not.
TEST(RateEstimatorTest, AFirstShortStepDoesNotMakePrefillFree) {
  RateEstimator rates;
  for (int i = 0; i < 4; ++i) rates.Observe({512, 0, 0.01});
  EXPECT_NEAR(rates.prefill_seconds(511), 0.01, 1e-4);
  rates.Observe({1, 0, 0.01});
  EXPECT_NEAR(rates.prefill_seconds(511), 0.01, 1e-4);
  for (int i = 0; i < 10; ++i) rates.Observe({1, 0, 0.01});
  EXPECT_LT(rates.prefill_seconds(511), 0.001);
}

TEST(RateEstimatorTest, PrefillSecondsLeaveOutTheBaseOnceItIsKnown) {
  RateEstimator rates;
  rates.Observe(Truth{.base = 0.1}.Sample(200, 0));
  EXPECT_EQ(rates.prefill_seconds(100), 0);
  rates.Observe(Truth{.base = 0.1}.Sample(200, 0));
  EXPECT_NEAR(rates.prefill_seconds(200), 0.2, 1e-3);
  for (std::uint32_t prefill = 10; prefill <= 500; prefill += 10) rates.Observe(Truth{.base = 0.1}.Sample(prefill, 0));
  EXPECT_NEAR(rates.prefill_seconds(200), 0.1, 2e-3);
  for (int i = 0; i < 10'000; ++i) rates.Observe(Truth{.base = 0.1}.Sample(0, 1));
  EXPECT_NEAR(rates.prefill_seconds(200), 0.1, 2e-2);
}

// Prompts of about the same length, and each step is up to a third too long or too short. The prediction for longer
// prompts depends on what the time is attributed to: to the tokens, until steps of other lengths show better.
TEST(RateEstimatorTest, NoiseIsNotTakenForABase) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    RateEstimator rates;
    for (int i = 0; i < 200; ++i) {
      const double noise = 0.67 + 0.66 * rng.Uniform();
      rates.Observe({static_cast<std::uint32_t>(400 + rng.Below(20)), 0, 0.2 * noise});
      rates.Observe({0, 1, 0.001 * noise});
      if (i == 0) continue;
      ASSERT_GE(rates.prefill_tokens_per_second(), 2000 / 2) << i;
      ASSERT_LE(rates.prefill_tokens_per_second(), 2000 * 2) << i;
    }
  }
}

// Otherwise the router would treat its fleet's rates as unknown again.
TEST(RateEstimatorTest, WhatIsKnownStaysKnown) {
  RateEstimator rates;
  for (std::uint32_t i = 0; i < 100; ++i) {
    rates.Observe({100 + i, 0, 0.3 - 0.002 * i});
    if (i > 0) {
      ASSERT_GT(rates.prefill_tokens_per_second(), 0) << i;
    }
  }
}

TEST(RateEstimatorTest, AWorkerThatOnlyDecodesForLongKeepsItsPrefillRate) {
  RateEstimator rates;
  for (std::uint32_t prefill = 10; prefill <= 500; prefill += 10) rates.Observe(Truth{}.Sample(prefill, 0));
  for (std::uint32_t i = 0; i < 200'000; ++i) {
    rates.Observe(Truth{}.Sample(0, 1 + i % 8));
    ASSERT_NEAR(rates.prefill_tokens_per_second(), 2000, 20) << i;
  }
  EXPECT_NEAR(rates.decode_step_seconds(4), 0.014, 1e-4);
}

// Prefills hide behind the weights that decodes read, so prefills must not inherit a base from decodes.
TEST(RateEstimatorTest, DecodesForLongSayNothingOfTheBaseOfPrefills) {
  RateEstimator rates;
  for (std::uint32_t prefill = 100; prefill <= 2000; prefill += 20) rates.Observe({prefill, 0, prefill * 1e-4});
  for (std::uint32_t i = 0; i < 200'000; ++i) {
    rates.Observe({0, 1 + i % 8, 0.02});
    ASSERT_NEAR(rates.prefill_tokens_per_second(), 10'000, 200) << i;
    ASSERT_NEAR(rates.seconds_beside_prefill(0), 0, 2e-3) << i;
  }
}

TEST(RateEstimatorTest, SurvivesNoiseAndFollowsAChangeOfSpeed) {
  RateEstimator rates;
  Rng rng(4);
  const auto feed = [&](const Truth& truth, int steps) {
    for (int i = 0; i < steps; ++i) {
      const double noise = 0.8 + 0.4 * rng.Uniform();
      rates.Observe(truth.Sample(static_cast<std::uint32_t>(64 + rng.Below(448)),
                                 static_cast<std::uint32_t>(rng.Below(16)), noise));
    }
  };
  feed(Truth{}, 300);
  EXPECT_NEAR(rates.prefill_tokens_per_second(), 2000, 200);
  feed(Truth{.per_prefill_token = 0.002}, 500);
  EXPECT_NEAR(rates.prefill_tokens_per_second(), 500, 50);
}

TEST(RateEstimatorTest, NeverGoesNegativeWhateverComes) {
  Rng rng(5);
  for (int round = 0; round < 200; ++round) {
    RateEstimator rates;
    for (int i = 0; i < 50; ++i) {
      rates.Observe({static_cast<std::uint32_t>(rng.Below(4)), static_cast<std::uint32_t>(rng.Below(4)),
                     rng.Uniform() * static_cast<double>(rng.Below(100))});
      ASSERT_GE(rates.prefill_tokens_per_second(), 0);
      ASSERT_GE(rates.decode_step_seconds(7), 0);
    }
  }
}

TEST(RateEstimatorTest, IgnoresWhatIsNoStep) {
  RateEstimator rates;
  for (int i = 0; i < 3; ++i) rates.Observe(Truth{}.Sample(static_cast<std::uint32_t>(100 + i), 0));
  const double before = rates.prefill_tokens_per_second();
  rates.Observe({0, 0, 5});
  rates.Observe({100, 0, 0});
  rates.Observe({100, 0, -1});
  rates.Observe({100, 0, std::numeric_limits<double>::quiet_NaN()});
  rates.Observe({100, 0, std::numeric_limits<double>::infinity()});
  EXPECT_EQ(rates.prefill_tokens_per_second(), before);
}

}  // namespace
}  // namespace roost
