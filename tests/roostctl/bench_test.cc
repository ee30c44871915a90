#include "deploy/roostctl/bench.h"
#include "tests/support/source_dir.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <string>
#include <vector>

namespace roost::roostctl {
namespace {

TEST(PercentileTest, IsTheNearestRank) {
  std::vector<double> values(100);
  std::iota(values.rbegin(), values.rend(), 1.0);
  EXPECT_EQ(Percentile(values, 0.5), 50);
  EXPECT_EQ(Percentile(values, 0.99), 99);
  EXPECT_EQ(Percentile(values, 1), 100);
  EXPECT_EQ(Percentile({7}, 0.01), 7);
  EXPECT_EQ(Percentile({}, 0.5), 0);
}

TEST(SummariseTest, CountsWholeAnswersAndKeepsTheFirstError) {
  BenchSample good{.error = "",
                   .worker = "a",
                   .ttft_seconds = 0.2,
                   .total_seconds = 1,
                   .prompt_tokens = 100,
                   .cached_tokens = 75,
                   .output_tokens = 10};
  BenchSample other = good;
  other.worker = "b";
  other.cached_tokens = 25;
  BenchSample bad;
  bad.error = "status 503";
  const BenchSummary summary = Summarise({good, bad, other, good}, 2);
  EXPECT_EQ(summary.request_count, 4U);
  EXPECT_EQ(summary.failed_count, 1U);
  EXPECT_EQ(summary.first_error, "status 503");
  EXPECT_DOUBLE_EQ(summary.cached_ratio, 175.0 / 300);
  EXPECT_DOUBLE_EQ(summary.output_tokens_per_second, 15);
  EXPECT_DOUBLE_EQ(summary.share_by_worker.at("a"), 2.0 / 3);
}

TEST(SummariseTest, HashesAnswersInAnyOrder) {
  BenchSample first;
  first.answer_hash = 1;
  BenchSample second;
  second.answer_hash = 2;
  BenchSample other;
  other.answer_hash = 3;
  EXPECT_EQ(Summarise({first, second}, 1).answers_hash, Summarise({second, first}, 1).answers_hash);
  EXPECT_NE(Summarise({first, second}, 1).answers_hash, Summarise({first, other}, 1).answers_hash);
}

TEST(MakeDocumentsTest, GivesEachABeginningOfItsOwnAndTwoTexts) {
  const std::vector<std::string> documents = MakeDocuments({"red", "green", "blue"}, 7);
  ASSERT_EQ(documents.size(), 7U);
  EXPECT_EQ(documents[0], "Document 1.\n\nred\n\ngreen");
  EXPECT_EQ(documents[3], "Document 4.\n\nred\n\nblue");
  EXPECT_EQ(documents[6], "Document 7.\n\nred\n\ngreen");
  EXPECT_EQ(MakeDocuments({"red"}, 1).front(), "Document 1.\n\nred\n\nred");
  const std::set<std::string> titles = [&documents] {
    std::set<std::string> seen;
    for (const std::string& document : documents) seen.insert(document.substr(0, document.find('\n')));
    return seen;
  }();
  EXPECT_EQ(titles.size(), documents.size());
}

TEST(CompareTest, GainIsAboveOneWhereTheCacheHelps) {
  BenchSummary without;
  without.ttft_p50_seconds = 0.3;
  without.ttft_p99_seconds = 0.5;
  without.output_tokens_per_second = 100;
  BenchSummary with;
  with.ttft_p50_seconds = 0.1;
  with.ttft_p99_seconds = 1.0;
  with.output_tokens_per_second = 250;
  const CacheGain gain = Compare(without, with);
  EXPECT_DOUBLE_EQ(gain.ttft_p50, 3);
  EXPECT_DOUBLE_EQ(gain.ttft_p99, 0.5);
  EXPECT_DOUBLE_EQ(gain.output_tokens_per_second, 2.5);
  EXPECT_EQ(Compare({}, {}).ttft_p50, 0);
}

TEST(LoadBenchPromptsTest, ReadsTheRepositorysOwnAndNamesWhatIsMissing) {
  const auto prompts = LoadBenchPrompts(std::filesystem::path(testing_support::SourceDir()) / "deploy/demo-prompts");
  ASSERT_TRUE(prompts.ok());
  EXPECT_EQ(prompts->systems.size(), 4U);
  EXPECT_GT(prompts->questions.size(), 10U);
  const auto missing = LoadBenchPrompts("/nonexistent");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().field, "/nonexistent");
}

}  // namespace
}  // namespace roost::roostctl
