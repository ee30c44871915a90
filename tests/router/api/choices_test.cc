// Answers with several choices: n above 1.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/router/api/api_fixture.h"

namespace roost::router {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::FinishReason;

class ChoicesTest : public ApiTest {
 protected:
  std::shared_ptr<FakeResponder> AskForTwo(std::string_view members = R"("stream":false)") {
    auto responder =
        Chat(fmt::format(R"({{"model":"bytes","messages":[{{"role":"user","content":"hi"}}],"n":2,{}}})", members));
    dispatcher_.Dispatch(0);
    return responder;
  }
  // The text of each chunk about its choice: "index text", or "index finish_reason".
  static std::vector<std::string> Chunks(const FakeResponder& responder) {
    std::vector<std::string> chunks;
    for (const std::string& event : Events(responder)) {
      const std::string index = At(event, "/choices/0/index");
      const std::string reason = At(event, "/choices/0/finish_reason");
      if (index.empty()) continue;
      chunks.push_back(index + ' ' + (reason == "null" ? At(event, "/choices/0/delta/content") : reason));
    }
    return chunks;
  }
};

TEST_F(ChoicesTest, AreOneRequestAndOneAnswer) {
  const auto responder = AskForTwo();
  ASSERT_EQ(dispatcher_.specs.size(), 1U);
  EXPECT_EQ(dispatcher_.specs[0].generate.sample_count, 2U);
  dispatcher_.ProduceFor(1, Bytes("yo"), 4);
  dispatcher_.ProduceFor(0, Bytes("hel"));
  dispatcher_.FinishChoice(1, FinishReason::kStop);
  EXPECT_FALSE(responder->done());
  dispatcher_.ProduceFor(0, Bytes("lo"));
  dispatcher_.Finish(FinishReason::kLength);
  ASSERT_TRUE(responder->response.has_value());
  const std::string& body = responder->response->body;
  EXPECT_EQ(At(body, "/choices"),
            R"([{"index":0,"message":{"role":"assistant","content":"hello","refusal":null},"logprobs":null,)"
            R"("finish_reason":"length"},{"index":1,"message":{"role":"assistant","content":"yo","refusal":null},)"
            R"("logprobs":null,"finish_reason":"stop"}])");
  EXPECT_EQ(At(body, "/usage"), R"({"prompt_tokens":21,"completion_tokens":7,"total_tokens":28,)"
                                R"("prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":0},)"
                                R"("completion_tokens_details":{"reasoning_tokens":0}})");
  EXPECT_THAT(observer_.ends, ElementsAre("length prompt=21 completion=7 cached=4"));
  EXPECT_THAT(dispatcher_.cancelled, IsEmpty());
}

TEST_F(ChoicesTest, StreamWithTheirIndices) {
  const auto responder = AskForTwo(R"("stream":true)");
  dispatcher_.ProduceFor(0, Bytes("a"), 0);
  dispatcher_.ProduceFor(1, Bytes("b"));
  dispatcher_.ProduceFor(0, Bytes("c"));
  dispatcher_.FinishChoice(0, FinishReason::kStop);
  dispatcher_.ProduceFor(1, Bytes("d"));
  dispatcher_.Finish(FinishReason::kLength);
  EXPECT_THAT(Chunks(*responder), ElementsAre(R"(0 "")", R"(0 "a")", R"(1 "")", R"(1 "b")", R"(0 "c")", R"(0 "stop")",
                                              R"(1 "d")", R"(1 "length")"));
  EXPECT_EQ(Events(*responder).back(), "[DONE]");
  EXPECT_TRUE(responder->ended);
}

TEST_F(ChoicesTest, CharactersAreHeldBackEachForItself) {
  const auto responder = AskForTwo();
  dispatcher_.ProduceFor(0, {0xc3});
  dispatcher_.ProduceFor(1, {0xe2});
  dispatcher_.ProduceFor(0, {0xa9});
  dispatcher_.ProduceFor(1, {0x82, 0xac});
  dispatcher_.Finish(FinishReason::kStop);
  EXPECT_EQ(At(responder->response->body, "/choices/0/message/content"), "\"é\"");
  EXPECT_EQ(At(responder->response->body, "/choices/1/message/content"), "\"€\"");
}

TEST_F(ChoicesTest, AStopStringEndsOneAndTheOthersGoOn) {
  const auto responder = AskForTwo(R"("stream":true,"stop":"END")");
  dispatcher_.ProduceFor(0, Bytes("xEN"), 0);
  dispatcher_.ProduceFor(1, Bytes("y"));
  dispatcher_.ProduceFor(0, Bytes("D more"));
  EXPECT_THAT(dispatcher_.cancelled, IsEmpty());
  dispatcher_.ProduceFor(0, Bytes("late"));
  dispatcher_.ProduceFor(1, Bytes("z"));
  dispatcher_.Finish(FinishReason::kLength);
  EXPECT_THAT(Chunks(*responder),
              ElementsAre(R"(0 "")", R"(0 "x")", R"(1 "")", R"(1 "y")", R"(0 "stop")", R"(1 "z")", R"(1 "length")"));
  EXPECT_THAT(observer_.ends, ElementsAre("length prompt=21 completion=6 cached=0"));
}

TEST_F(ChoicesTest, TheRequestIsCancelledWhenStopStringsHaveEndedAll) {
  const auto responder = AskForTwo(R"("stop":"END")");
  dispatcher_.ProduceFor(0, Bytes("xEND"), 0);
  dispatcher_.ProduceFor(1, Bytes("yEND"));
  EXPECT_THAT(dispatcher_.cancelled, ElementsAre(RequestId(1)));
  ASSERT_TRUE(responder->response.has_value());
  EXPECT_EQ(At(responder->response->body, "/choices/1/message/content"), "\"y\"");
}

TEST_F(ChoicesTest, TheRequestIsCancelledWhenOnlyStoppedChoicesAreLeft) {
  const auto responder = AskForTwo(R"("stop":"END")");
  dispatcher_.ProduceFor(0, Bytes("xEND"), 0);
  dispatcher_.FinishChoice(1, FinishReason::kStop);
  EXPECT_THAT(dispatcher_.cancelled, ElementsAre(RequestId(1)));
  EXPECT_TRUE(responder->response.has_value());
}

TEST_F(ChoicesTest, AFailureEndsThemAll) {
  const auto responder = AskForTwo(R"("stream":true)");
  dispatcher_.ProduceFor(0, Bytes("a"), 0);
  dispatcher_.FinishChoice(0, FinishReason::kStop);
  dispatcher_.Finish(FinishReason::kError, Error{ErrorCode::kUnavailable, "the worker was lost", ""});
  EXPECT_TRUE(responder->ended);
  const std::vector<std::string> events = Events(*responder);
  EXPECT_NE(At(events.at(events.size() - 2), "/error/message"), "");
  EXPECT_EQ(events.back(), "[DONE]");
}

TEST_F(ChoicesTest, TimesAreTakenPerChoice) {
  AskForTwo();
  clock_.Advance(std::chrono::milliseconds(500));
  dispatcher_.ProduceFor(0, Bytes("a"), 0);
  clock_.Advance(std::chrono::milliseconds(250));
  dispatcher_.ProduceFor(1, Bytes("b"));
  clock_.Advance(std::chrono::milliseconds(250));
  dispatcher_.ProduceFor(0, Bytes("c"));
  EXPECT_THAT(observer_.first_token_seconds, ElementsAre(0.5));
  EXPECT_THAT(observer_.later_tokens, ElementsAre(std::pair(1U, 0.5)));
}

}  // namespace
}  // namespace roost::router
