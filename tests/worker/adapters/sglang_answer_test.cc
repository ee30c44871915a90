// Answers of SGLang's /generate in the form that its documentation and source (0.5.23) give; none is recorded.
#include "worker/adapters/sglang/sglang_answer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace roost::worker::adapters::sglang {
namespace {

std::string Event(const std::string& ids, int completion_tokens, const std::string& finish = "null",
                  const std::string& more = "") {
  return fmt::format(
      R"({{"text":"","output_ids":[{}],"meta_info":{{"id":"roost-1","finish_reason":{},"prompt_tokens":3,)"
      R"("completion_tokens":{},"cached_tokens":2{}}}}})",
      ids, finish, completion_tokens, more);
}

class SglangAnswerTest : public ::testing::Test {
 protected:
  AnswerPiece Read(const std::string& data) {
    Result<AnswerPiece> piece = answer_.ReadEvent(parser_, data);
    EXPECT_TRUE(piece.ok()) << piece.error().message;
    return *std::move(piece);
  }
  std::vector<TokenId> Tokens(const std::string& data) { return Read(data).choices.at(0).tokens; }

  simdjson::dom::parser parser_;
  SglangAnswer answer_{{.output_logprobs = {}, .prompt_logprobs = {}}};
};

using TokenList = std::vector<TokenId>;

TEST_F(SglangAnswerTest, ListsOfAllTokensGiveTheNewOnes) {
  EXPECT_EQ(Tokens(Event("7", 1)), (TokenList{7}));
  EXPECT_EQ(Tokens(Event("7,8,9", 3)), (TokenList{8, 9}));
  EXPECT_EQ(Tokens(Event("7,8,9", 3)), (TokenList{}));
}

TEST_F(SglangAnswerTest, ListsOfNewTokensGiveThem) {
  EXPECT_EQ(Tokens(Event("7", 1)), (TokenList{7}));
  EXPECT_EQ(Tokens(Event("8,9", 3)), (TokenList{8, 9}));
}

TEST_F(SglangAnswerTest, TheStopTokenIsNotAmongTheTokens) {
  const AnswerPiece piece = Read(Event("7,2", 2, R"({"type":"stop","matched":2})"));
  EXPECT_EQ(piece.choices.at(0).tokens, (TokenList{7}));
  EXPECT_EQ(piece.choices.at(0).end->stop_token, 2U);
  EXPECT_EQ(piece.cached_tokens, 2U);
  EXPECT_TRUE(Read("[DONE]").is_last);
}

TEST_F(SglangAnswerTest, TheLimitEndsIt) {
  const AnswerPiece piece = Read(Event("7", 1, R"({"type":"length","length":1})"));
  EXPECT_EQ(piece.choices.at(0).end->reason, wire::FinishReason::kLength);
}

TEST_F(SglangAnswerTest, AnAbortIsAComplaintWithItsStatus) {
  const AnswerPiece piece =
      Read(Event("", 0, R"({"type":"abort","message":"queue is full","status_code":503,"err_type":null})"));
  EXPECT_EQ(piece.complaint->code, 503);
  EXPECT_EQ(piece.complaint->message, "queue is full");
}

TEST_F(SglangAnswerTest, AnErrorInTheStreamIsAComplaint) {
  EXPECT_EQ(Read(R"({"error":{"message":"bad regex","code":400}})").complaint->code, 400);
}

TEST_F(SglangAnswerTest, LogprobsOfNewTokensAreRanked) {
  SglangAnswer answer({.output_logprobs = 1, .prompt_logprobs = {}});
  const std::string more = R"(,"output_token_logprobs":[[-1.0,7,null],[-0.5,8,null]],)"
                           R"("output_top_logprobs":[[[-0.25,9,null]],[[-0.5,8,null]]])";
  const auto piece = answer.ReadEvent(parser_, Event("7,8", 2, "null", more));
  ASSERT_TRUE(piece.ok());
  const std::vector<wire::TokenLogprobs>& logprobs = piece->choices.at(0).logprobs;
  ASSERT_EQ(logprobs.size(), 2U);
  EXPECT_EQ(logprobs[0].rank, 2U);
  EXPECT_EQ(logprobs[0].top, (std::vector<wire::TokenLogprob>{{9, -0.25F}}));
  EXPECT_EQ(logprobs[1].rank, 1U);
}

TEST_F(SglangAnswerTest, ThePromptsLogprobsBeginAtItsSecondToken) {
  SglangAnswer answer({.output_logprobs = {}, .prompt_logprobs = 1});
  const std::string more =
      R"(,"input_token_logprobs":[[null,4,null],[-2.0,5,null]],"input_top_logprobs":[null,[[-0.5,6,null]]])";
  const auto piece = answer.ReadWhole(parser_, Event("7", 1, R"({"type":"length"})", more));
  ASSERT_TRUE(piece.ok()) << piece.error().message;
  ASSERT_EQ(piece->choices.at(0).prompt_logprobs.size(), 1U);
  EXPECT_FLOAT_EQ(piece->choices.at(0).prompt_logprobs[0].logprob, -2.0F);
  EXPECT_TRUE(piece->is_last);
}

TEST_F(SglangAnswerTest, HostileAnswersAreErrors) {
  for (const std::string& data : {std::string("{}"), std::string("7"), Event("7", 3), Event("-1", 1),
                                  std::string(R"({"output_ids":[1]})"), std::string(R"({"meta_info":{}})")}) {
    EXPECT_FALSE(SglangAnswer({}).ReadEvent(parser_, data).ok()) << data;
  }
}

}  // namespace
}  // namespace roost::worker::adapters::sglang
