#include "deploy/roostctl/simulate/arrival_times.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "deploy/roostctl/simulate/cost_profiles.h"
#include "deploy/roostctl/workload/generators.h"

namespace roost::simulate {
namespace {

using workload::Pacing;
using workload::Trace;

Trace TwoTurns(Pacing pacing) {
  return {.block_tokens = 16,
          .requests =
              {{.arrival_seconds = 1, .input_token_count = 16, .output_token_count = 0, .blocks = {1}, .session = 7},
               {.arrival_seconds = 3, .input_token_count = 16, .output_token_count = 0, .blocks = {1}, .session = 7}},
          .pacing = pacing};
}

// Plays the trace; each answer ends this many seconds after its request.
std::map<std::uint32_t, double> ArrivalSeconds(const Trace& trace, double answer_seconds) {
  Timeline timeline;
  std::map<std::uint32_t, double> seconds;
  Arrivals* playing = nullptr;
  Arrivals arrivals(trace, 1, timeline, [&](std::uint32_t number) {
    seconds[number] = ToSeconds(timeline.Now() - Instant{});
    timeline.After(FromSeconds(answer_seconds), [&playing, number] { playing->OnEnd(number); });
  });
  playing = &arrivals;
  arrivals.Begin(Instant{});
  while (timeline.RunNext()) {
  }
  return seconds;
}

TEST(ArrivalsTest, ATurnComesAtItsTimeIfTheAnswerBeforeItIsThere) {
  EXPECT_EQ(ArrivalSeconds(TwoTurns(Pacing::kTurnByTurn), 0.5), (std::map<std::uint32_t, double>{{0, 1}, {1, 3}}));
}

TEST(ArrivalsTest, ATurnWaitsForTheAnswerBeforeIt) {
  EXPECT_EQ(ArrivalSeconds(TwoTurns(Pacing::kTurnByTurn), 5), (std::map<std::uint32_t, double>{{0, 1}, {1, 6}}));
}

TEST(ArrivalsTest, RecordedTimesWaitForNobody) {
  EXPECT_EQ(ArrivalSeconds(TwoTurns(Pacing::kRecorded), 5), (std::map<std::uint32_t, double>{{0, 1}, {1, 3}}));
}

TEST(ArrivalsTest, ScalingGivesTheUtilisationThatWasAskedFor) {
  Trace trace = workload::NoReuse({});
  ScaleToUtilisation(trace, 0.7, kFreeDecode, {.speed = 8});
  const workload::TraceSummary summary = workload::Summarise(trace);
  const double span = trace.requests.back().arrival_seconds;
  EXPECT_NEAR(static_cast<double>(summary.input_token_count) / (80'000 * span), 0.7, 1e-9);
}

// 1,000 tokens of prompt take 0.1 s, and 10 tokens of answer their tenth of 10 steps of 20 ms.
TEST(ArrivalsTest, AnswersCountInTheUtilisationWhereTheyShareSteps) {
  Trace trace{.block_tokens = 16, .requests = {}};
  for (const workload::ContentId prompt : {workload::ContentId{0}, workload::ContentId{1}}) {
    trace.requests.push_back({.arrival_seconds = static_cast<double>(prompt),
                              .input_token_count = 1000,
                              .output_token_count = 10,
                              .blocks = std::vector<workload::ContentId>(1000 / 16 + 1, prompt)});
  }
  ScaleToUtilisation(trace, 0.5, ServiceModel(), {.speed = 2, .full_batch = 10});
  EXPECT_NEAR(trace.requests.back().arrival_seconds, 2 * (0.1 + 0.02) / (0.5 * 2), 1e-9);
}

TEST(ArrivalsTest, ARateIsOfAllRequestsOverTheSpan) {
  Trace trace = workload::NoReuse({});
  ScaleToRate(trace, 40);
  EXPECT_NEAR(static_cast<double>(trace.requests.size()) / trace.requests.back().arrival_seconds, 40, 1e-9);
}

TEST(TimelineTest, WhatIsDueTogetherHappensInTheOrderOfAsking) {
  Timeline timeline;
  std::string order;
  timeline.After(FromSeconds(2), [&] { order += 'c'; });
  timeline.After(FromSeconds(1), [&] { order += 'a'; });
  timeline.After(FromSeconds(1), [&] {
    order += 'b';
    timeline.After(FromSeconds(1), [&] { order += 'd'; });
  });
  while (timeline.RunNext()) {
  }
  EXPECT_EQ(order, "abcd");
}

}  // namespace
}  // namespace roost::simulate
