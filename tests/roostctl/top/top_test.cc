#include "deploy/roostctl/top/top.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace roost::roostctl {
namespace {

using testing::HasSubstr;

TopWorker WorkerNamed(std::string name, WorkerTotals totals = {}) {
  return {.name = std::move(name),
          .state = "ready",
          .running_requests = 4,
          .waiting_requests = 1,
          .blocks = 1000,
          .free_blocks = 500,
          .cached_blocks = 700,
          .totals = totals};
}

std::size_t Columns(const std::string& line) {
  return static_cast<std::size_t>(
      std::count_if(line.begin(), line.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

TEST(FrameTest, ShowsLoadAndWhatHasChangedAsRates) {
  TopSample before;
  before.seconds = 10;
  before.workers = {WorkerNamed("w1", {100, 1000, 100, 5000, 90, 9})};
  TopSample now;
  now.seconds = 12;
  now.workers = {WorkerNamed("w1", {110, 3000, 1700, 6000, 100, 9.5})};
  now.queued_requests = 3;
  const auto lines = DrawFrame("top", before, now, {});
  EXPECT_EQ(lines[0], "top   1/1 workers ready   queued 3, 0.0 s");
  EXPECT_THAT(lines[1], HasSubstr("requests 5.0/s  output 500 tok/s  prompt 1000 tok/s  hit 80%  TTFT p50 - p99 -"));
  EXPECT_EQ(lines[4], "w1                  ready       4    1 ####....  50%   80%    500   5.0    50 ms");
}

TEST(FrameTest, ShowsHitsInTimeWhereWorkersTellTimes) {
  TopSample before;
  before.seconds = 10;
  before.workers = {WorkerNamed("w1", {100, 1000, 100, 5000, 90, 9, 5, 5})};
  TopSample now;
  now.seconds = 12;
  now.workers = {WorkerNamed("w1", {110, 3000, 1700, 6000, 100, 9.5, 14, 6})};
  now.workers[0].disk_blocks = 12'000;
  const auto lines = DrawFrame("top", before, now, {});
  EXPECT_THAT(lines[1] + lines[2], HasSubstr("hit 90%, 80% of tokens  on disk 12.0k blocks"));
  EXPECT_THAT(lines[4] + lines[5], HasSubstr("50%   90%    500"));
}

TEST(FrameTest, HasNoRatesOfAWorkerThatIsNewAndOnlyNewOnesOfOneThatBeganAnew) {
  TopSample before;
  before.workers = {WorkerNamed("w1", {100, 1000, 100, 5000, 90, 9})};
  TopSample now;
  now.seconds = 1;
  now.workers = {WorkerNamed("w1", {2, 10, 0, 20, 2, 1}), WorkerNamed("w2", {50, 50, 50, 50, 50, 50})};
  const auto lines = DrawFrame("top", before, now, {});
  EXPECT_THAT(lines[4], HasSubstr(" 0%     20   2.0   500 ms"));
  EXPECT_THAT(lines[5], HasSubstr("  -      0     0        -"));
}

TEST(FrameTest, ShowsAReadyWorkerByItsRole) {
  TopSample now;
  now.workers = {WorkerNamed("w1"), WorkerNamed("w2"), WorkerNamed("w3")};
  now.workers[0].role = now.workers[1].role = "prefill";
  now.workers[1].state = "draining";
  now.workers[2].role = "both";
  const auto lines = DrawFrame("top", {}, now, {});
  EXPECT_THAT(lines[0], HasSubstr("2/3 workers ready"));
  EXPECT_THAT(lines[4], HasSubstr("w1                  prefill "));
  EXPECT_THAT(lines[5], HasSubstr("w2                  draining"));
  EXPECT_THAT(lines[6], HasSubstr("w3                  ready   "));
}

TEST(FrameTest, FitsEveryScreenOfEightyColumns) {
  TopSample now;
  now.seconds = 1;
  for (int i = 0; i < 50; ++i) {
    WorkerTotals totals{1'000'000'000, 4'000'000'000, 1, 9'000'000'000, 1, 1e6};
    now.workers.push_back(WorkerNamed("a-worker-with-a-very-long-name-" + std::to_string(i), totals));
    now.workers.back().running_requests = 512;
  }
  now.prefixes.assign(5, {.hits = 7, .tokens = 64, .workers = 2, .text = std::string(300, 'x') + "\x1b[2J\n"});
  const std::string title = "roostctl top http://a.very.long.host.name.example.org:8001   q quits";
  for (const std::size_t rows : {1U, 5U, 10U, 24U, 70U}) {
    const auto lines = DrawFrame(title, {}, now, {.columns = 80, .rows = rows});
    EXPECT_LE(lines.size(), std::max<std::size_t>(rows, 4)) << rows;
    for (const std::string& line : lines) {
      EXPECT_LE(Columns(line), 80U) << line;
      EXPECT_EQ(line.find('\x1b'), std::string::npos);
    }
  }
  const auto lines = DrawFrame(title, {}, now, {.columns = 80, .rows = 24});
  EXPECT_EQ(lines.back(), "… and 32 more");
  EXPECT_EQ(DrawFrame(title, {}, now, {.columns = 80, .rows = 0}).size(), 5U + 50 + 7);
  EXPECT_THAT(DrawFrame(title, {}, now, {.columns = 120, .rows = 24})[4],
              HasSubstr("a-worker-with-a-very-long-name-0 "));
}

TEST(FrameTest, BeginsWithTheVerdictAndSaysWhoWasLost) {
  TopSample now;
  now.seconds = 1;
  now.verdict = "demo: no worker takes requests since 09:24 UTC; worker-a, worker-b lost 6 s ago (silent)";
  now.lost = {{.name = "worker-a", .reason = "silent", .seconds_ago = 6, .moved_requests = 3, .failed_requests = 1}};
  const auto lines = DrawFrame("top", {}, now, {.columns = kUncut, .rows = 0});
  EXPECT_EQ(lines[1], now.verdict);
  EXPECT_EQ(lines[3], "lost  worker-a 6 s ago (silent): 3 continue elsewhere, 1 failed of its requests");
  const auto narrow = DrawFrame("top", {}, now, {.columns = 80, .rows = 0});
  EXPECT_EQ(narrow[1] + " " + narrow[2], now.verdict) << "it wraps between words";
}

TEST(FrameTest, WrapsWhatDoesNotFitAndCutsNothingWithoutATerminal) {
  TopSample before;
  before.seconds = 1;
  before.workers = {WorkerNamed("a-worker-with-a-very-long-name-indeed", {})};
  TopSample now;
  now.seconds = 2;
  WorkerTotals totals{1'000'000, 4'000'000'000, 1'000'000, 9'000'000'000, 10, 1e6};
  now.workers = {WorkerNamed("a-worker-with-a-very-long-name-indeed", totals)};
  now.ttft_buckets = {{0.1, 50}, {100, 100}};
  const auto narrow = DrawFrame("top", before, now, {.columns = 80, .rows = 24});
  EXPECT_THAT(narrow[1], HasSubstr("requests "));
  EXPECT_THAT(narrow[2], HasSubstr("TTFT p50 "));
  EXPECT_THAT(narrow[2], HasSubstr(" p99 ")) << "it is not cut off";
  const auto whole = DrawFrame("top", before, now, {.columns = kUncut, .rows = 0});
  EXPECT_THAT(whole[1], HasSubstr("TTFT p50 "));
  EXPECT_THAT(whole[4], testing::StartsWith("a-worker-with-a-very-long-name-indeed "));
}

TEST(FrameTest, ShowsPercentilesAndPrefixesWhereTheyAreKnown) {
  TopSample now;
  now.seconds = 1;
  now.ttft_buckets = {{0.1, 50}, {0.2, 100}, {20, 100}};
  now.prefixes = {{.hits = 12, .tokens = 640, .workers = 2, .text = "You are"}};
  const auto lines = DrawFrame("top", {}, now, {});
  EXPECT_THAT(lines[1], HasSubstr("TTFT p50 100 ms p99 198 ms"));
  EXPECT_EQ(lines[4], "(no workers)");
  EXPECT_EQ(lines.back(), "      12      640        2  You are");
}

TEST(TopSampleTest, ReadsWhatARouterAnswers) {
  const auto workers = ReadTopWorkers(
      R"({"workers":[{"id":"w1","state":"cordoned","role":"decode","running_requests":2,"blocks":64,"free_blocks":4,"cached_blocks":20,)"
      R"("requests_total":9,"prompt_tokens_total":70,"ttft_seconds_total":1.5}]})");
  ASSERT_TRUE(workers.ok());
  EXPECT_EQ(workers->at(0).state, "cordoned");
  EXPECT_EQ(workers->at(0).role, "decode");
  EXPECT_EQ(workers->at(0).totals.prompt_tokens, 70U);
  EXPECT_EQ(workers->at(0).totals.ttft_seconds, 1.5);
  TopSample sample;
  ASSERT_TRUE(
      ReadQueues(R"({"queues":[{"waiting_requests":3,"oldest_wait_seconds":0.5},{"waiting_requests":1}]})", sample)
          .ok());
  EXPECT_EQ(sample.queued_requests, 4U);
  EXPECT_EQ(sample.oldest_wait_seconds, 0.5);
  const auto prefixes =
      ReadTopPrefixes(R"({"prefixes":[{"hash":"0123456789abcdef0123456789abcdef","hits":5,"tokens":32,)"
                      R"("workers":[{},{}]},{"begins":"You are","hits":2}]})");
  ASSERT_TRUE(prefixes.ok());
  EXPECT_EQ(prefixes->at(0).text, "0123456789abcdef");
  EXPECT_EQ(prefixes->at(0).workers, 2U);
  EXPECT_EQ(prefixes->at(1).text, "You are");
  ASSERT_TRUE(
      ReadStanding(R"({"verdict":{"text":"all is well"},"lost":[{"id":"w2","reason":"silent","back":true}]})", sample)
          .ok());
  EXPECT_EQ(sample.verdict, "all is well");
  EXPECT_TRUE(sample.lost.at(0).is_back);
  EXPECT_FALSE(ReadTopWorkers("<html>").ok());
  EXPECT_FALSE(ReadTopWorkers("{}").ok());
}

TEST(RunTopTest, SaysWhyItHasNothingToShow) {
  std::ostringstream out;
  std::ostringstream err;
  TopOptions options;
  options.admin = "http://127.0.0.1:1";
  options.once = true;
  EXPECT_EQ(RunTop(options, out, err), 1);
  EXPECT_THAT(err.str(), HasSubstr("roostctl top: no answer from http://127.0.0.1:1/admin/v1/workers"));
}

}  // namespace
}  // namespace roost::roostctl
