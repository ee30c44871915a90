#include "deploy/roostctl/simulate/trace_text.h"

#include <gtest/gtest.h>

#include <set>

#include "deploy/roostctl/workload/generators.h"

namespace roost::simulate {
namespace {

using workload::Trace;

// Request 1 continues the prompt and the answer of request 0; request 2 shares one block with both.
Trace Conversation() {
  return {.block_tokens = 512,
          .requests = {{.input_token_count = 900, .output_token_count = 200, .blocks = {7, 8}},
                       {.arrival_seconds = 1, .input_token_count = 1500, .output_token_count = 10, .blocks = {7, 8}},
                       {.arrival_seconds = 2, .input_token_count = 600, .output_token_count = 10, .blocks = {7}}}};
}

std::size_t CommonTokens(const std::vector<TokenId>& a, const std::vector<TokenId>& b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

TEST(TraceTextTest, CacheBlocksAreTheLargestThatDivideTheTraces) {
  for (const auto& [trace_block, cache_block] :
       {std::pair{512U, 256U}, std::pair{64U, 64U}, std::pair{80U, 16U}, std::pair{16U, 16U}, std::pair{1024U, 256U}}) {
    const Trace trace{.block_tokens = trace_block, .requests = {}};
    EXPECT_EQ(TraceText(trace).block_tokens(), cache_block);
  }
}

TEST(TraceTextTest, TokensAreSharedAsTheTraceSaysAndNoMore) {
  const Trace trace = Conversation();
  const TraceText text(trace);
  std::vector<TokenId> first = text.Prompt(0);
  EXPECT_EQ(first.size(), 900U);
  const std::vector<TokenId> answer = text.Answer(0);
  EXPECT_EQ(answer.size(), 200U);
  first.insert(first.end(), answer.begin(), answer.end());
  EXPECT_EQ(CommonTokens(first, text.Prompt(1)), 1024U);
  EXPECT_EQ(CommonTokens(first, text.Prompt(2)), 512U);
  EXPECT_EQ(CommonTokens(text.Prompt(1), text.Prompt(2)), 512U);
}

TEST(TraceTextTest, HashesAreThoseOfTheTokens) {
  const Trace trace = Conversation();
  const TraceText text(trace);
  for (std::uint32_t number = 0; number < 3; ++number) {
    EXPECT_EQ(text.PromptHashes(number), HashBlocks(TraceText::root(), text.Prompt(number), text.block_tokens()));
  }
  const Trace chats = workload::MultiTurnChat({});
  const TraceText chat_text(chats);
  for (std::uint32_t number = 0; number < 200; ++number) {
    EXPECT_EQ(chat_text.PromptHashes(number),
              HashBlocks(TraceText::root(), chat_text.Prompt(number), chat_text.block_tokens()));
  }
}

TEST(TraceTextTest, APromptHasAToken) {
  const Trace trace{.block_tokens = 16, .requests = {{.output_token_count = 0, .blocks = {}}}};
  const TraceText text(trace);
  EXPECT_EQ(text.Prompt(0).size(), 1U);
  EXPECT_TRUE(text.Answer(0).empty());
}

}  // namespace
}  // namespace roost::simulate
