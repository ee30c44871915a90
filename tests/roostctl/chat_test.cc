#include "deploy/roostctl/chat.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <sstream>

namespace roost::roostctl {
namespace {

TEST(ChatBodyTest, HoldsTheHistoryAndAsksForAStreamWithCounts) {
  const ChatFields fields{.model = "m", .max_tokens = 8, .temperature = {}};
  EXPECT_EQ(ChatBody(fields, {{"system", "s"}, {"user", "u"}}),
            R"({"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":"u"}],)"
            R"("max_tokens":8,"stream":true,"stream_options":{"include_usage":true}})");
}

TEST(FiguresLineTest, TellsCachedTokensAndTheFirstToken) {
  ChatAnswer answer;
  answer.worker = "worker-a";
  answer.prompt_tokens = 812;
  answer.cached_tokens = 800;
  answer.ttft_seconds = 0.0123;
  answer.output_tokens = 24;
  answer.total_seconds = 0.31;
  EXPECT_EQ(FiguresLine(answer),
            "[worker-a: 812 prompt tokens, 800 cached; first token after 12.3 ms; 24 tokens in 0.31 s]");
}

TEST(ForTerminalTest, KeepsLinesAndEscapesWhatWouldChangeTheRest) {
  EXPECT_EQ(ForTerminal("a\tb\n\nc"), "a\tb\n\nc");
  EXPECT_EQ(ForTerminal("\x1b[2Jx"), "\\u001b[2Jx");
  EXPECT_EQ(ForTerminal(""), "");
}

TEST(RunChatTest, SaysInOneLineWhyItCanNotAsk) {
  std::istringstream in("Who comes here?\n");
  std::ostringstream out;
  std::ostringstream err;
  ChatOptions options;
  options.router = "http://127.0.0.1:1";
  EXPECT_EQ(RunChat(options, {.in = in, .out = out, .err = err}), 1);
  options.model = "m";
  in.clear();
  in.seekg(0);
  EXPECT_EQ(RunChat(options, {.in = in, .out = out, .err = err}), 1);
  const std::string told = err.str();
  EXPECT_EQ(told.find("roostctl chat: no answer from http://127.0.0.1:1/v1/models"), 0U) << told;
  EXPECT_NE(told.find("roostctl chat: no answer from http://127.0.0.1:1/v1/chat/completions"), std::string::npos);
  EXPECT_NE(told.find("[m at http://127.0.0.1:1]"), std::string::npos);
  EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 3);
}

TEST(InterruptKeyTest, IsPressedOncePerSignal) {
  const InterruptKey key;
  EXPECT_FALSE(key.Pressed());
  ASSERT_EQ(raise(SIGINT), 0);
  EXPECT_TRUE(key.Pressed());
  EXPECT_FALSE(key.Pressed());
}

}  // namespace
}  // namespace roost::roostctl
