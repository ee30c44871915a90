#include "deploy/roostctl/bench/sessions.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "deploy/roostctl/bench/bench_load.h"

namespace roost::roostctl {
namespace {

std::vector<BenchSession> Sessions(std::string workload, std::uint32_t count, std::uint64_t seed = 1) {
  SessionShape shape;
  shape.workload = std::move(workload);
  shape.session_count = count;
  shape.seed = seed;
  return MakeSessions(shape, nullptr);
}

std::string TextOf(const BenchText& text) { return Render(text, 1.3); }
std::string FrontOf(const BenchSession& session) { return session.front ? TextOf(*session.front) : ""; }

TEST(SessionsTest, OfEveryWorkloadShareWhatItsNameSays) {
  const std::map<std::string_view, std::size_t> shared{{"chat", 4},          {"shared-prompt", 4}, {"multi-turn", 0},
                                                       {"documents", 14},    {"agents", 2},        {"no-reuse", 0},
                                                       {"system-prompt", 1}, {"zipf-systems", 10}, {"reasoning", 1}};
  for (const std::string_view workload : kBenchWorkloads) {
    std::set<std::string> fronts;
    std::set<std::string> first_turns;
    for (const BenchSession& session : Sessions(std::string(workload), 200)) {
      if (session.front) fronts.insert(FrontOf(session));
      first_turns.insert(TextOf(session.turns.at(0).text));
    }
    EXPECT_EQ(fronts.size(), shared.at(workload)) << workload;
    EXPECT_EQ(first_turns.size(), 200U) << workload;
  }
  EXPECT_EQ(Sessions("chat", 1)[0].turns.size(), 3U);
  EXPECT_EQ(Sessions("agents", 1)[0].turns.size(), 8U);
  EXPECT_EQ(Sessions("no-reuse", 1)[0].turns.size(), 1U);
}

TEST(SessionsTest, LengthsAreThoseOfTheWorkloadTimesTheScale) {
  std::set<std::uint32_t> answers;
  for (const BenchSession& session :
       MakeSessions({.workload = "system-prompt", .session_count = 200, .scale = 0.1}, nullptr)) {
    EXPECT_EQ(session.front->pieces.at(0).token_count, 200U);
    EXPECT_GE(session.turns.at(0).text.pieces.at(0).token_count, 5U);
    EXPECT_LE(session.turns[0].text.pieces[0].token_count, 30U);
    answers.insert(session.turns[0].max_tokens);
  }
  EXPECT_GE(*answers.begin(), 20U);
  EXPECT_LE(*answers.rbegin(), 100U);
  EXPECT_GT(answers.size(), 50U);
  EXPECT_EQ(Sessions("chat", 1)[0].turns[0].max_tokens, 24U);
  EXPECT_EQ(MakeSessions({.workload = "reasoning", .max_tokens = 5}, nullptr)[0].turns[0].max_tokens, 5U);
}

TEST(SessionsTest, AnotherSeedHasTheSameSharedTextsAndOtherQuestions) {
  std::set<std::string> fronts;
  std::set<std::string> questions;
  for (const std::uint64_t seed : {std::uint64_t{1}, std::uint64_t{2}}) {
    for (const BenchSession& session : Sessions("shared-prompt", 20, seed)) {
      fronts.insert(FrontOf(session));
      questions.insert(TextOf(session.turns[0].text));
    }
  }
  EXPECT_EQ(fronts.size(), 4U);
  EXPECT_EQ(questions.size(), 40U);
}

TEST(SessionsTest, GivenTextsAreUsed) {
  const BenchPrompts prompts{.systems = {"s1", "s2"}, .questions = {"q"}};
  for (const BenchSession& session : MakeSessions({.session_count = 6, .turn_count = 2}, &prompts)) {
    EXPECT_EQ(FrontOf(session).substr(0, 1), "s");
    ASSERT_EQ(session.turns.size(), 2U);
    EXPECT_EQ(TextOf(session.turns[1].text), "q");
  }
}

workload::Trace MakeTrace(workload::Pacing pacing) {
  workload::Trace trace{.block_tokens = 64, .requests = {}, .pacing = pacing};
  trace.requests.push_back({0, 128 + 10, 64, {1, 2, 3}, 0, 5});
  trace.requests.push_back({1, 64 + 1, 20, {1}, 0, 6});
  trace.requests.push_back({4, 192, 20, {1, 2, 3}, 0, 5});
  return trace;
}

TEST(TraceSessionsTest, EqualBlocksHaveEqualTextsAndTheRestIsItsOwn) {
  const auto sessions = TraceSessions(MakeTrace(workload::Pacing::kRecorded), 2, 1);
  ASSERT_EQ(sessions.size(), 3U);
  EXPECT_EQ(sessions[2].start_seconds, 2);
  const auto text = [&](std::size_t i) { return TextOf(sessions[i].turns.at(0).text); };
  BenchText two_blocks;
  two_blocks.pieces.assign(sessions[0].turns[0].text.pieces.begin(), sessions[0].turns[0].text.pieces.begin() + 2);
  const std::string shared = TextOf(two_blocks);
  EXPECT_EQ(text(2).substr(0, shared.size()), shared);
  EXPECT_EQ(text(0).substr(0, shared.size()), shared);
  EXPECT_NE(text(0).substr(shared.size(), 10), text(2).substr(shared.size(), 10));
  EXPECT_EQ(sessions[0].turns[0].max_tokens, 64U);
}

TEST(TraceSessionsTest, TurnsOfASessionWaitForEachOtherWhereTheTraceSaysSo) {
  const auto sessions = TraceSessions(MakeTrace(workload::Pacing::kTurnByTurn), 1, 1);
  ASSERT_EQ(sessions.size(), 2U);
  ASSERT_EQ(sessions[0].turns.size(), 2U);
  EXPECT_TRUE(sessions[0].has_whole_prompts);
  EXPECT_EQ(sessions[0].turns[1].earliest_seconds, 4);
}

TEST(ArrivalsTest, HaveTheirRateAndDistances) {
  const auto even = ArrivalTimes(ArrivalKind::kConstant, 5, 4, 1);
  EXPECT_EQ(even, (std::vector<double>{0, 0.25, 0.5, 0.75, 1}));
  const auto poisson = ArrivalTimes(ArrivalKind::kPoisson, 20'000, 10, 1);
  EXPECT_NEAR(poisson.back(), 2000, 60);
  // A share of 1 - 1/e of exponential gaps is shorter than their mean.
  std::size_t short_gaps = 0;
  for (std::size_t i = 1; i < poisson.size(); ++i) short_gaps += poisson[i] - poisson[i - 1] < 0.1 ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(short_gaps) / 20'000, 0.632, 0.02);
  EXPECT_EQ(poisson, ArrivalTimes(ArrivalKind::kPoisson, 20'000, 10, 1));
  EXPECT_NE(poisson, ArrivalTimes(ArrivalKind::kPoisson, 20'000, 10, 2));
}

TEST(BlocksTest, EachBeginsAtZeroAndTheFirstHasTheWarmUps) {
  BenchOptions options;
  options.shape.session_count = 40;
  options.warm_up_count = 3;
  options.rate = 10;
  std::vector<BenchSession> load = MakeLoad(options).value();
  ASSERT_EQ(load.size(), 43U);
  EXPECT_EQ(BlockCount(options, load), 2U);
  options.block_count = 4;
  EXPECT_EQ(BlockCount(options, load), 4U);
  const auto blocks = CutIntoBlocks(std::move(load), 4);
  ASSERT_EQ(blocks.size(), 4U);
  EXPECT_EQ(blocks[0].size(), 13U);
  EXPECT_TRUE(blocks[0][2].is_warm_up);
  EXPECT_FALSE(blocks[0][3].is_warm_up);
  std::set<std::size_t> numbers;
  for (const auto& block : blocks) {
    EXPECT_EQ(block[0].start_seconds, 0);
    EXPECT_GT(block[1].start_seconds, 0);
    for (const BenchSession& session : block) numbers.insert(session.number);
  }
  EXPECT_EQ(numbers.size(), 43U);
}

TEST(LoadTest, AnOpenLoopsRateIsOfRequestsAndItsLengthOfTime) {
  BenchOptions options;  // chat: three turns
  options.rate = 30;
  options.seconds = 20;
  const std::vector<BenchSession> load = MakeLoad(options).value();
  EXPECT_EQ(load.size(), 200U);
  EXPECT_NEAR(load.back().start_seconds, 20, 5);
}

TEST(LoadTest, OptionsThatContradictEachOtherAreErrors) {
  BenchOptions options;
  options.seconds = 5;
  EXPECT_EQ(MakeLoad(options).error().field, "seconds");
  options.rate = 1;
  options.trace = "/none";
  EXPECT_EQ(MakeLoad(options).error().field, "rate");
  options.rate = options.seconds = 0;
  EXPECT_EQ(MakeLoad(options).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace roost::roostctl
