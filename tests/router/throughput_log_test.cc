#include "router/throughput_log.h"

#include <gtest/gtest.h>

namespace roost::router {
namespace {

TEST(ThroughputLogTest, CountsWhatEndedAndWhatRuns) {
  NullApiObserver next;
  const ManualClock clock;
  ThroughputLog log(next, clock);
  for (int i = 0; i < 3; ++i) log.OnGenerationStart("m");
  GenerationSummary stopped;
  stopped.prompt_tokens = 100;
  stopped.completion_tokens = 7;
  stopped.cached_tokens = 60;
  log.OnGenerationEnd(stopped);
  GenerationSummary failed;
  failed.outcome = GenerationSummary::Outcome::kError;
  failed.prompt_tokens = 50;
  log.OnGenerationEnd(failed);
  const Throughput first = log.Take();
  EXPECT_EQ(first.ended, 2U);
  EXPECT_EQ(first.failed, 1U);
  EXPECT_EQ(first.prompt_tokens, 100U);
  EXPECT_EQ(first.cached_tokens, 60U);
  EXPECT_EQ(first.output_tokens, 7U);
  EXPECT_EQ(first.active, 1U);
  const Throughput next_interval = log.Take();
  EXPECT_EQ(next_interval.ended, 0U);
  EXPECT_EQ(next_interval.active, 1U);
}

TEST(ThroughputLogTest, CountsWhatEnginesGetUnread) {
  NullApiObserver next;
  const ManualClock clock;
  ThroughputLog log(next, clock);
  for (int i = 0; i < 3; ++i) log.OnForwardStart();
  log.OnForwardEnd({.prompt_tokens = 100, .cached_tokens = 60, .output_tokens = 7});
  log.OnForwardEnd({.is_failed = true});
  EXPECT_EQ(log.Take(),
            (Throughput{
                .ended = 2, .failed = 1, .active = 1, .prompt_tokens = 100, .cached_tokens = 60, .output_tokens = 7}));
}

}  // namespace
}  // namespace roost::router
