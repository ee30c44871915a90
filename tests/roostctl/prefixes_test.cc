#include "deploy/roostctl/prefixes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "deploy/roostctl/block_tree.h"

namespace roost::roostctl {
namespace {

using testing::HasSubstr;

// ---- the picture ----

TEST(BlockTreeTest, DrawsAStretchForEachDepth) {
  const std::vector<BlockHolder> holders = {{"a", 8, 0}, {"b", 4, 4}, {"c", 4, 0}, {"d", 0, 0}};
  EXPECT_EQ(DrawBlockTree({.token_count = 38, .block_tokens = 4}, holders, "  "),
            "  blocks 1-4: a, b, c\n"
            "  └─ blocks 5-8: a; being computed by b\n"
            "     └─ block 9 and 2 tokens: no worker\n");
}

TEST(BlockTreeTest, WhatNoWorkerHoldsIsSaid) {
  EXPECT_EQ(DrawBlockTree({.token_count = 9, .block_tokens = 4}, {{"a", 0, 0}}, ""),
            "blocks 1-2 and 1 token: no worker\n");
  EXPECT_EQ(DrawBlockTree({.token_count = 3, .block_tokens = 4}, {}, ""), "3 tokens: no worker\n");
}

TEST(BlockTreeTest, WhatIsHeldWholeLeavesNothing) {
  EXPECT_EQ(DrawBlockTree({.token_count = 8, .block_tokens = 4}, {{"a", 2, 0}}, ""), "blocks 1-2: a\n");
  EXPECT_EQ(DrawBlockTree({.token_count = 9, .block_tokens = 4}, {{"a", 2, 0}}, ""),
            "blocks 1-2: a\n└─ 1 token: no worker\n");
}

TEST(BlockTreeTest, KeepsToItsBounds) {
  std::vector<BlockHolder> holders;
  for (std::uint64_t i = 1; i <= 40; ++i) holders.push_back({std::string("w") + std::to_string(i), i, 0});
  const std::string text = DrawBlockTree({.token_count = 160, .block_tokens = 4}, holders, "");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), static_cast<std::ptrdiff_t>(kMaxStretches));
  EXPECT_THAT(text, testing::StartsWith("blocks 1-29: w29, w30, w31, w32 and 8 more\n"));
}

TEST(PrintableTest, EscapesWhatATerminalWouldObey) {
  EXPECT_EQ(Printable("plain é 日"), "plain é 日");
  EXPECT_EQ(Printable("a\nb\tc\x1b[2J\x7f"), "a\\nb\\tc\\u001b[2J\\u007f");
  EXPECT_EQ(Printable("\xe2\x80\xae\xc2\x9b"), "\\u202e\\u009b");
  EXPECT_EQ(Printable("\xff!"), "\\ufffd!");
}

// ---- match ----

PromptOptions PromptOptionsFor(const std::string& prompt) {
  PromptOptions options;
  options.model = "demo";
  options.prompt = prompt;
  return options;
}

TEST(MatchTest, AsksForThePrompt) {
  PromptOptions options = PromptOptionsFor("text");
  options.cache_salt = "s";
  EXPECT_EQ(MatchBody(options, "").value(), R"({"model":"demo","cache_salt":"s","prompt":"text"})");
  EXPECT_EQ(MatchBody(PromptOptionsFor(""), "").error().ToString(),
            "prompt: is missing or empty: give --prompt TEXT or --messages FILE");
  options.messages_file = "chat.json";
  EXPECT_EQ(MatchBody(options, "[]").error().ToString(), "prompt: can not be given together with --messages");
}

constexpr std::string_view kMatch =
    R"({"model":"demo","prompt_tokens":18,"block_tokens":4,"blocks":4,)"
    R"("hit":"prompt 18 tokens: 16 cached in 4 blocks, 2 to prefill",)"
    R"("choice":{"worker":"a","policy":"cache-aware","reason":"deepest_match","cached_tokens":16,"ttft_seconds":0.0125},)"
    R"("workers":[{"worker":"a","mode":"exact","held_blocks":4,"pending_blocks":0,"cached_tokens":16},)"
    R"({"worker":"b","mode":"blind","held_blocks":1,"pending_blocks":0,"disk_blocks":2,"cached_tokens":4}]})";

TEST(MatchTest, PrintsTheHitThePlaceAndThePicture) {
  EXPECT_EQ(FormatMatch(kMatch).value(),
            "prompt 18 tokens: 16 cached in 4 blocks, 2 to prefill\n"
            "would go to a now, by cache-aware: deepest_match; first token after 12.5 ms\n"
            "  block 1: a, b\n"
            "  └─ blocks 2-3: a, b on disk\n"
            "     └─ block 4: a\n"
            "        └─ 2 tokens: no worker\n"
            "worker                       held  pending  on disk  cached tokens  index\n"
            "a                               4        0        0             16  exact\n"
            "b                               1        0        2              4  blind\n");
  EXPECT_FALSE(FormatMatch(R"({"error":{}})").ok());
}

TEST(MatchTest, SaysWhatIsNotKnown) {
  std::string answer(kMatch);
  answer.replace(answer.find("0.0125"), 6, "null");
  EXPECT_THAT(FormatMatch(answer).value(), HasSubstr("first token after an unknown time"));
  EXPECT_THAT(FormatMatch(R"({"choice":null,"workers":[]})").value(), HasSubstr("no worker takes requests now"));
}

// ---- warm ----

TEST(WarmTest, AsksForThePromptOnTheWorkers) {
  WarmOptions options;
  options.model = "demo";
  options.prompt = "text";
  EXPECT_EQ(WarmBody(options, "").value(), R"({"model":"demo","workers":"all","prompt":"text"})");
  options.workers = "a";
  EXPECT_EQ(WarmBody(options, "").value(), R"({"model":"demo","workers":["a"],"prompt":"text"})");
  options.source = "b";
  EXPECT_EQ(WarmBody(options, "").value(), R"({"model":"demo","workers":["a"],"from":"b","prompt":"text"})");
}

TEST(WarmTest, PrintsWhatCameFromAnotherWorker) {
  EXPECT_EQ(
      FormatWarm(R"({"blocks":93,"tokens":1502,"workers":[)"
                 R"({"worker":"worker-b","answered":true,"outcome":"pulled","held_blocks":93,"computed_tokens":0,)"
                 R"("pull":{"from":"worker-a","outcome":"complete","blocks":93,"bytes":171000000,"seconds":0.095}},)"
                 R"({"worker":"worker-c","answered":true,"outcome":"computed","held_blocks":93,"computed_tokens":848,)"
                 R"("pull":{"from":"worker-a","outcome":"missing","blocks":40,"bytes":40000000,"seconds":0.1}},)"
                 R"({"worker":"worker-d","answered":true,"outcome":"computed","held_blocks":93,"computed_tokens":1488,)"
                 R"("pull":{"from":"worker-a","outcome":"broken","blocks":0,"bytes":0,"seconds":1}}]})")
          .value(),
      "93 blocks of a prompt of 1502 tokens\n"
      "  worker-b: holds 93 blocks, 93 pulled from worker-a in 95 ms (1.8 GB/s)\n"
      "  worker-c: holds 93 blocks, computed 848 tokens, 40 pulled from worker-a in 100 ms (400.0 MB/s), then: "
      "missing\n"
      "  worker-d: holds 93 blocks, computed 1488 tokens, none pulled from worker-a: broken\n");
}

TEST(WarmTest, PrintsWhatEachWorkerDid) {
  EXPECT_EQ(FormatWarm(R"({"blocks":3,"tokens":50,"workers":[)"
                       R"({"worker":"a","answered":true,"outcome":"computed","held_blocks":3,"computed_tokens":32},)"
                       R"({"worker":"b","answered":true,"outcome":"held","held_blocks":3,"computed_tokens":0},)"
                       R"({"worker":"c","answered":true,"outcome":"refused","held_blocks":1,"reason":"full\u001b"},)"
                       R"({"worker":"d","answered":false}]})")
                .value(),
            "3 blocks of a prompt of 50 tokens\n"
            "  a: holds 3 blocks, computed 32 tokens\n"
            "  b: held all 3 blocks already\n"
            "  c: refused, holds 1 blocks: full\\u001b\n"
            "  d: no answer\n");
  EXPECT_FALSE(FormatWarm("{}").ok());
}

// ---- prefixes ----

TEST(PrefixesTest, AsksForAModelByItsName) {
  EXPECT_EQ(PrefixesPath({.admin = {}, .model = "", .top = 20}), "/admin/v1/prefixes?top=20");
  EXPECT_EQ(PrefixesPath({.admin = {}, .model = "a b", .top = 3}), "/admin/v1/prefixes?top=3&model=a%20b");
}

TEST(PrefixesTest, PrintsHitsAndTextAndWhoIsSilent) {
  EXPECT_EQ(FormatPrefixes(R"({"prefixes":[{"hash":"0123456789abcdef0123456789abcdef","blocks":3,"tokens":48,"hits":9,)"
                           R"("begins":"You\nare","ends":"brief.","workers":[{"worker":"a","hits":5},)"
                           R"({"worker":"b","hits":4}]}],)"
                           R"("workers":[{"worker":"a","answered":true},{"worker":"c","answered":false}]})")
                .value(),
            "    hits   blocks    tokens  hash                              hits by worker\n"
            "       9        3        48  0123456789abcdef0123456789abcdef  a 5, b 4\n"
            "                             begins \"You\\nare\"\n"
            "                             ends   \"brief.\"\n"
            "no answer from c\n");
  EXPECT_THAT(FormatPrefixes(R"({"prefixes":[],"workers":[{"worker":"a","answered":true}]})").value(),
              HasSubstr("no prefix was found"));
  EXPECT_THAT(FormatPrefixes(R"({"prefixes":[],"workers":[]})").value(), HasSubstr("(no workers)"));
  EXPECT_THAT(
      FormatPrefixes(R"({"prefixes":[{"model":"m1","hash":"01","workers":[{"worker":"a","hits":5}]}]})").value(),
      HasSubstr("  m1: a 5\n"));
  EXPECT_FALSE(FormatPrefixes("[]").ok());
}

TEST(RunPrefixesTest, SaysWhyItFails) {
  std::ostringstream out;
  std::ostringstream err;
  EXPECT_EQ(RunPrefixes({.admin = "http://127.0.0.1:1", .model = "", .top = 1}, out, err), 1);
  EXPECT_THAT(err.str(), HasSubstr("roostctl prefixes: "));
  EXPECT_EQ(out.str(), "");
}

}  // namespace
}  // namespace roost::roostctl
