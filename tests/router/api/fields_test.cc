// The effects of request fields on the answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/router/api/api_fixture.h"

namespace roost::router {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using wire::FinishReason;

class FieldsTest : public ApiTest {
 protected:
  // Dispatches all prompts of the request.
  std::shared_ptr<FakeResponder> CompleteWith(std::string_view members) {
    auto responder = Complete(fmt::format(R"({{"model":"bytes",{}}})", members));
    for (std::size_t i = 0; i < dispatcher_.observers.size(); ++i) Prompt(i).OnDispatched({"w1", {}});
    return responder;
  }
  GenerationObserver& Prompt(std::size_t i) { return *dispatcher_.observers.at(i); }
  static std::string Choice(const FakeResponder& responder, int index, std::string_view member) {
    return At(responder.response->body, fmt::format("/choices/{}/{}", index, member));
  }
};

// ---- several prompts ----

TEST_F(FieldsTest, EachPromptIsARequestAndTheAnswerHasTheirChoicesInOrder) {
  const auto responder = CompleteWith(R"("prompt":["ab",[66,67]],"n":2)");
  ASSERT_EQ(dispatcher_.specs.size(), 2U);
  EXPECT_EQ(dispatcher_.specs[0].generate.prompt, (std::vector<TokenId>{kBos, 'a', 'b'}));
  EXPECT_EQ(dispatcher_.specs[1].generate.prompt, (std::vector<TokenId>{66, 67}));
  Prompt(1).OnTokens({Bytes("y"), 1, 1});
  Prompt(0).OnTokens({Bytes("w"), 2, 0});
  Prompt(1).OnTokens({Bytes("xx"), {}, 0});
  Prompt(1).OnEnd({FinishReason::kStop, {}});
  Prompt(0).OnTokens({Bytes("v"), {}, 1});
  EXPECT_FALSE(responder->done());
  Prompt(0).OnEnd({FinishReason::kLength, {}});
  ASSERT_TRUE(responder->response.has_value());
  EXPECT_EQ(Choice(*responder, 0, "text"), R"("w")");
  EXPECT_EQ(Choice(*responder, 1, "text"), R"("v")");
  EXPECT_EQ(Choice(*responder, 2, "text"), R"("xx")");
  EXPECT_EQ(Choice(*responder, 3, "text"), R"("y")");
  EXPECT_EQ(Choice(*responder, 3, "index"), "3");
  EXPECT_EQ(Choice(*responder, 0, "finish_reason"), R"("length")");
  EXPECT_EQ(Choice(*responder, 2, "finish_reason"), R"("stop")");
  EXPECT_EQ(At(responder->response->body, "/usage/prompt_tokens"), "5");
  EXPECT_EQ(At(responder->response->body, "/usage/completion_tokens"), "5");
  EXPECT_EQ(At(responder->response->body, "/usage/prompt_tokens_details/cached_tokens"), "3");
  EXPECT_THAT(observer_.ends, ElementsAre("length prompt=5 completion=5 cached=3"));
  EXPECT_THAT(dispatcher_.cancelled, IsEmpty());
}

TEST_F(FieldsTest, OnePromptsFailureEndsTheAnswerAndCancelsTheOthers) {
  const auto responder = CompleteWith(R"("prompt":["a","b","c"])");
  Prompt(0).OnEnd({FinishReason::kStop, {}});
  Prompt(1).OnEnd({FinishReason::kError, Error{ErrorCode::kUnavailable, "the worker was lost", ""}});
  EXPECT_EQ(responder->response->status, 503);
  EXPECT_THAT(dispatcher_.cancelled, ElementsAre(RequestId(3)));
}

TEST_F(FieldsTest, ALostClientCancelsAllPrompts) {
  const auto responder = CompleteWith(R"("prompt":["a","b"])");
  responder->Close();
  EXPECT_THAT(dispatcher_.cancelled, UnorderedElementsAre(RequestId(1), RequestId(2)));
}

TEST_F(FieldsTest, APromptThatIsNotTakenEndsTheAnswerAndCancelsThoseBefore) {
  dispatcher_.on_submit = [this] {
    if (dispatcher_.specs.size() == 1) dispatcher_.refusal = Error{ErrorCode::kOverloaded, "the queue is full", ""};
  };
  const auto responder = CompleteWith(R"("prompt":["a","b","c"])");
  ASSERT_TRUE(responder->response.has_value());
  EXPECT_EQ(responder->response->status, 429);
  EXPECT_THAT(dispatcher_.cancelled, UnorderedElementsAre(RequestId(1), RequestId(2)));
}

TEST_F(FieldsTest, PromptsAreBounded) {
  std::string many = "[";
  for (int i = 0; i < 1025; ++i) many += R"("a",)";
  many.back() = ']';
  EXPECT_EQ(At(Complete(fmt::format(R"({{"model":"bytes","prompt":{}}})", many))->response->body, "/error/param"),
            R"("prompt")");
  const auto refused = Complete(R"({"model":"bytes","n":16,"prompt":["a")" + [] {
    std::string more;
    for (int i = 0; i < 128; ++i) more += R"(,"a")";
    return more;
  }() + "]}");
  EXPECT_EQ(At(refused->response->body, "/error/param"), R"("n")");
}

// ---- echo, stop texts, special tokens, token ids ----

TEST_F(FieldsTest, EchoBeginsTheAnswerWithThePrompt) {
  const auto responder = CompleteWith(R"("prompt":["ab",[67,256]],"echo":true)");
  Prompt(0).OnTokens({Bytes("x"), 0, 0});
  Prompt(0).OnEnd({FinishReason::kStop, {}});
  Prompt(1).OnTokens({Bytes("y"), 0, 0});
  Prompt(1).OnEnd({FinishReason::kStop, {}});
  EXPECT_EQ(Choice(*responder, 0, "text"), R"("abx")");
  EXPECT_EQ(Choice(*responder, 1, "text"), R"("C<|im_start|>y")");
}

TEST_F(FieldsTest, EchoOfAnAnswerWithoutTokensIsThePrompt) {
  const auto responder = CompleteWith(R"("prompt":"ab","echo":true)");
  Prompt(0).OnEnd({FinishReason::kStop, {}});
  EXPECT_EQ(Choice(*responder, 0, "text"), R"("ab")");
}

TEST_F(FieldsTest, AStopTextShowsWhereItIsAskedFor) {
  const auto responder = CompleteWith(R"("prompt":"a","stop":["END","x"],"include_stop_str_in_output":true)");
  Prompt(0).OnTokens({Bytes("one EN"), 0, 0});
  Prompt(0).OnTokens({Bytes("D two"), {}, 0});
  EXPECT_EQ(Choice(*responder, 0, "text"), R"("one END")");
  EXPECT_EQ(Choice(*responder, 0, "finish_reason"), R"("stop")");
  EXPECT_EQ(Choice(*responder, 0, "stop_reason"), R"("END")");
}

TEST_F(FieldsTest, SpecialTokensShowWhereTheyAreAskedFor) {
  const auto hidden = CompleteWith(R"("prompt":"a")");
  Prompt(0).OnTokens({{'b', kImStart, 'c'}, 0, 0});
  Prompt(0).OnEnd({FinishReason::kStop, {}});
  EXPECT_EQ(Choice(*hidden, 0, "text"), R"("bc")");
  const auto shown = CompleteWith(R"("prompt":"a","skip_special_tokens":false)");
  Prompt(1).OnTokens({{'b', kImStart, 'c'}, 0, 0});
  Prompt(1).OnEnd({FinishReason::kStop, {}});
  EXPECT_EQ(Choice(*shown, 0, "text"), R"("b<|im_start|>c")");
}

TEST_F(FieldsTest, TokenIdsAreToldOfPromptAndAnswer) {
  const auto whole = CompleteWith(R"("prompt":"a","return_token_ids":true)");
  Prompt(0).OnTokens({Bytes("bc"), 0, 0});
  Prompt(0).OnTokens({{kImEnd}, 0, 0});
  Prompt(0).OnEnd({FinishReason::kStop, {}});
  EXPECT_EQ(Choice(*whole, 0, "token_ids"), "[98,99,257]");
  EXPECT_EQ(Choice(*whole, 0, "prompt_token_ids"), "[258,97]");
}

TEST_F(FieldsTest, TokenIdsOfAStreamComeWithTheirChunks) {
  const auto stream = CompleteWith(R"("prompt":"a","return_token_ids":true,"stream":true)");
  Prompt(0).OnTokens({Bytes("bc"), 0, 0});
  Prompt(0).OnTokens({{0xc3}, 0, 0});  // half a character: no text yet
  Prompt(0).OnEnd({FinishReason::kStop, {}});
  std::vector<std::string> prompt_ids;
  std::vector<std::string> ids;
  for (const std::string& event : Events(*stream)) {
    prompt_ids.push_back(At(event, "/choices/0/prompt_token_ids"));
    ids.push_back(At(event, "/choices/0/token_ids"));
  }
  EXPECT_THAT(prompt_ids, ElementsAre("[258,97]", "", "", "", "", ""));
  EXPECT_THAT(ids, ElementsAre("", "[98,99]", "[195]", "", "", ""));
}

// ---- log probabilities ----

wire::TokenLogprobs Scored(float logprob, std::vector<wire::TokenLogprob> top = {}) {
  return {.logprob = logprob, .rank = 7, .top = std::move(top)};
}

TEST_F(FieldsTest, AChatsLogProbabilitiesNameTokensTextAndBytes) {
  const auto responder =
      Chat(R"({"model":"bytes","messages":[{"role":"user","content":"hi"}],"logprobs":true,"top_logprobs":2})");
  ASSERT_EQ(dispatcher_.specs.size(), 1U);
  EXPECT_EQ(dispatcher_.specs[0].generate.output_logprobs, 2U);
  Prompt(0).OnTokens({{'a'}, 0, 0, {Scored(-0.5F, {{'a', -0.5F}, {0xC3, -1.25F}})}});
  Prompt(0).OnEnd({FinishReason::kStop, {}});
  EXPECT_EQ(Choice(*responder, 0, "logprobs"),
            R"({"content":[{"token":"a","logprob":-0.5,"bytes":[97],"top_logprobs":[{"token":"a","logprob":-0.5,)"
            R"("bytes":[97]},{"token":"�","logprob":-1.25,"bytes":[195]}]}],"refusal":null})");
}

TEST_F(FieldsTest, AStreamsLogProbabilitiesComeWithTheirTokensAlsoBeforeTheirTextIsCertain) {
  const auto responder =
      Chat(R"({"model":"bytes","messages":[{"role":"user","content":"hi"}],"logprobs":true,"stream":true})");
  EXPECT_EQ(dispatcher_.specs[0].generate.output_logprobs, 0U);
  Prompt(0).OnTokens({{0xC3}, 0, 0, {Scored(-1)}});
  Prompt(0).OnTokens({{0xA9}, {}, 0, {Scored(-2)}});
  Prompt(0).OnEnd({FinishReason::kStop, {}});
  std::vector<std::string> bytes;
  for (const std::string& event : Events(*responder)) {
    if (const std::string entry = At(event, "/choices/0/logprobs/content/0/bytes/0"); !entry.empty()) {
      bytes.push_back(entry + At(event, "/choices/0/delta"));
    }
  }
  EXPECT_THAT(bytes, ElementsAre("195{}", R"(169{"content":"é"})"));
}

TEST_F(FieldsTest, ACompletionsLogProbabilitiesAreColumns) {
  const auto responder = CompleteWith(R"("prompt":"a","logprobs":1)");
  EXPECT_EQ(dispatcher_.specs[0].generate.output_logprobs, 1U);
  Prompt(0).OnTokens({{'b', 'c'}, 0, 0, {Scored(-0.5F, {{'b', -0.5F}}), Scored(-3, {{'x', -0.25F}})}});
  Prompt(0).OnEnd({FinishReason::kStop, {}});
  EXPECT_EQ(Choice(*responder, 0, "logprobs"),
            R"({"tokens":["b","c"],"token_logprobs":[-0.5,-3],"top_logprobs":[{"b":-0.5},{"x":-0.25,"c":-3}],)"
            R"("text_offset":[0,1]})");
}

TEST_F(FieldsTest, AnEchoHasThePromptsLogProbabilitiesToo) {
  const auto responder = CompleteWith(R"("prompt":"ab","logprobs":0,"echo":true)");
  EXPECT_EQ(dispatcher_.specs[0].generate.prompt_logprobs, 0U);
  Prompt(0).OnPromptLogprobs({Scored(-1), Scored(-2)});
  Prompt(0).OnTokens({{'c'}, 0, 0, {Scored(-4)}});
  Prompt(0).OnEnd({FinishReason::kStop, {}});
  EXPECT_EQ(Choice(*responder, 0, "text"), R"("abc")");
  EXPECT_EQ(Choice(*responder, 0, "logprobs"),
            R"({"tokens":["<s>","a","b","c"],"token_logprobs":[null,-1,-2,-4],)"
            R"("top_logprobs":[null,{"a":-1},{"b":-2},{"c":-4}],"text_offset":[0,3,4,5]})");
}

TEST_F(FieldsTest, AnEchoAloneScoresThePromptAndHasNoTokenOfTheAnswer) {
  const auto responder = CompleteWith(R"("prompt":"ab","logprobs":0,"echo":true,"max_tokens":0,"stop_token_ids":[99])");
  EXPECT_EQ(dispatcher_.specs[0].generate.max_output_tokens, 1U);
  Prompt(0).OnPromptLogprobs({Scored(-1), Scored(-2)});
  Prompt(0).OnTokens({{'c'}, 2, 0, {Scored(-4)}});
  Prompt(0).OnEnd({FinishReason::kStop, {}, TokenId{99}});
  EXPECT_EQ(Choice(*responder, 0, "text"), R"("ab")");
  EXPECT_EQ(Choice(*responder, 0, "finish_reason"), R"("length")");
  EXPECT_EQ(Choice(*responder, 0, "logprobs"), R"({"tokens":["<s>","a","b"],"token_logprobs":[null,-1,-2],)"
                                               R"("top_logprobs":[null,{"a":-1},{"b":-2}],"text_offset":[0,3,4]})");
  EXPECT_EQ(At(responder->response->body, "/usage/completion_tokens"), "0");
  EXPECT_EQ(At(responder->response->body, "/usage/prompt_tokens_details/cached_tokens"), "2");
}

TEST_F(FieldsTest, AnEchoAloneIsStreamedToo) {
  const auto responder = CompleteWith(R"("prompt":"ab","echo":true,"max_tokens":0,"stream":true)");
  Prompt(0).OnTokens({{'c'}, 0, 0});
  Prompt(0).OnEnd({FinishReason::kLength, {}});
  const std::string frames = responder->frames;
  EXPECT_NE(frames.find(R"("text":"ab")"), std::string::npos);
  EXPECT_EQ(frames.find(R"("text":"c")"), std::string::npos);
  EXPECT_NE(frames.find(R"("finish_reason":"length")"), std::string::npos);
}

TEST_F(FieldsTest, PromptLogProbabilitiesAreByTokenId) {
  const auto responder = CompleteWith(R"("prompt":"a","prompt_logprobs":1)");
  EXPECT_EQ(dispatcher_.specs[0].generate.prompt_logprobs, 1U);
  Prompt(0).OnPromptLogprobs({Scored(-2, {{'z', -0.5F}})});
  Prompt(0).OnTokens({{'c'}, 0, 0});
  Prompt(0).OnEnd({FinishReason::kStop, {}});
  EXPECT_EQ(Choice(*responder, 0, "prompt_logprobs"), R"([null,{"122":{"logprob":-0.5,"rank":1,"decoded_token":"z"},)"
                                                      R"("97":{"logprob":-2,"rank":7,"decoded_token":"a"}}])");
}

TEST_F(FieldsTest, AStopTokenOfTheRequestsOwnIsNamed) {
  const auto responder = CompleteWith(R"("prompt":"a","stop_token_ids":[122])");
  Prompt(0).OnTokens({{'c'}, 0, 0});
  Prompt(0).OnEnd({FinishReason::kStop, {}, TokenId{122}});
  EXPECT_EQ(Choice(*responder, 0, "stop_reason"), "122");
}

TEST_F(FieldsTest, AClientsTraceGoesToTheWorkerAndARubbishOneDoesNot) {
  const auto ask = [this](std::string trace) {
    HttpRequest request;
    request.method = "POST";
    request.path = "/v1/completions";
    request.headers = {{"Content-Type", "application/json"}, {"traceparent", std::move(trace)}};
    request.body = std::string(R"({"model":"bytes","prompt":"a"})");
    Handle(std::move(request));
    return dispatcher_.specs.back().generate.trace_parent;
  };
  const std::string trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  EXPECT_EQ(ask(trace), trace);
  EXPECT_EQ(ask("00-x"), "");
}

// ---- continued messages ----

TEST_F(FieldsTest, AnAnswerGoesOnWithTheLastMessage) {
  const auto prompt_of = [this](std::string_view content) {
    Chat(fmt::format(R"({{"model":"bytes","continue_final_message":true,"messages":[{{"role":"user","content":"hi"}},)"
                     R"({{"role":"assistant","content":"{}"}}]}})",
                     content));
    return dispatcher_.specs.back().model->tokenizer->Decode(dispatcher_.specs.back().generate.prompt);
  };
  EXPECT_EQ(prompt_of("so far"), "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nso far");
  EXPECT_EQ(prompt_of("hi"), "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nhi");
}

TEST_F(FieldsTest, NothingIsContinuedWithoutAText) {
  const auto param_of = [this](std::string_view members) {
    return At(Chat(fmt::format(R"({{"model":"bytes","continue_final_message":true,{}}})", members))->response->body,
              "/error/param");
  };
  EXPECT_EQ(param_of(R"("messages":[{"role":"user","content":""}])"), R"("continue_final_message")");
  EXPECT_EQ(param_of(R"("messages":[{"role":"user","content":"a"}],"add_generation_prompt":true)"),
            R"("continue_final_message")");
}

TEST_F(FieldsTest, TheClientsOwnRequestIdNamesTheRequest) {
  CompleteWith(R"("prompt":"a","request_id":"mine-1")");
  EXPECT_EQ(dispatcher_.specs[0].request_id, "mine-1");
}

}  // namespace
}  // namespace roost::router
