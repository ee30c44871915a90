// What the API refuses, and which field it names. Every case is a whole body; `status` and `param` are what a client
// sees.
#include <gtest/gtest.h>

#include "tests/router/api/api_fixture.h"

namespace roost::router {
namespace {

struct BadBody {
  std::string body;
  std::string param;  // empty: null
  int status = 400;
  std::string code = {};  // empty: null
};

std::string ChatWith(std::string_view members) {
  return fmt::format(R"({{"model":"bytes","messages":[{{"role":"user","content":"hi"}}],{}}})", members);
}
std::string ChatOf(std::string_view messages) { return fmt::format(R"({{"model":"bytes","messages":{}}})", messages); }
std::string CompletionWith(std::string_view members) {
  return fmt::format(R"({{"model":"bytes","prompt":"hi",{}}})", members);
}
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
                                                          base + "\"x\":1e400}",
                                                          base + "\"temperature\":-1e400}",
                                                          base + "\"x\":1} trailing",
                                                          base + "\"x\":tru}",
                                                          base + "\"x\":\"\x01\"}",
                                                          base + "\"x\":\"\\x\"}",
                                                          base + "\"x\":\"\xff\xfe\"}",
                                                          base + "\"x\":\"\xc3\"}",
                                                          base + "\"x\":\"\\ud800\"}",
                                                          base + "\"x\":\"\xed\xa0\x80\"}",
                                                          base + "\"x\":" + Nested(64) + "}",
                                                          Nested(100'000),
                                                          base + "\"seed\":99999999999999999999999}",
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
      {R"("stop":5)", "stop"},
      {R"("stop":{})", "stop"},
      {R"("stop":"")", "stop"},
      {R"("stop":["a",""])", "stop[1]"},
      {R"("stop":["a",7])", "stop[1]"},
      {R"("stop":[null])", "stop[0]"},
      {R"("stop":[["a"]])", "stop[0]"},
      {R"("stop":["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"])", "stop"},
      {R"("stop":")" + std::string(kMaxStopStringBytes + 1, 'x') + "\"", "stop"},
      {R"("stop":"\udc00")", ""},
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
      {ChatOf(R"([{"role":"assistant","content":null,"tool_calls":[]}])"), "messages[0].content"},
      {ChatOf(R"([{"role":"user","content":"a"},{"role":"user","content":7}])"), "messages[1].content"},
      {ChatOf(R"([{"role":"user","content":{}}])"), "messages[0].content"},
      {ChatOf(R"([{"role":"user","content":["text"]}])"), "messages[0].content[0]"},
      {ChatOf(R"([{"role":"user","content":[{"text":"a"}]}])"), "messages[0].content[0].type"},
      {ChatOf(R"([{"role":"user","content":[{"type":"text"}]}])"), "messages[0].content[0].text"},
      {ChatOf(R"([{"role":"user","content":[{"type":"text","text":5}]}])"), "messages[0].content[0].text"},
      {ChatOf(R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{}}]}])"),
       "messages[0].content[1].type"},
      {ChatOf(R"([{"role":"user","content":"\ud83d"}])"), ""},
      {ChatOf(R"([{"role":"user","content":"\ude00"}])"), ""},
      {ChatOf(R"([{"role":"assistant","tool_calls":{}}])"), "messages[0].tool_calls"},
      {ChatOf(R"([{"role":"assistant","tool_calls":[{}]}])"), "messages[0].tool_calls[0].function"},
      {ChatOf(R"([{"role":"assistant","tool_calls":[{"function":{}}]}])"), "messages[0].tool_calls[0].function.name"},
      {ChatOf(R"([{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{"}}]}])"),
       "messages[0].tool_calls[0].function.arguments"},
      {ChatOf(R"([{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"[]"}}]}])"),
       "messages[0].tool_calls[0].function.arguments"},
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
      {ChatWith(R"("function_call":"auto")"), "function_call"},
      {ChatWith(R"("chat_template":"{{ 1 }}")"), "chat_template"},
      {ChatWith(R"("chat_template_kwargs":[])"), "chat_template_kwargs"},
      {ChatWith(R"("chat_template_kwargs":{"a":18446744073709551615})"), "chat_template_kwargs.a"},
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

// ---- what is accepted ----

struct FormCase {
  std::string members;
  wire::Constraint wanted;
};

TEST_F(ApiTest, FormsOfOutputBecomeConstraints) {
  using Kind = wire::ConstraintKind;
  const std::vector<FormCase> cases{
      {R"("response_format":{"type":"json_object"})", {Kind::kJson, "", "response_format"}},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"type":"null"}}})",
       {Kind::kJsonSchema, R"({"type":"null"})", "response_format.json_schema.schema"}},
      {R"("guided_json":{ "type" : "null" })", {Kind::kJsonSchema, R"({"type":"null"})", "guided_json"}},
      {R"("guided_json":"{\"type\": \"null\"}")", {Kind::kJsonSchema, R"({"type": "null"})", "guided_json"}},
      {R"("guided_regex":"[a-z]+")", {Kind::kRegex, "[a-z]+", "guided_regex"}},
      {R"("guided_choice":["yes", "no"])", {Kind::kChoice, R"(["yes","no"])", "guided_choice"}},
      {R"("guided_grammar":"root ::= \"a\"")", {Kind::kGrammar, R"(root ::= "a")", "guided_grammar"}},
      {R"("structured_outputs":{"regex":"a|b"})", {Kind::kRegex, "a|b", "structured_outputs.regex"}},
      {R"("structured_outputs":{"json_object":true})", {Kind::kJson, "", "structured_outputs.json_object"}},
  };
  for (const FormCase& each : cases) {
    Chat(ChatWith(each.members));
    ASSERT_FALSE(dispatcher_.specs.empty()) << each.members;
    EXPECT_EQ(dispatcher_.specs.back().constraint, each.wanted) << each.members;
  }
  Chat(ChatWith(R"("response_format":{"type":"text"})"));
  EXPECT_EQ(dispatcher_.specs.back().constraint, std::nullopt);
}

TEST_F(ApiTest, AcceptsNullsNeutralValuesAndUnknownFields) {
  Chat(ChatWith(R"("stop":null,"max_tokens":null,"temperature":null,"top_p":1,"n":1,"frequency_penalty":0,)"
                R"("presence_penalty":0.0,"repetition_penalty":1.0,"min_p":0,"min_tokens":0,"logit_bias":{},)"
                R"("logprobs":false,"top_logprobs":null,"response_format":{"type":"text"},"tool_choice":"none",)"
                R"("user":"u","metadata":{"a":[1]},"store":true,"service_tier":"auto","parallel_tool_calls":true,)"
                R"("prompt_cache_key":"k","reasoning_effort":"low","stream_options":null,"priority":3,)"
                R"("some_new_field":{"x":[{"y":null}]},"seed":-1,"top_k":-1,"use_beam_search":false)"));
  ASSERT_EQ(dispatcher_.specs.size(), 1U);
  EXPECT_EQ(dispatcher_.specs[0].sampling.seed, ~std::uint64_t{0});
  EXPECT_EQ(dispatcher_.specs[0].sampling.top_k, 0U);
  Complete(CompletionWith(R"("echo":false,"best_of":1,"logprobs":null,"suffix":null,"repetition_penalty":1.0)"));
  EXPECT_EQ(dispatcher_.specs.size(), 2U);
}

TEST_F(ApiTest, TheBoundsOfMaxTokensAreThoseOfAnAnswer) {
  const auto message = [&](const char* fields) { return At(Chat(ChatWith(fields))->response->body, "/error/message"); };
  EXPECT_EQ(message(R"("max_tokens":-3)"), R"("max_tokens: must be between 1 and 2147483647, not -3")");
  EXPECT_NE(message(R"("max_tokens":0)").find("must be at least 1"), std::string::npos);
  Complete(CompletionWith(R"("echo":true,"max_tokens":0)"));
  EXPECT_EQ(dispatcher_.specs.size(), 1U);
}

TEST_F(ApiTest, LastOfRepeatedFieldsCounts) {
  Complete(CompletionWith(R"("max_tokens":-1,"max_tokens":7)"));
  ASSERT_EQ(dispatcher_.specs.size(), 1U);
  EXPECT_EQ(dispatcher_.specs[0].max_output_tokens, 7U);
}

TEST_F(ApiTest, DefaultsAreTheModels) {
  Complete(R"({"model":"bytes","prompt":"hi"})");
  Complete(R"({"model":"bytes","prompt":"hi"})");
  ASSERT_EQ(dispatcher_.specs.size(), 2U);
  const GenerateSpec& spec = dispatcher_.specs[0];
  EXPECT_EQ(spec.max_output_tokens, 197U);  // 200 less <s>, h and i
  EXPECT_FLOAT_EQ(spec.sampling.temperature, 0.7F);
  EXPECT_FLOAT_EQ(spec.sampling.top_p, 0.9F);
  EXPECT_EQ(spec.sampling.top_k, 20U);
  EXPECT_FALSE(spec.ignore_eos);
  EXPECT_NE(spec.sampling.seed, dispatcher_.specs[1].sampling.seed);
}

TEST_F(ApiTest, TakesTheRequestsOwnSettings) {
  Complete(
      CompletionWith(R"("max_tokens":50,"max_completion_tokens":5.0,"temperature":0,"top_p":0.5,"top_k":3,"seed":42,)"
                     R"("stop_token_ids":[10,13],"ignore_eos":true,"min_tokens":5)"));
  ASSERT_EQ(dispatcher_.specs.size(), 1U);
  const GenerateSpec& spec = dispatcher_.specs[0];
  EXPECT_EQ(spec.max_output_tokens, 5U);
  EXPECT_FLOAT_EQ(spec.sampling.temperature, 0);
  EXPECT_FLOAT_EQ(spec.sampling.top_p, 0.5F);
  EXPECT_EQ(spec.sampling.top_k, 3U);
  EXPECT_EQ(spec.sampling.seed, 42U);
  EXPECT_EQ(spec.stop_tokens, (std::vector<TokenId>{10, 13}));
  EXPECT_TRUE(spec.ignore_eos);
  EXPECT_EQ(spec.min_output_tokens, 5U);
}

TEST_F(ApiTest, PenaltiesAndBiasGoAlong) {
  Complete(CompletionWith(R"("min_p":0.05,"repetition_penalty":1.2,"presence_penalty":-2,"frequency_penalty":0.5,)"
                          R"("logit_bias":{"100":5,"20":-100,"3":null})"));
  Complete(CompletionWith(R"("repetition_penalty":0.01)"));
  ASSERT_EQ(dispatcher_.specs.size(), 2U);
  const wire::Sampling& sampling = dispatcher_.specs[0].sampling;
  EXPECT_EQ(sampling.min_p, 0.05F);
  EXPECT_EQ(sampling.repetition_penalty, 1.2F);
  EXPECT_EQ(sampling.presence_penalty, -2);
  EXPECT_EQ(sampling.frequency_penalty, 0.5F);
  EXPECT_EQ(sampling.logit_bias, (std::vector<wire::LogitBias>{{20, -100}, {100, 5}}));
  EXPECT_EQ(dispatcher_.specs[1].sampling.repetition_penalty, wire::kMinRepetitionPenalty);
}

TEST_F(ApiTest, PenaltiesDefaultToTheModels) {
  ServedModel model = ByteModel();
  model.sampling.min_p = 0.1F;
  model.sampling.repetition_penalty = 1.05F;
  Serve(std::move(model));
  Complete(R"({"model":"bytes","prompt":"hi"})");
  Complete(CompletionWith(R"("min_p":0,"repetition_penalty":1)"));
  ASSERT_EQ(dispatcher_.specs.size(), 2U);
  EXPECT_EQ(dispatcher_.specs[0].sampling.min_p, 0.1F);
  EXPECT_EQ(dispatcher_.specs[0].sampling.repetition_penalty, 1.05F);
  EXPECT_FALSE(wire::NeedsFullSampling(dispatcher_.specs[1].sampling));
}

TEST_F(ApiTest, CacheAndQueueAreToldNothingByDefault) {
  Complete(CompletionWith(R"("cache":null,"session_id":null,"expect_return_ms":null,"priority":null)"));
  ASSERT_EQ(dispatcher_.specs.size(), 1U);
  const GenerateSpec& spec = dispatcher_.specs[0];
  EXPECT_EQ(spec.cache_mode, wire::CacheMode::kOn);
  EXPECT_EQ(spec.priority, 50U);
  EXPECT_FALSE(spec.retention.has_value());
  EXPECT_EQ(spec.session_hash, 0U);
  EXPECT_EQ(spec.expect_return_ms, 0U);
  EXPECT_EQ(spec.sample_count, 1U);
}

TEST_F(ApiTest, CacheAndQueueAreToldWhatTheRequestSays) {
  Chat(ChatWith(R"("cache":{"mode":"off","salt":"s","retention":{"priority":80,"duration_ms":60000,)"
                R"("decode_priority":20,"decode_duration_ms":5000}},"session_id":"c-17","expect_return_ms":30000,)"
                R"("priority":70,"n":4)"));
  Complete(CompletionWith(R"("cache":"off","cache_salt":"s","session_id":"c-17")"));
  Complete(
      CompletionWith(R"("cache":{"salt":"s","retention":{"duration_ms":7}},"cache_salt":"s","session_id":"c-18")"));
  ASSERT_EQ(dispatcher_.specs.size(), 3U);
  const GenerateSpec& spec = dispatcher_.specs[0];
  EXPECT_EQ(spec.cache_mode, wire::CacheMode::kOff);
  EXPECT_EQ(spec.priority, 70U);
  EXPECT_EQ(spec.retention, (wire::Retention{80, 60'000, 20, 5'000}));
  EXPECT_EQ(spec.expect_return_ms, 30'000U);
  EXPECT_EQ(spec.sample_count, 4U);
  EXPECT_EQ(dispatcher_.specs[1].cache_mode, wire::CacheMode::kOff);
  EXPECT_EQ(dispatcher_.specs[1].root, spec.root);
  EXPECT_EQ(dispatcher_.specs[2].retention, (wire::Retention{35, 7, 35, 0}));
  EXPECT_EQ(dispatcher_.specs[2].root, spec.root);
  EXPECT_NE(spec.session_hash, 0U);
  EXPECT_EQ(dispatcher_.specs[1].session_hash, spec.session_hash);
  EXPECT_NE(dispatcher_.specs[2].session_hash, spec.session_hash);
}

TEST_F(ApiTest, BestOfMayBeN) {
  Complete(CompletionWith(R"("n":3,"best_of":3)"));
  ASSERT_EQ(dispatcher_.specs.size(), 1U);
  EXPECT_EQ(dispatcher_.specs[0].sample_count, 3U);
}

TEST_F(ApiTest, EveryFormOfOnePromptIsTheSame) {
  Complete(R"({"model":"bytes","prompt":"hi"})");
  Complete(R"({"model":"bytes","prompt":["hi"]})");
  Complete(R"({"model":"bytes","prompt":[258,104,105]})");
  Complete(R"({"model":"bytes","prompt":[[258,104,105]]})");
  ASSERT_EQ(dispatcher_.specs.size(), 4U);
  for (const GenerateSpec& spec : dispatcher_.specs) EXPECT_EQ(spec.prompt, (std::vector<TokenId>{kBos, 'h', 'i'}));
}

std::vector<TokenId> Concatenate(std::initializer_list<std::vector<TokenId>> parts) {
  std::vector<TokenId> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

TEST_F(ApiTest, ChatIsRenderedOnceWithItsOwnSpecialTokens) {
  Chat(ChatOf(R"([{"role":"system","content":"S"},{"role":"user","content":[{"type":"text","text":"a"},)"
              R"({"type":"text","text":"b"}]}])"));
  ASSERT_EQ(dispatcher_.specs.size(), 1U);
  EXPECT_EQ(dispatcher_.specs[0].prompt, Concatenate({{kImStart},
                                                      Bytes("system\nS"),
                                                      {kImEnd},
                                                      Bytes("\n"),
                                                      {kImStart},
                                                      Bytes("user\nab"),
                                                      {kImEnd},
                                                      Bytes("\n"),
                                                      {kImStart},
                                                      Bytes("assistant\n")}));
}

TEST_F(ApiTest, ToolsCallsAndVariablesReachTheTemplate) {
  const std::string messages = R"([{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function",)"
                               R"("function":{"name":"weather","arguments":"{\"city\":\"Rome\"}"}}]},)"
                               R"({"role":"tool","tool_call_id":"1","content":"sun"}])";
  const std::string tools = R"("tools":[{"type":"function","function":{"name":"weather"}}])";
  Chat(fmt::format(R"({{"model":"bytes","messages":{},{},"chat_template_kwargs":{{"shout":"HEY","tools":5}},)"
                   R"("add_generation_prompt":false}})",
                   messages, tools));
  ASSERT_EQ(dispatcher_.specs.size(), 1U);
  EXPECT_EQ(dispatcher_.specs[0].prompt, Concatenate({{kImStart},
                                                      Bytes("assistant\nweather(Rome)"),
                                                      {kImEnd},
                                                      Bytes("\n"),
                                                      {kImStart},
                                                      Bytes("tool\nsun"),
                                                      {kImEnd},
                                                      Bytes("\ntools:weather\nHEY")}));
  Chat(
      fmt::format(R"({{"model":"bytes","messages":[{{"role":"user","content":""}}],{},"tool_choice":"none"}})", tools));
  ASSERT_EQ(dispatcher_.specs.size(), 2U);
  EXPECT_EQ(dispatcher_.specs[1].prompt,
            Concatenate({{kImStart}, Bytes("user\n"), {kImEnd}, Bytes("\n"), {kImStart}, Bytes("assistant\n")}));
}

TEST_F(ApiTest, HashesTheWholeBlocksUnderTheScopeOfTheRequest) {
  Complete(R"({"model":"bytes","prompt":[1,2,3,4,5,6,7,8,9],"cache_salt":"s"})");
  Complete(R"({"model":"bytes","prompt":[1,2,3,4,5,6,7,8,9]})");
  ASSERT_EQ(dispatcher_.specs.size(), 2U);
  const PrefixScope scope{"0123456789abcdef0123456789abcdef", "", "", "s", 4, "f32"};
  const GenerateSpec& salted = dispatcher_.specs[0];
  EXPECT_EQ(salted.root, RootHash(scope));
  ASSERT_EQ(salted.block_hashes.size(), 2U);
  EXPECT_EQ(salted.block_hashes[0], ChainHash(salted.root, std::vector<TokenId>{1, 2, 3, 4}));
  EXPECT_EQ(salted.block_hashes[1], ChainHash(salted.block_hashes[0], std::vector<TokenId>{5, 6, 7, 8}));
  EXPECT_NE(dispatcher_.specs[1].root, salted.root);
}

}  // namespace
}  // namespace roost::router
