#include "deploy/roostctl/orders/order_commands.h"

#include <gtest/gtest.h>

#include <sstream>

namespace roost::roostctl {
namespace {

TEST(ParseDurationTest, TakesWholeNumbersWithAUnit) {
  EXPECT_EQ(ParseDuration("250ms").value(), 250U);
  EXPECT_EQ(ParseDuration("30s").value(), 30'000U);
  EXPECT_EQ(ParseDuration("10m").value(), 600'000U);
  EXPECT_EQ(ParseDuration("2h").value(), 7'200'000U);
  EXPECT_EQ(ParseDuration("366d").value(), 31'622'400'000U);
}

TEST(ParseDurationTest, RefusesAnythingElse) {
  for (const char* text : {"", "10", "m", "0s", "-5m", "1.5h", "10 m", "10min", "367d", "99999999999999999999s"}) {
    const auto duration = ParseDuration(text);
    ASSERT_FALSE(duration.ok()) << text;
    EXPECT_EQ(duration.error().field, "duration");
  }
}

PinOptions OptionsFor(const std::string& prompt, const std::string& messages_file) {
  PinOptions options;
  options.model = "demo";
  options.prompt = prompt;
  options.messages_file = messages_file;
  return options;
}

TEST(PinBodyTest, HoldsWhatTheFlagsSay) {
  PinOptions options = OptionsFor("a \"text\"", "");
  EXPECT_EQ(PinBody(options, "").value(), R"({"model":"demo","workers":"all","prompt":"a \"text\""})");
  options.workers = "best";
  options.cache_salt = "s";
  options.duration = "10m";
  EXPECT_EQ(PinBody(options, "").value(),
            R"({"model":"demo","cache_salt":"s","workers":"best","duration_ms":600000,"prompt":"a \"text\""})");
  options.workers = "worker-a,b";
  options.cache_salt = "";
  options.duration = "";
  EXPECT_EQ(PinBody(options, "").value(), R"({"model":"demo","workers":["worker-a","b"],"prompt":"a \"text\""})");
}

TEST(PinBodyTest, TakesMessagesAloneOrWithTools) {
  const PinOptions options = OptionsFor("", "chat.json");
  const std::string message = R"({"role":"system","content":"x"})";
  EXPECT_EQ(PinBody(options, "[ " + message + " ]\n").value(),
            R"({"model":"demo","workers":"all","messages":[)" + message + "]}");
  EXPECT_EQ(PinBody(options, R"({"messages": [)" + message + R"(], "tools": [{}], "temperature": 1})").value(),
            R"({"model":"demo","workers":"all","messages":[)" + message + R"(],"tools":[{}]})");
  EXPECT_EQ(PinBody(options, "no JSON").error().field, "messages");
  EXPECT_EQ(PinBody(options, "{}").error().field, "messages");
}

TEST(PinBodyTest, WantsOnePromptAndAGoodDuration) {
  EXPECT_EQ(PinBody(OptionsFor("", ""), "").error().field, "prompt");
  EXPECT_EQ(PinBody(OptionsFor("a", "chat.json"), "[]").error().field, "prompt");
  PinOptions options = OptionsFor("a", "");
  options.duration = "soon";
  EXPECT_EQ(PinBody(options, "").error().field, "duration");
}

TEST(PinBodyTest, ABlockStandsInPlaceOfAPrompt) {
  PinOptions options = OptionsFor("", "");
  options.hash = "0123456789abcdef0123456789abcdef";
  EXPECT_EQ(PinBody(options, "").value(),
            R"({"model":"demo","workers":"all","hash":"0123456789abcdef0123456789abcdef"})");
  options.prompt = "a";
  EXPECT_EQ(PinBody(options, "").error().field, "hash");
}

TEST(FormatPinAnswerTest, OfABlockTellsWhereItIsKept) {
  const std::string answer = R"({"model":"demo","hash":"01","workers":[)"
                             R"({"worker":"a","answered":true,"kept_blocks":1,"pending_blocks":0,"refused_blocks":0},)"
                             R"({"worker":"b","answered":true,"kept_blocks":0,"pending_blocks":1,"refused_blocks":0},)"
                             R"({"worker":"c","answered":true,"kept_blocks":0,"pending_blocks":0,"refused_blocks":1},)"
                             R"({"worker":"d","answered":false}]})";
  EXPECT_EQ(FormatPinAnswer(PinVerb::kPin, answer).value(),
            "pin of block 01\n"
            "  a                        kept, with all blocks before it\n"
            "  b                        not there; kept once a request has computed it\n"
            "  c                        refused\n"
            "  d                        no answer\n");
  EXPECT_EQ(FormatPinAnswer(PinVerb::kUnpin, answer).value(),
            "unpin of block 01\n"
            "  a                        still pinned, because pinned blocks follow it\n"
            "  b                        not pinned\n"
            "  c                        not pinned\n"
            "  d                        no answer\n");
}

TEST(FormatPinAnswerTest, TellsWhatEachWorkerKept) {
  const std::string answer =
      R"({"model":"demo","blocks":9,"tokens":150,"workers":[{"worker":"a","answered":true,"kept_blocks":4,)"
      R"("pending_blocks":3,"refused_blocks":2},{"worker":"b","answered":false}]})";
  EXPECT_EQ(FormatPinAnswer(PinVerb::kPin, answer).value(),
            "pin of 9 blocks (150 tokens)\n"
            "  a                        kept 4, 3 more once they are computed, refused 2\n"
            "  b                        no answer\n");
  EXPECT_FALSE(FormatPinAnswer(PinVerb::kUnpin, R"({"error":{}})").ok());
}

TEST(FormatPinAnswerTest, AnUnpinTellsWhatIsPinnedAllTheSame) {
  const std::string answer =
      R"({"blocks":9,"tokens":150,"workers":[{"worker":"a","answered":true,"kept_blocks":4,"pending_blocks":0,)"
      R"("refused_blocks":5},{"worker":"b","answered":true,"kept_blocks":0,"pending_blocks":0,"refused_blocks":9}]})";
  EXPECT_EQ(FormatPinAnswer(PinVerb::kUnpin, answer).value(),
            "unpin of 9 blocks (150 tokens)\n"
            "  a                        4 still pinned, because pinned blocks follow them\n"
            "  b                        none of them is pinned\n");
}

TEST(RunPinTest, SaysWhyItFails) {
  std::ostringstream out;
  std::ostringstream err;
  EXPECT_EQ(RunPin(PinVerb::kUnpin, OptionsFor("", "/nonexistent.json"), out, err), 1);
  EXPECT_NE(err.str().find("roostctl unpin: "), std::string::npos);
  EXPECT_NE(err.str().find("/nonexistent.json"), std::string::npos);
  EXPECT_EQ(out.str(), "");
}

}  // namespace
}  // namespace roost::roostctl
