#include "deploy/roostctl/orders/order_commands.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace roost::roostctl {
namespace {

EvictOptions EvictionOf(const std::string& prompt) {
  EvictOptions options;
  options.model = "demo";
  options.prompt = prompt;
  return options;
}

TEST(EvictBodyTest, HoldsWhatTheFlagsSay) {
  EvictOptions options = EvictionOf("a text");
  EXPECT_EQ(EvictBody(options).value(), R"({"model":"demo","workers":"all","prompt":"a text"})");
  options.tenant = "a";
  options.cache_salt = "s";
  options.workers = "w1,w2";
  EXPECT_EQ(EvictBody(options).value(),
            R"({"model":"demo","tenant":"a","cache_salt":"s","workers":["w1","w2"],"prompt":"a text"})");
}

TEST(EvictBodyTest, ATenantNeedsNoModel) {
  EvictOptions options;
  options.tenant = "a";
  EXPECT_EQ(EvictBody(options).value(), R"({"tenant":"a","workers":"all"})");
  options.model = "demo";
  EXPECT_EQ(EvictBody(options).value(), R"({"model":"demo","tenant":"a","workers":"all"})");
}

TEST(EvictBodyTest, ABlockNeedsNoModelAndStandsAlone) {
  EvictOptions options;
  options.hash = "01";
  EXPECT_EQ(EvictBody(options).value(), R"({"hash":"01","workers":"all"})");
  options.model = "demo";
  EXPECT_EQ(EvictBody(options).value(), R"({"model":"demo","hash":"01","workers":"all"})");
  options.tenant = "a";
  EXPECT_EQ(EvictBody(options).error().field, "hash");
  options.tenant = "";
  options.prompt = "a";
  EXPECT_EQ(EvictBody(options).error().field, "hash");
}

TEST(EvictBodyTest, TakesThePromptFromAFile) {
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "evict_prefix.json";
  std::ofstream(file) << R"([{"role":"system","content":"x"}])";
  EvictOptions options = EvictionOf("");
  options.prefix_file = file;
  EXPECT_EQ(EvictBody(options).value(),
            R"({"model":"demo","workers":"all","messages":[{"role":"system","content":"x"}]})");
  std::ofstream(file) << "plain text";
  EXPECT_EQ(EvictBody(options).value(), R"({"model":"demo","workers":"all","prompt":"plain text"})");
  std::ofstream(file) << R"({"prompt":"p","cache_salt":"s","model":"other"})";
  EXPECT_EQ(EvictBody(options).value(), R"({"model":"demo","workers":"all","prompt":"p","cache_salt":"s"})");
  options.cache_salt = "t";
  EXPECT_EQ(EvictBody(options).error().field, "cache-salt");
  std::filesystem::remove(file);
  EXPECT_FALSE(EvictBody(options).ok());
}

TEST(EvictBodyTest, WrongFlagsAreNamed) {
  EXPECT_EQ(EvictBody(EvictOptions()).error().field, "prompt");
  EvictOptions options = EvictionOf("a");
  options.prefix_file = "b";
  EXPECT_EQ(EvictBody(options).error().field, "prefix");
  options = EvictionOf("a");
  options.model = "";
  EXPECT_EQ(EvictBody(options).error().field, "model");
  options = EvictOptions();
  options.tenant = "a";
  options.cache_salt = "s";
  EXPECT_EQ(EvictBody(options).error().field, "cache-salt");
}

TEST(FormatEvictAnswerTest, TellsWhatLeftEachCache) {
  const std::string answer = R"({"model":"demo","blocks":9,"tokens":150,"evicted_blocks":7,"busy_blocks":2,"workers":[)"
                             R"({"worker":"a","answered":true,"evicted_blocks":7,"busy_blocks":0},)"
                             R"({"worker":"b","answered":true,"evicted_blocks":0,"busy_blocks":2}]})";
  const EvictReport report = FormatEvictAnswer(answer).value();
  EXPECT_EQ(report.text,
            "evicted 9 blocks\n"
            "  a                        7 blocks\n"
            "  b                        0 blocks, and 2 that are free when running requests end\n");
  EXPECT_TRUE(report.is_complete);
}

TEST(FormatEvictAnswerTest, TellsWhatLeftTheDisks) {
  const EvictReport report =
      FormatEvictAnswer(R"({"hash":"00","evicted_blocks":0,"busy_blocks":0,"disk_blocks":5,"workers":[)"
                        R"({"worker":"a","answered":true,"evicted_blocks":0,"busy_blocks":0,"disk_blocks":5}]})")
          .value();
  EXPECT_EQ(report.text, "evicted 0 blocks\n  a                        0 blocks; 5 on its disk\n");
  EXPECT_EQ(report.disk_block_count, 5U);
}

TEST(FormatEvictAnswerTest, IsNotCompleteWhereAWorkerHasNotDoneIt) {
  const EvictReport report = FormatEvictAnswer(R"({"tenant":"a","evicted_blocks":0,"busy_blocks":0,"workers":[)"
                                               R"({"worker":"a","answered":false,"reason":"not supported"}]})")
                                 .value();
  EXPECT_EQ(report.text, "evicted 0 blocks\n  a                        not supported\n");
  EXPECT_FALSE(report.is_complete);
  EXPECT_FALSE(FormatEvictAnswer(R"({"error":{}})").ok());
}

TEST(RunEvictTest, SaysWhyItFails) {
  std::ostringstream out;
  std::ostringstream err;
  EXPECT_EQ(RunEvict(EvictOptions(), out, err), 1);
  EXPECT_NE(err.str().find("roostctl evict: "), std::string::npos);
  EXPECT_EQ(out.str(), "");
}

}  // namespace
}  // namespace roost::roostctl
