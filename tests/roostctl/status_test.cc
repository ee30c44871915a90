#include "deploy/roostctl/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace roost::roostctl {
namespace {

using testing::HasSubstr;

TEST(FormatStatusTest, PrintsOneRowPerWorker) {
  const auto table = FormatStatus(
      R"({"workers":[{"id":"w1","model":"demo","state":"ready","index_in_sync":true,"mode":"exact","running_requests":3,)"
      R"("waiting_requests":1,"in_flight_requests":4,"cached_blocks":20,"blocks":64,"requests_total":9}]})");
  ASSERT_TRUE(table.ok());
  EXPECT_THAT(*table, HasSubstr("w1"));
  EXPECT_THAT(*table, HasSubstr("ready"));
  EXPECT_THAT(*table, HasSubstr("exact"));
  EXPECT_THAT(*table, HasSubstr("20/64"));
}

TEST(FormatStatusTest, SaysWhatTheViewOfTheCacheRestsOn) {
  const auto view = [](const char* fields) {
    return FormatStatus(std::string(R"({"workers":[{"id":"w1",)") + fields + "}]}").value();
  };
  EXPECT_THAT(view(R"("mode":"exact","index_in_sync":false)"), HasSubstr("syncing"));
  EXPECT_THAT(view(R"("mode":"predicted","index_in_sync":false)"), HasSubstr("predicted"));
  EXPECT_THAT(view(R"("mode":"blind","index_in_sync":false)"), HasSubstr("blind"));
}

TEST(FormatStatusTest, SaysWhyAWorkerGetsNoRequests) {
  const auto table = FormatStatus(R"({"workers":[{"id":"w1","ready":true,"state":"cordoned"}]})").value();
  EXPECT_THAT(table, HasSubstr("cordoned"));
  EXPECT_THAT(table, testing::Not(HasSubstr("ready")));
}

TEST(FormatStatusTest, SaysWhyAWorkerTakesFewRequests) {
  const auto table =
      FormatStatus(
          R"({"workers":[{"id":"w1","model":"demo","share":{"taken":48,"of":50,"why":null}},)"
          R"({"id":"w2","model":"demo","share":{"taken":2,"of":50,"why":"it holds nothing that is asked for"}},)"
          R"({"id":"w3","model":"demo"}]})")
          .value();
  EXPECT_THAT(table,
              testing::EndsWith("\nw2 takes 2 of the last 50 requests of demo: it holds nothing that is asked for\n"));
  EXPECT_THAT(table, testing::Not(HasSubstr("w1 takes")));
  EXPECT_THAT(table, testing::Not(HasSubstr("w3 takes")));
}

TEST(FormatStatusTest, SaysOnceWhyTheRouterIsNotToldWhatWorkersCache) {
  const auto table =
      FormatStatus(R"({"workers":[{"id":"v1/0","cache_absence":"no events"},{"id":"v2","cache_absence":""},)"
                   R"({"id":"v1/1","cache_absence":"no events"}]})")
          .value();
  EXPECT_THAT(table, testing::EndsWith("\nv1/0, v1/1: the cache is not known: no events\n"));
}

TEST(FormatStatusTest, SaysWhichBlocksAreOnTheirWay) {
  const auto table = FormatStatus(R"({"workers":[{"id":"w1","arriving_bytes":4194304,"leaving_bytes":0},)"
                                  R"({"id":"w2","arriving_bytes":0,"leaving_bytes":0},{"id":"w3"}]})")
                         .value();
  EXPECT_THAT(table, testing::EndsWith("\nw1 exchanges blocks with other workers: 4 MiB to come, 0 bytes to send\n"));
}

TEST(FormatStatusTest, SaysWhatIsOnDisksAndWhatCachesSaveInTime) {
  const auto table =
      FormatStatus(
          R"({"workers":[{"id":"w1","disk_blocks":70,"disk_bytes_per_second":2.0e9,"prompt_tokens_total":1000,)"
          R"("cached_tokens_total":500,"saved_prefill_seconds_total":30.0,"computed_prefill_seconds_total":10.0},)"
          R"({"id":"w2","disk_blocks":7,"disk_bytes_per_second":0},{"id":"w3","disk_blocks":0}]})")
          .value();
  EXPECT_THAT(table, testing::EndsWith("\nw1 has 70 blocks on its disk, 2.0 GB/s\n"
                                       "w2 has 7 blocks on its disk, which is off\n"
                                       "hit rate: 75 % of the prompts' prefill time, 50 % of their tokens\n"));
}

TEST(FormatStatusTest, ShowsRevisionsOnlyWhileAModelHasSeveral) {
  const std::string one = R"({"id":"w1","model":"demo","fingerprint":"0123456789abcdef"})";
  const std::string same = R"({"id":"w2","model":"demo","fingerprint":"0123456789abcdef"})";
  const std::string newer = R"({"id":"w3","model":"demo","fingerprint":"fedcba9876543210"})";
  const std::string other = R"({"id":"w4","model":"other","fingerprint":"fedcba9876543210"})";
  const auto table = [](const std::string& workers) {
    return FormatStatus(R"({"workers":[)" + workers + "]}").value();
  };
  EXPECT_THAT(table(one + "," + same + "," + other), testing::Not(HasSubstr("revision")));
  const std::string upgrade = table(one + "," + newer);
  EXPECT_THAT(upgrade, HasSubstr("requests  revision\n"));
  EXPECT_THAT(upgrade, HasSubstr("  0123456789ab\n"));
  EXPECT_THAT(upgrade, HasSubstr("  fedcba987654\n"));
}

TEST(FormatStatusTest, BeginsWithTheVerdictAndEndsWithWhoWasLost) {
  const auto table = FormatStatus(
      R"({"verdict":{"level":"down","text":"demo: no worker takes requests since 09:24 UTC"},"workers":[],"lost":[)"
      R"({"id":"worker-a","model":"demo","reason":"silent","seconds_ago":6.2,"back":false,"moved_requests":3,)"
      R"("waiting_requests":0,"failed_requests":1},)"
      R"({"id":"worker-b","model":"demo","reason":"stalled","seconds_ago":300,"back":true}]})");
  ASSERT_TRUE(table.ok());
  EXPECT_THAT(*table, testing::StartsWith("demo: no worker takes requests since 09:24 UTC\n\nworker "));
  EXPECT_THAT(*table, testing::ContainsRegex("worker-a +demo +6 s ago +silent +3 continue elsewhere, 1 failed\n"));
  EXPECT_THAT(*table, testing::ContainsRegex("worker-b +demo +5 min ago, it is back +stalled +none\n"));
}

TEST(FormatStatusTest, SaysWhenThereIsNone) {
  EXPECT_THAT(FormatStatus(R"({"workers":[]})").value(), HasSubstr("(no workers)"));
}

TEST(FormatStatusTest, AnotherAnswerIsAnError) {
  EXPECT_FALSE(FormatStatus("<html>").ok());
  EXPECT_FALSE(FormatStatus(R"({"error":{}})").ok());
}

}  // namespace
}  // namespace roost::roostctl
