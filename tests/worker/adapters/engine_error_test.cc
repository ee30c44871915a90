#include "worker/adapters/engine_error.h"

#include <gtest/gtest.h>

#include <string>

namespace roost::worker::adapters {
namespace {

ErrorCode CodeOfStatus(int status) { return ErrorOf(Complaint{status, "no", ""}, "").code; }

TEST(EngineErrorTest, TheCodeSaysWhetherAnotherWorkerMayDoIt) {
  EXPECT_EQ(CodeOfStatus(400), ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeOfStatus(422), ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeOfStatus(429), ErrorCode::kOverloaded);
  EXPECT_EQ(CodeOfStatus(503), ErrorCode::kOverloaded);
  for (const int status : {401, 403, 404, 500, 502, 599}) EXPECT_EQ(CodeOfStatus(status), ErrorCode::kUnavailable);
}

TEST(EngineErrorTest, EndsWithoutAnAnswerMoveARequestElsewhere) {
  for (const CallEnd end : {CallEnd::kComplete, CallEnd::kNotConnected, CallEnd::kBroken, CallEnd::kTooSlow}) {
    EXPECT_EQ(ErrorOf(HttpEnd{end, "why"}).code, ErrorCode::kUnavailable);
  }
}

TEST(EngineErrorTest, ARefusalNeedNotBeJson) {
  simdjson::dom::parser parser;
  EXPECT_EQ(ReadRefusal(parser, 502, "<html>").message, "<html>");
  EXPECT_EQ(ReadRefusal(parser, 502, "").code, 502);
  EXPECT_EQ(ReadRefusal(parser, 400, R"({"object":"error","message":"m","param":"p","code":429})").code, 429);
  EXPECT_EQ(ReadRefusal(parser, 400, R"({"error":"plain"})").message, "plain");
}

TEST(EngineErrorTest, ACodeThatIsNoStatusIsIgnored) {
  simdjson::dom::parser parser;
  EXPECT_EQ(ReadRefusal(parser, 400, R"({"error":{"message":"m","code":7}})").code, 400);
}

TEST(EngineErrorTest, LongMessagesAreCutBetweenCharacters) {
  simdjson::dom::parser parser;
  std::string text(1023, 'a');
  text += "ä" + std::string(100, 'b');
  EXPECT_EQ(ReadRefusal(parser, 400, text).message, std::string(1023, 'a'));
}

TEST(EngineErrorTest, TheClientsFieldIsNamed) {
  const Error error = ErrorOf(Complaint{400, "must be positive", "max_new_tokens"}, "max_tokens");
  EXPECT_EQ(error.field, "max_tokens");
  EXPECT_EQ(error.message, "must be positive");
}

}  // namespace
}  // namespace roost::worker::adapters
