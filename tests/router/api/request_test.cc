// Requests that the API refuses, and the fields that its errors name. Every case is a whole body; a client sees
// `status` and `param`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/router/api/api_fixture.h"
#include "tests/router/api/request_bodies.h"

namespace roost::router {
namespace {

struct BadBody {
  std::string body;
  std::string param;  // empty: null
  int status = 400;
  std::string code = {};  // empty: null
};

std::string Nested(int depth) {
  return std::string(static_cast<std::size_t>(depth), '[') + std::string(static_cast<std::size_t>(depth), ']');
}

class BadRequestTest : public ApiTest {
 protected:
  void ExpectRefused(const BadBody& bad, const FakeResponder& responder) {
    ASSERT_TRUE(responder.response.has_value()) << bad.body.substr(0, 200);
    const std::string& body = responder.response->body;
    EXPECT_EQ(responder.response->status, bad.status) << bad.body.substr(0, 200) << "\n" << body;
    EXPECT_EQ(At(body, "/error/param"), bad.param.empty() ? "null" : '"' + bad.param + '"')
        << bad.body.substr(0, 200) << "\n"
        << body;
    EXPECT_EQ(At(body, "/error/code"), bad.code.empty() ? "null" : '"' + bad.code + '"') << body;
    EXPECT_NE(At(body, "/error/message"), "") << body;
    EXPECT_EQ(At(body, "/error/type"), "\"invalid_request_error\"") << body;
    EXPECT_TRUE(dispatcher_.specs.empty()) << bad.body.substr(0, 200);
  }
};

TEST_F(BadRequestTest, BodiesThatAreNoJsonObject) {
  const std::string base = R"({"model":"bytes","messages":[{"role":"user","content":"hi"}],)";
  for (const std::string& body : std::vector<std::string>{"",
                                                          " ",
                                                          "{",
                                                          "[]",
                                                          "null",
                                                          "17",
                                                          "\"text\"",
                                                          "{\"model\"}",
                                                          "{'model':'bytes'}",
                                                          base + "}",
                                                          base + "\"x\":}",
                                                          base + "\"x\":01}",
                                                          base + "\"x\":NaN}",
                                                          base + "\"x\":Infinity}",
                                                          base + "\"x\":1} trailing",
                                                          base + "\"x\":tru}",
                                                          base + "\"x\":\"\x01\"}",
                                                          base + "\"x\":\"\\x\"}",
                                                          base + "\"x\":\"\xff\xfe\"}",
                                                          base + "\"x\":\"\xc3\"}",
                                                          base + "\"x\":\"\xed\xa0\x80\"}",
                                                          base + "\"x\":" + Nested(600) + "}",
                                                          Nested(100'000),
                                                          std::string("{\"a\":1}\0", 8)}) {
    ExpectRefused({body, ""}, *Chat(body));
    ExpectRefused({body, ""}, *Complete(body));
  }
}

TEST_F(BadRequestTest, SharedFields) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"("model":null)", "model"},
      {R"("model":7)", "model"},
      {R"("model":"")", "model"},
      {R"("model":["bytes"])", "model"},
      {R"("stream":"yes")", "stream"},
      {R"("stream":1)", "stream"},
      {R"("stream_options":true)", "stream_options"},
      {R"("stream_options":{"include_usage":1})", "stream_options.include_usage"},
      {R"("stream_options":{"continuous_usage_stats":"x"})", "stream_options.continuous_usage_stats"},
      {R"("max_tokens":-1)", "max_tokens"},
      {R"("max_tokens":0)", "max_tokens"},
      {R"("max_tokens":1.5)", "max_tokens"},
      {R"("max_tokens":"5")", "max_tokens"},
      {R"("max_tokens":3000000000)", "max_tokens"},
      {R"("max_tokens":18446744073709551615)", "max_tokens"},
      {R"("max_tokens":1e300)", "max_tokens"},
      {R"("max_completion_tokens":-5)", "max_completion_tokens"},
      {R"("max_completion_tokens":0)", "max_completion_tokens"},
      {R"("max_tokens":-1,"max_completion_tokens":5)", "max_tokens"},
      {R"("temperature":-0.1)", "temperature"},
      {R"("temperature":-1e400)", "temperature"},
      {R"("temperature":2.1)", "temperature"},
      {R"("temperature":"hot")", "temperature"},
      {R"("temperature":true)", "temperature"},
      {R"("top_p":0)", "top_p"},
      {R"("top_p":-0.5)", "top_p"},
      {R"("top_p":1.01)", "top_p"},
      {R"("top_p":[])", "top_p"},
      {R"("top_k":-2)", "top_k"},
      {R"("top_k":1.5)", "top_k"},
      {R"("top_k":4294967296)", "top_k"},
      {R"("seed":"x")", "seed"},
      {R"("seed":1.5)", "seed"},
      {R"("seed":18446744073709551615)", "seed"},
      {R"("seed":99999999999999999999999)", "seed"},
      {R"("stop":5)", "stop"},
      {R"("stop":99999999999999999999999)", "stop"},
      {R"("stop":{})", "stop"},
      {R"("stop":["a",7])", "stop[1]"},
      {R"("stop":[null])", "stop[0]"},
      {R"("stop":[["a"]])", "stop[0]"},
      {R"("stop":["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"])", "stop"},
      {R"("stop":")" + std::string(kMaxStopStringBytes + 1, 'x') + "\"", "stop"},
      {R"("stop_token_ids":5)", "stop_token_ids"},
      {R"("stop_token_ids":[-1])", "stop_token_ids[0]"},
      {R"("stop_token_ids":[1,"2"])", "stop_token_ids[1]"},
      {R"("stop_token_ids":[4294967296])", "stop_token_ids[0]"},
      {R"("n":17)", "n"},
      {R"("n":1.5)", "n"},
      {R"("n":0)", "n"},
      {R"("n":-1)", "n"},
      {R"("n":"two")", "n"},
      {R"("ignore_eos":1)", "ignore_eos"},
      {R"("cache_salt":"")", "cache_salt"},
      {R"("cache_salt":5)", "cache_salt"},
      {R"("cache_salt":")" + std::string(kMaxCacheSaltBytes + 1, 's') + "\"", "cache_salt"},
      {R"("cache":"maybe")", "cache"},
      {R"("cache":true)", "cache"},
      {R"("cache":{"mode":"none"})", "cache.mode"},
      {R"("cache":{"mode":false})", "cache.mode"},
      {R"("cache":{"salt":""})", "cache.salt"},
      {R"("cache":{"salt":"a"},"cache_salt":"b")", "cache.salt"},
      {R"("cache":{"ttl":5})", "cache.ttl"},
      {R"("cache":{"retention":5})", "cache.retention"},
      {R"("cache":{"retention":{"priority":101,"duration_ms":1}})", "cache.retention.priority"},
      {R"("cache":{"retention":{"priority":-1,"duration_ms":1}})", "cache.retention.priority"},
      {R"("cache":{"retention":{"priority":50}})", "cache.retention.duration_ms"},
      {R"("cache":{"retention":{"duration_ms":0}})", "cache.retention.duration_ms"},
      {R"("cache":{"retention":{"duration_ms":1e15}})", "cache.retention.duration_ms"},
      {R"("cache":{"retention":{"decode_priority":5}})", "cache.retention.decode_duration_ms"},
      {R"("cache":{"retention":{"decode_priority":"5","decode_duration_ms":1}})", "cache.retention.decode_priority"},
      {R"("cache":{"retention":{"duration":5}})", "cache.retention.duration"},
      {R"("session_id":"")", "session_id"},
      {R"("session_id":7)", "session_id"},
      {R"("session_id":")" + std::string(kMaxSessionIdBytes + 1, 's') + "\"", "session_id"},
      {R"("expect_return_ms":-1)", "expect_return_ms"},
      {R"("expect_return_ms":"soon")", "expect_return_ms"},
      {R"("priority":101)", "priority"},
      {R"("priority":-1)", "priority"},
      {R"("priority":"high")", "priority"},
      {R"("frequency_penalty":2.1)", "frequency_penalty"},
      {R"("frequency_penalty":-2.1)", "frequency_penalty"},
      {R"("presence_penalty":-3)", "presence_penalty"},
      {R"("presence_penalty":"0")", "presence_penalty"},
      {R"("repetition_penalty":0)", "repetition_penalty"},
      {R"("repetition_penalty":-1.1)", "repetition_penalty"},
      {R"("repetition_penalty":101)", "repetition_penalty"},
      {R"("min_p":-0.1)", "min_p"},
      {R"("min_p":1.5)", "min_p"},
      {R"("min_p":"little")", "min_p"},
      {R"("min_tokens":-1)", "min_tokens"},
      {R"("min_tokens":"few")", "min_tokens"},
      {R"("min_tokens":5,"max_tokens":4)", "min_tokens"},
      {R"("min_tokens":201)", "min_tokens"},
      {R"("logit_bias":[])", "logit_bias"},
      {R"("logit_bias":{"5":-100.5})", "logit_bias.5"},
      {R"("logit_bias":{"5":"never"})", "logit_bias.5"},
      {R"("logit_bias":{"hello":1})", "logit_bias.hello"},
      {R"("logit_bias":{"-1":1})", "logit_bias.-1"},
      {R"("logit_bias":{"07":1})", "logit_bias.07"},
      {R"("logit_bias":{"4294967296":1})", "logit_bias.4294967296"},
      {R"("logit_bias":{"3":1,"50256":-100})", "logit_bias.50256"},
      {R"("response_format":{"type":"json_schema"})", "response_format.json_schema"},
      {R"("response_format":{"type":"json_schema","json_schema":{}})", "response_format.json_schema.schema"},
      {R"("response_format":{"type":"json_schema","json_schema":{"schema":{"not":{}}}})",
       "response_format.json_schema.schema"},
      {R"("response_format":{"type":"xml"})", "response_format.type"},
      {R"("response_format":{})", "response_format.type"},
      {R"("response_format":"text")", "response_format"},
      {R"("include_stop_str_in_output":"no")", "include_stop_str_in_output"},
      {R"("skip_special_tokens":0)", "skip_special_tokens"},
      {R"("return_token_ids":1)", "return_token_ids"},
      {R"("prompt_logprobs":-1)", "prompt_logprobs"},
      {R"("prompt_logprobs":21)", "prompt_logprobs"},
      {R"("request_id":"")", "request_id"},
      {R"("request_id":"a b")", "request_id"},
      {R"("request_id":7)", "request_id"},
      {R"("use_beam_search":true)", "use_beam_search"},
      {R"("guided_whitespace_pattern":" ")", "guided_whitespace_pattern"},
      {R"("structural_tag":{})", "structural_tag"},
      {R"("response_format":{"type":"text","schema":{"type":"null"}})", "response_format.schema"},
      {R"("response_format":{"type":"json_object","json_schema":{"schema":{}}})", "response_format.json_schema"},
      {R"("response_format":{"type":"json_object","schema":7})", "response_format.schema"},
      {R"("guided_grammar":"root ::= \"\\x20a\"")", "guided_grammar"},
      {R"("guided_grammar":"root[lazy] ::= \"a\"")", "guided_grammar"},
      {R"("guided_regex":"([^a]{1,99}b){1,99}")", "guided_regex"},
      {R"("format":"yaml")", "format"},
      {R"("format":"{\"type\":\"null\"}")", "format"},
      {R"("format":["json"])", "format"},
      {R"("format":{"type":"array","uniqueItems":true})", "format"},
      {R"("format":"json","response_format":{"type":"json_object"})", "format"},
      {R"("guided_json":7)", "guided_json"},
      {R"("guided_json":{"type":"array","uniqueItems":true})", "guided_json"},
      {R"("guided_json":"{")", "guided_json"},
      {R"("guided_regex":"(a")", "guided_regex"},
      {R"("guided_regex":["a"])", "guided_regex"},
      {R"("guided_choice":[])", "guided_choice"},
      {R"("guided_choice":"a")", "guided_choice"},
      {R"("guided_choice":["a",""])", "guided_choice"},
      {R"("guided_grammar":"")", "guided_grammar"},
      {R"("structured_outputs":{})", "structured_outputs"},
      {R"("structured_outputs":{"structural_tag":"x"})", "structured_outputs.structural_tag"},
      {R"("structured_outputs":{"json":{"if":{}}})", "structured_outputs.json"},
      {R"("structured_outputs":{"regex":"a","choice":["b"]})", "structured_outputs.regex"},
      {R"("guided_regex":"a","response_format":{"type":"json_object"})", "guided_regex"},
  };
  for (const auto& [members, param] : cases) {
    ExpectRefused({members, param}, *Chat(ChatWith(members)));
    ExpectRefused({members, param}, *Complete(CompletionWith(members)));
  }
}

TEST_F(BadRequestTest, ChatFields) {
  const std::vector<BadBody> cases = {
      {R"({"messages":[{"role":"user","content":"hi"}]})", "model"},
      {R"({"model":"bytes"})", "messages"},
      {R"({"model":"bytes","messages":null})", "messages"},
      {ChatOf("[]"), "messages"},
      {ChatOf("{}"), "messages"},
      {ChatOf("\"hi\""), "messages"},
      {ChatOf("[7]"), "messages[0]"},
      {ChatOf("[null]"), "messages[0]"},
      {ChatOf("[{}]"), "messages[0].role"},
      {ChatOf(R"([{"role":"robot","content":"x"}])"), "messages[0].role"},
      {ChatOf(R"([{"role":5,"content":"x"}])"), "messages[0].role"},
      {ChatOf(R"([{"role":"user"}])"), "messages[0].content"},
      {ChatOf(R"([{"role":"user","content":null}])"), "messages[0].content"},
      {ChatOf(R"([{"role":"assistant","content":[{"type":"refusal"}]}])"), "messages[0].content[0].refusal"},
      {ChatOf(R"([{"role":"user","content":"a"},{"role":"user","content":7}])"), "messages[1].content"},
      {ChatOf(R"([{"role":"user","content":{}}])"), "messages[0].content"},
      {ChatOf(R"([{"role":"user","content":[7]}])"), "messages[0].content[0]"},
      {ChatOf(R"([{"role":"user","content":[{"text":"a"}]}])"), "messages[0].content[0].type"},
      {ChatOf(R"([{"role":"user","content":[{"type":"text"}]}])"), "messages[0].content[0].text"},
      {ChatOf(R"([{"role":"user","content":[{"type":"text","text":5}]}])"), "messages[0].content[0].text"},
      {ChatOf(R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{}}]}])"),
       "messages[0].content[1].type"},
      {ChatOf(R"([{"role":"user","content":"\ud83"}])"), ""},
      {ChatOf(R"([{"role":"assistant","tool_calls":{}}])"), "messages[0].tool_calls"},
      {ChatOf(R"([{"role":"assistant","tool_calls":[{}]}])"), "messages[0].tool_calls[0].function"},
      {ChatOf(R"([{"role":"assistant","tool_calls":[{"function":{}}]}])"), "messages[0].tool_calls[0].function.name"},
      {ChatWith(R"("logprobs":1)"), "logprobs"},
      {ChatWith(R"("logprobs":true,"top_logprobs":21)"), "top_logprobs"},
      {ChatWith(R"("logprobs":true,"top_logprobs":-1)"), "top_logprobs"},
      {ChatWith(R"("logprobs":false,"top_logprobs":5)"), "top_logprobs"},
      {ChatWith(R"("top_logprobs":5)"), "top_logprobs"},
      {ChatWith(R"("tools":{})"), "tools"},
      {ChatWith(R"("tools":[5])"), "tools[0]"},
      {ChatWith(R"("tools":[{"type":"retrieval"}])"), "tools[0].type"},
      {ChatWith(R"("tools":[{"type":"function"}])"), "tools[0].function"},
      {ChatWith(R"("tools":[{"type":"function","function":{}}])"), "tools[0].function.name"},
      {ChatWith(R"("tools":[{"type":"function","function":{"name":"f","parameters":"x"}}])"),
       "tools[0].function.parameters"},
      {ChatWith(R"("tool_choice":"required")"), "tool_choice"},
      {ChatWith(R"("tool_choice":{"type":"function","function":{"name":"f"}})"), "tool_choice.function.name"},
      {ChatWith(R"("functions":[{"name":"f"}])"), "functions"},
      {ChatWith(R"("function_call":{"name":"f"})"), "function_call"},
      {ChatWith(R"("chat_template":"{{ 1 }}")"), "chat_template"},
      {ChatWith(R"("chat_template_kwargs":[])"), "chat_template_kwargs"},
      {ChatWith(R"("documents":"x")"), "documents"},
      {ChatWith(R"("documents":[5])"), "documents[0]"},
      {ChatWith(R"("add_generation_prompt":"no")"), "add_generation_prompt"},
      {ChatWith(R"("continue_final_message":1)"), "continue_final_message"},
      {ChatWith(R"("best_of":2)"), "best_of"},
  };
  for (const BadBody& bad : cases) ExpectRefused(bad, *Chat(bad.body));
}

TEST_F(BadRequestTest, CompletionFields) {
  const std::vector<BadBody> cases = {
      {R"({"prompt":"hi"})", "model"},
      {R"({"model":"bytes"})", "prompt"},
      {R"({"model":"bytes","prompt":null})", "prompt"},
      {R"({"model":"bytes","prompt":5})", "prompt"},
      {R"({"model":"bytes","prompt":{}})", "prompt"},
      {R"({"model":"bytes","prompt":[]})", "prompt"},
      {R"({"model":"bytes","prompt":[[]]})", "prompt[0]"},
      {R"({"model":"bytes","prompt":[[65],[]]})", "prompt[1]"},
      {R"({"model":"bytes","prompt":["a",null]})", "prompt[1]"},
      {R"({"model":"bytes","prompt":[[65],[259]]})", "prompt[1][0]"},
      {R"({"model":"bytes","prompt":["a",1]})", "prompt[1]"},
      {R"({"model":"bytes","prompt":[1,"a"]})", "prompt[1]"},
      {R"({"model":"bytes","prompt":[null]})", "prompt[0]"},
      {R"({"model":"bytes","prompt":[1.5]})", "prompt[0]"},
      {R"({"model":"bytes","prompt":[-1]})", "prompt[0]"},
      {R"({"model":"bytes","prompt":[1,259]})", "prompt[1]"},
      {R"({"model":"bytes","prompt":[4294967296]})", "prompt[0]"},
      {CompletionWith(R"("best_of":2)"), "best_of"},
      {CompletionWith(R"("n":2,"best_of":1)"), "best_of"},
      {CompletionWith(R"("logprobs":-1)"), "logprobs"},
      {CompletionWith(R"("logprobs":21)"), "logprobs"},
      {CompletionWith(R"("logprobs":true)"), "logprobs"},
      {CompletionWith(R"("suffix":"x")"), "suffix"},
  };
  for (const BadBody& bad : cases) ExpectRefused(bad, *Complete(bad.body));
}

TEST_F(BadRequestTest, UnknownModelIsNotFound) {
  const BadBody bad{R"({"model":"other","messages":[{"role":"user","content":"hi"}]})", "model", 404,
                    "model_not_found"};
  ExpectRefused(bad, *Chat(bad.body));
}

TEST_F(BadRequestTest, TooLongAPromptTellsTheNumbers) {
  const std::string text(300, 'x');
  const BadBody chat{ChatOf(R"([{"role":"user","content":")" + text + "\"}]"), "messages", 400,
                     "context_length_exceeded"};
  const auto refused = Chat(chat.body);
  ExpectRefused(chat, *refused);
  EXPECT_NE(refused->response->body.find("200 tokens"), std::string::npos) << refused->response->body;
  // <s> and 300 bytes.
  const auto completion = Complete(R"({"model":"bytes","prompt":")" + text + "\"}");
  ExpectRefused({"", "prompt", 400, "context_length_exceeded"}, *completion);
  EXPECT_NE(completion->response->body.find("301 tokens"), std::string::npos) << completion->response->body;
  // Counting stops once no context can hold the text.
  const auto endless = Complete(R"({"model":"bytes","prompt":")" + std::string(5'000, 'x') + "\"}");
  ExpectRefused({"", "prompt", 400, "context_length_exceeded"}, *endless);
  EXPECT_NE(endless->response->body.find("more than 800 tokens"), std::string::npos) << endless->response->body;
  // A prompt that fills the context exactly leaves no space for a token.
  ExpectRefused({"", "prompt", 400, "context_length_exceeded"},
                *Complete(R"({"model":"bytes","prompt":")" + std::string(199, 'x') + "\"}"));
}

TEST_F(BadRequestTest, PromptAndAnswerTogetherMustFit) {
  ExpectRefused({"", "max_tokens", 400, "context_length_exceeded"}, *Complete(CompletionWith(R"("max_tokens":198)")));
  ExpectRefused({"", "max_completion_tokens", 400, "context_length_exceeded"},
                *Complete(CompletionWith(R"("max_completion_tokens":198,"max_tokens":3)")));
}

TEST_F(BadRequestTest, ModelWithoutTemplateHasNoChat) {
  ServedModel model = ByteModel();
  model.chat_template = nullptr;
  Serve(std::move(model));
  ExpectRefused({"", "model"}, *Chat(ChatOf(R"([{"role":"user","content":"hi"}])")));
}

TEST_F(BadRequestTest, TemplatesThatRaiseBlameTheMessages) {
  ServedModel model = ByteModel();
  model.chat_template = std::move(ChatTemplate::Parse("{{ raise_exception('roles must alternate') }}", "t").value());
  Serve(std::move(model));
  const auto refused = Chat(ChatOf(R"([{"role":"user","content":"hi"}])"));
  ExpectRefused({"", "messages"}, *refused);
  EXPECT_NE(refused->response->body.find("roles must alternate"), std::string::npos);
}

TEST_F(BadRequestTest, AModelIsUnavailableWhileItIsExpectedAndThenNotFound) {
  dispatcher_.models.clear();
  dispatcher_.expected = "bytes";
  const auto refused = Chat(ChatOf(R"([{"role":"user","content":"hi"}])"));
  EXPECT_EQ(refused->response->status, 503);
  EXPECT_EQ(HeaderOf(refused->response->headers, "Retry-After"), "1");
  dispatcher_.expected.reset();
  const auto gone = Chat(ChatOf(R"([{"role":"user","content":"hi"}])"));
  EXPECT_EQ(gone->response->status, 404);
}

TEST_F(BadRequestTest, GenerationsThatNobodyServesCountUnderTheirModel) {
  const auto ask = [this] { return Chat(ChatOf(R"([{"role":"user","content":"hi"}])"))->response->status; };
  dispatcher_.models.clear();
  EXPECT_EQ(ask(), 404);
  EXPECT_THAT(observer_.unserveds, testing::IsEmpty()) << "nobody has served that name, nor is it expected";
  dispatcher_.expected = "bytes";
  EXPECT_EQ(ask(), 503);
  dispatcher_.known = "bytes";
  EXPECT_EQ(ask(), 503);
  dispatcher_.expected.reset();
  EXPECT_EQ(ask(), 404);
  EXPECT_THAT(observer_.unserveds,
              testing::ElementsAre("bytes unavailable, not known", "bytes unavailable", "bytes model_not_found"));
  Ask("POST", "/tokenize", R"({"model":"bytes","prompt":"hi"})");
  EXPECT_EQ(observer_.unserveds.size(), 3U) << "it would generate nothing";
}

TEST_F(BadRequestTest, ARequestWaitsOnceForAModelThatIsAboutToCome) {
  std::vector<std::shared_ptr<const ServedModel>> models = std::exchange(dispatcher_.models, {});
  dispatcher_.arriving = "bytes";
  const auto held = Chat(ChatOf(R"([{"role":"user","content":"hi"}])"));
  ASSERT_FALSE(held->response.has_value());
  ASSERT_EQ(dispatcher_.held.size(), 1U);
  EXPECT_THAT(observer_.unserveds, testing::IsEmpty());
  dispatcher_.models = models;
  dispatcher_.held.front()();
  ASSERT_EQ(dispatcher_.specs.size(), 1U) << "its body was read again";
  EXPECT_FALSE(held->response.has_value());

  dispatcher_.models.clear();
  const auto in_vain = Chat(ChatOf(R"([{"role":"user","content":"hi"}])"));
  ASSERT_EQ(dispatcher_.held.size(), 2U);
  dispatcher_.held.back()();
  ASSERT_TRUE(in_vain->response.has_value());
  EXPECT_EQ(in_vain->response->status, 503) << "the router can not know yet that nobody brings it";
  EXPECT_EQ(dispatcher_.held.size(), 2U) << "it waits once";

  dispatcher_.refuses_to_hold = true;
  EXPECT_EQ(Chat(ChatOf(R"([{"role":"user","content":"hi"}])"))->response->status, 503) << "too many wait already";
}

}  // namespace
}  // namespace roost::router
