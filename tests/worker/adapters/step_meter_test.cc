#include "worker/adapters/step_meter.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace roost::worker::adapters {
namespace {

using std::chrono::milliseconds;

class StepMeterTest : public ::testing::Test {
 protected:
  static Instant At(int ms) { return Instant() + milliseconds(1000 + ms); }
  std::vector<StepSample> Steps() {
    std::vector<StepSample> steps;
    while (const auto step = meter_.TakeStep()) steps.push_back(*step);
    return steps;
  }
  static void ExpectStep(const StepSample& step, std::uint32_t prefill, std::uint32_t decode, double time) {
    EXPECT_EQ(step.prefill_tokens, prefill);
    EXPECT_EQ(step.decode_tokens, decode);
    EXPECT_NEAR(step.seconds, time, 1e-6);
  }

  // A's first token, and 20 more, 10 ms apart. Returns when the last one arrives.
  int DecodeAlone() {
    meter_.OnSent(a_, At(0));
    meter_.OnFirstTokens(a_, 100, 1, At(20));
    int now = 20;
    for (int step = 0; step < 20; ++step) meter_.OnTokens(a_, 1, At(now += 10));
    Steps();
    return now;
  }

  const CallId a_{1};
  const CallId b_{2};
  StepMeter meter_;
};

TEST_F(StepMeterTest, ALonePromptTakesUntilItsFirstToken) {
  meter_.OnSent(a_, At(0));
  meter_.OnFirstTokens(a_, 500, 1, At(100));
  EXPECT_TRUE(Steps().empty());  // others may have tokens in this step too
  meter_.OnTokens(a_, 1, At(120));
  const auto steps = Steps();
  ASSERT_EQ(steps.size(), 1U);
  ExpectStep(steps[0], 500, 0, 0.1);
}

TEST_F(StepMeterTest, AStepIsOneArrivalOfEachCall) {
  meter_.OnSent(a_, At(0));
  meter_.OnSent(b_, At(0));
  meter_.OnFirstTokens(a_, 10, 1, At(50));
  meter_.OnFirstTokens(b_, 20, 1, At(51));
  for (int step = 1; step <= 3; ++step) {
    meter_.OnTokens(a_, 1, At(50 + 20 * step));
    meter_.OnTokens(b_, 1, At(52 + 20 * step));
  }
  const auto steps = Steps();
  ASSERT_EQ(steps.size(), 3U);
  ExpectStep(steps[0], 30, 0, 0.05);
  ExpectStep(steps[1], 0, 2, 0.02);
  ExpectStep(steps[2], 0, 2, 0.02);
}

TEST_F(StepMeterTest, TokensOfSeveralStepsMayArriveAtOnce) {
  meter_.OnSent(a_, At(0));
  meter_.OnSent(b_, At(0));
  meter_.OnFirstTokens(a_, 10, 1, At(50));
  meter_.OnFirstTokens(b_, 10, 1, At(50));
  for (int step = 0; step < 5; ++step) {
    meter_.OnTokens(a_, 1, At(100));
    meter_.OnTokens(b_, 1, At(100));
  }
  meter_.OnTokens(a_, 4, At(140));
  meter_.OnTokens(b_, 4, At(140));
  meter_.OnTokens(a_, 1, At(150));
  const auto steps = Steps();
  ASSERT_EQ(steps.size(), 3U);
  ExpectStep(steps[1], 0, 2, 0.01);  // five of them
  ExpectStep(steps[2], 0, 2, 0.01);  // four
}

TEST_F(StepMeterTest, TheLastStepClosesWhenNothingRuns) {
  meter_.OnSent(a_, At(0));
  meter_.OnFirstTokens(a_, 10, 1, At(50));
  meter_.OnTokens(a_, 1, At(70));
  meter_.OnEnd(a_);
  meter_.CloseIfIdle();
  EXPECT_EQ(Steps().size(), 2U);
}

TEST_F(StepMeterTest, IdleTimeIsNoPartOfAStep) {
  meter_.OnSent(a_, At(0));
  meter_.OnFirstTokens(a_, 10, 1, At(50));
  meter_.OnEnd(a_);
  meter_.CloseIfIdle();
  meter_.OnSent(b_, At(5000));
  meter_.OnFirstTokens(b_, 10, 1, At(5050));
  meter_.OnEnd(b_);
  meter_.CloseIfIdle();
  const auto steps = Steps();
  ASSERT_EQ(steps.size(), 2U);
  ExpectStep(steps[1], 10, 0, 0.05);
}

// The prompt of B runs in three steps beside the decodes of A, each 20 ms longer than a step without it.
TEST_F(StepMeterTest, APrefillInPartsCountsWithoutTheDecodesBesideIt) {
  int now = DecodeAlone();
  meter_.OnSent(b_, At(now));
  meter_.OnTokens(a_, 1, At(now += 30));
  meter_.OnTokens(a_, 1, At(now += 30));
  meter_.OnTokens(a_, 1, At(now += 30));
  meter_.OnFirstTokens(b_, 600, 1, At(now));
  meter_.OnTokens(a_, 1, At(now += 10));
  const auto steps = Steps();
  ASSERT_EQ(steps.size(), 1U + 1U);  // the one that was open before B, and the prefill
  EXPECT_EQ(steps[1].prefill_tokens, 600U);
  EXPECT_EQ(steps[1].decode_tokens, 1U);
  EXPECT_NEAR(steps[1].seconds, 0.070, 0.005);  // 90 ms less two decodes
}

// The engine sends the tokens of a step in any order.
TEST_F(StepMeterTest, FirstTokensMayArriveBeforeTheOthersOfTheirStep) {
  int now = DecodeAlone();
  for (const int sent_after : {2, -5}) {  // the arrival of the step before
    SCOPED_TRACE(sent_after);
    meter_.OnSent(b_, At(now + sent_after));
    now += 100;
    meter_.OnFirstTokens(b_, 600, 1, At(now - 1));
    meter_.OnTokens(a_, 1, At(now));
    meter_.OnEnd(b_);
    meter_.OnTokens(a_, 1, At(now += 10));
    const StepSample prefill = Steps().back();
    EXPECT_EQ(prefill.prefill_tokens, 600U);
    EXPECT_EQ(prefill.decode_tokens, 1U);
    EXPECT_NEAR(prefill.seconds, 0.095, 0.003);
    meter_.OnTokens(a_, 1, At(now += 10));
    ExpectStep(Steps().back(), 0, 1, 0.011);
  }
}

TEST_F(StepMeterTest, FirstTokensThatAreALittleLateAreOfTheStepBefore) {
  int now = DecodeAlone();
  meter_.OnSent(b_, At(now));
  meter_.OnTokens(a_, 1, At(now += 100));
  meter_.OnFirstTokens(b_, 600, 1, At(now + 3));
  meter_.OnTokens(a_, 1, At(now += 10));
  const StepSample prefill = Steps().back();
  EXPECT_EQ(prefill.prefill_tokens, 600U);
  EXPECT_NEAR(prefill.seconds, 0.1, 0.005);
}

TEST_F(StepMeterTest, APromptThatIsSentBeforeTheStepOfAnotherCloses) {
  int now = DecodeAlone();
  const CallId c{3};
  meter_.OnSent(b_, At(now));
  meter_.OnTokens(a_, 1, At(now += 100));
  meter_.OnFirstTokens(b_, 600, 1, At(now));
  meter_.OnSent(c, At(now + 5));
  meter_.OnEnd(b_);
  meter_.OnTokens(a_, 1, At(now += 85));
  meter_.OnFirstTokens(c, 600, 1, At(now));
  meter_.OnTokens(a_, 1, At(now += 10));
  const auto steps = Steps();
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_EQ(steps[1].prefill_tokens, 600U);
  EXPECT_NEAR(steps[1].seconds, 0.1, 0.005);
  EXPECT_EQ(steps[2].prefill_tokens, 600U);
  EXPECT_NEAR(steps[2].seconds, 0.08, 1e-6);
}

// B's prompt was sent with A's, but begins after it.
TEST_F(StepMeterTest, APromptThatWaitedCountsFromTheOneBeforeIt) {
  const CallId c{3};
  meter_.OnSent(c, At(0));
  meter_.OnFirstTokens(c, 10, 1, At(10));
  for (int now = 20; now <= 200; now += 10) meter_.OnTokens(c, 1, At(now));
  meter_.OnSent(a_, At(200));
  meter_.OnSent(b_, At(200));
  meter_.OnTokens(c, 1, At(230));
  meter_.OnFirstTokens(a_, 300, 1, At(230));
  Steps();
  meter_.OnTokens(c, 1, At(260));
  meter_.OnTokens(a_, 1, At(260));
  meter_.OnTokens(c, 1, At(290));
  meter_.OnTokens(a_, 1, At(290));
  meter_.OnFirstTokens(b_, 600, 1, At(290));
  meter_.OnTokens(c, 1, At(300));
  const auto steps = Steps();
  ASSERT_EQ(steps.size(), 2U);  // the prefills; the step between them carried a part of B's
  EXPECT_EQ(steps[0].prefill_tokens, 300U);
  EXPECT_EQ(steps[1].prefill_tokens, 600U);
  // 60 ms less a step of two decodes: of one it takes 10 ms, of two it was never seen.
  EXPECT_GE(steps[1].seconds, 0.039);
  EXPECT_LE(steps[1].seconds, 0.051);
}

// An engine's first use of a shape, or a pause of the machine.
TEST_F(StepMeterTest, AnOddStepIsNoSpeedAndSeveralAre) {
  int now = 0;
  std::uint64_t call = 10;
  const auto prompt = [&](int time) {
    const CallId id(++call);
    meter_.OnSent(id, At(now));
    now += time;
    meter_.OnFirstTokens(id, 500, 1, At(now));
    meter_.OnEnd(id);
    meter_.CloseIfIdle();
    now += 1000;
    return Steps().at(0).seconds;
  };
  EXPECT_NEAR(prompt(100), 0.1, 1e-6);
  EXPECT_NEAR(prompt(5000), 0.2, 1e-6) << "of the first ones the fastest tells";
  for (int i = 0; i < 20; ++i) EXPECT_NEAR(prompt(100), 0.1, 1e-6);
  EXPECT_NEAR(prompt(5000), 0.2, 0.02);
  double last = 0;
  for (int i = 0; i < 400; ++i) last = prompt(1000);
  EXPECT_NEAR(last, 1, 1e-6) << "it has become slow";
}

TEST_F(StepMeterTest, StepsThatNobodyTakesAreForgotten) {
  meter_.OnSent(a_, At(0));
  meter_.OnFirstTokens(a_, 10, 1, At(10));
  for (int step = 0; step < 1000; ++step) meter_.OnTokens(a_, 1, At(20 + step));
  EXPECT_LE(Steps().size(), 16U);
}

TEST_F(StepMeterTest, ACancelledPromptIsNoStep) {
  meter_.OnSent(a_, At(0));
  meter_.OnEnd(a_);
  meter_.CloseIfIdle();
  EXPECT_TRUE(Steps().empty());
}

}  // namespace
}  // namespace roost::worker::adapters
