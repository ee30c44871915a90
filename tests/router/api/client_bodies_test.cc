// Bodies that clients' libraries make: what they leave empty, leave out, or carry from another API or an older one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/router/api/api_fixture.h"

namespace roost::router {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

class ClientBodiesTest : public ApiTest {
 protected:
  ClientBodiesTest() {
    ServedModel model = ByteModel();
    model.max_context_tokens = 4000;
    model.chat_template = std::move(
        ChatTemplate::Parse("{% for m in messages %}[{{ m.role }}|{{ m.reasoning_content or '' }}|{{ m.content "
                            "or '' }}|{{ (m.tool_calls or []) | tojson }}|{{ m.tool_call_id or '' }}]{% endfor %}",
                            "shown")
            .value());
    Serve(std::move(model));
  }
  // The text that the model gets; or the error's field and message.
  std::string Told(std::string_view path, std::string body) {
    dispatcher_.specs.clear();
    const auto responder = Ask("POST", std::string(path), std::move(body));
    if (dispatcher_.specs.empty()) return "refused: " + responder->response->body;
    const GenerateSpec& spec = dispatcher_.specs.back();
    return spec.model->tokenizer->Decode(spec.generate.prompt, SpecialTokenOutput::kShow);
  }
  std::string ToldChat(std::string_view messages, std::string_view more = "") {
    return Told("/v1/chat/completions", fmt::format(R"({{"model":"bytes","messages":[{}]{}}})", messages, more));
  }
  std::string ToldMessage(std::string_view blocks) {
    return Told(
        "/v1/messages",
        fmt::format(R"({{"model":"bytes","max_tokens":4,"messages":[{{"role":"user","content":[{}]}}]}})", blocks));
  }
};

constexpr std::string_view kUser = R"({"role":"user","content":"q"})";

TEST_F(ClientBodiesTest, ToolsMaySayNothing) {
  for (const std::string_view content : {R"("content":null)", R"("content":"")", R"("content":[])", R"("name":"f")"}) {
    EXPECT_THAT(ToldChat(fmt::format(R"({},{{"role":"tool","tool_call_id":"c1",{}}})", kUser, content)),
                HasSubstr("[tool|||[]|c1]"))
        << content;
  }
  for (const std::string_view output : {R"("output":null)", R"("output":"")", R"("status":"completed")"}) {
    EXPECT_THAT(
        Told("/v1/responses",
             fmt::format(R"({{"model":"bytes","input":[{},{{"type":"function_call_output","call_id":"c1",{}}}]}})",
                         kUser, output)),
        HasSubstr("[tool|||[]|c1]"))
        << output;
  }
}

TEST_F(ClientBodiesTest, EmptyStopTextsEndNothing) {
  for (const std::string_view stop : {R"("")", "[]", R"(["","x",""])", "null"}) {
    EXPECT_THAT(ToldChat(kUser, fmt::format(R"(,"stop":{})", stop)), HasSubstr("[user")) << stop;
  }
}

TEST_F(ClientBodiesTest, PartsMayBeTextsOrHaveTheNamesOfAnotherApi) {
  EXPECT_THAT(
      ToldChat(R"({"role":"user","content":["a",{"type":"input_text","text":"b"},{"type":"text","text":"c"}]})"),
      HasSubstr("[user||a\nb\nc|"));
  const std::string thought = ToldChat(
      fmt::format(R"({},{{"role":"assistant","content":[{{"type":"thinking","thinking":"hm","signature":"s"}},)"
                  R"({{"type":"redacted_thinking","data":"x"}},{{"type":"output_text","text":"a"}}]}})",
                  kUser));
  EXPECT_THAT(thought, HasSubstr("[assistant|hm|a|"));
  EXPECT_THAT(ToldChat(R"({"role":"user","content":[{"type":"thinking","thinking":"hm"}]})"),
              HasSubstr("messages[0].content[0].type"));
  EXPECT_THAT(
      ToldChat(R"({"role":"user","content":[{"type":"input_audio","input_audio":{"data":"","format":"wav"}}]})"),
      HasSubstr("messages[0].content[0].type"));
}

TEST_F(ClientBodiesTest, CallsOfTheOlderFormAreCalls) {
  const std::string told = ToldChat(fmt::format(
      R"({},{{"role":"assistant","content":null,"function_call":{{"name":"f","arguments":"{{\"a\":1}}"}}}},)"
      R"({{"role":"function","name":"f","content":"r"}})",
      kUser));
  EXPECT_THAT(told, HasSubstr(R"("function": {"name": "f", "arguments": {"a": 1}})"));
  EXPECT_THAT(told, HasSubstr("[tool||r|[]|function_call]"));
  EXPECT_THAT(ToldChat(kUser, R"(,"functions":[],"function_call":"auto")"), HasSubstr("[user"));
  EXPECT_THAT(ToldChat(kUser, R"(,"function_call":{"name":"f"})"), HasSubstr("function_call"));
}

TEST_F(ClientBodiesTest, WhatWouldNotBeHeldToIsRefusedByName) {
  for (const std::string_view field :
       {R"("bad_words":["x"])", R"("allowed_token_ids":[1])", R"("logits_processors":["x"])",
        R"("truncate_prompt_tokens":0)", R"("modalities":["text","audio"])", R"("best_of":2)",
        R"("audio":{"voice":"a"})", R"("web_search_options":{})"}) {
    const std::string name(field.substr(1, field.find('"', 1) - 1));
    EXPECT_THAT(ToldChat(kUser, "," + std::string(field)), HasSubstr(fmt::format(R"("param":"{}")", name)));
  }
  EXPECT_THAT(ToldChat(kUser, R"(,"bad_words":[],"allowed_token_ids":null,"modalities":["text"],"best_of":1)"),
              HasSubstr("[user"));
}

TEST_F(ClientBodiesTest, FormsThatStandWhereNobodyReadsThemAreRefused) {
  const std::string_view form = R"("extra_body":{"guided_regex":"[0-9]"})";
  for (const std::string_view path : {"/v1/chat/completions", "/v1/responses", "/v1/messages"}) {
    const std::string_view limit = path == "/v1/messages" ? R"("max_tokens":4,)" : "";
    EXPECT_THAT(Told(path, fmt::format(R"({{"model":"bytes",{}"messages":[{}],"input":"q",{}}})", limit, kUser, form)),
                HasSubstr("extra_body"))
        << path;
  }
  EXPECT_THAT(ToldChat(kUser, R"(,"extra_body":{},"nvext":{"ignore_eos":true,"guided_json":null})"),
              HasSubstr("[user"));
  for (const std::string_view path : {"/v1/chat/completions", "/v1/responses", "/v1/messages"}) {
    const std::string_view limit = path == "/v1/messages" ? R"("max_tokens":4,)" : "";
    for (const std::string_view other :
         {R"("nvext":{"guided_regex":"[0-9]"})", R"("guided_decoding":{"regex":"[0-9]"})",
          R"("guided_options":{"regex":"[0-9]"})"}) {
      const std::string name(other.substr(1, other.find('"', 1) - 1));
      EXPECT_THAT(
          Told(path, fmt::format(R"({{"model":"bytes",{}"messages":[{}],"input":"q",{}}})", limit, kUser, other)),
          HasSubstr(name))
          << path;
    }
  }
  EXPECT_THAT(Told("/v1/responses", R"({"model":"bytes","input":"q","include":["message.output_text.logprobs"]})"),
              HasSubstr("include[0]"));
  EXPECT_THAT(Told("/v1/responses", R"({"model":"bytes","input":"q","top_logprobs":2})"), HasSubstr("top_logprobs"));
  EXPECT_THAT(Told("/v1/responses", R"({"model":"bytes","input":"q","top_logprobs":0,"include":["other"]})"),
              HasSubstr("[user"));
}

TEST_F(ClientBodiesTest, TemplatesHaveNamesAndVariables) {
  ServedModel model = ByteModel();
  model.max_context_tokens = 4000;
  model.chat_template =
      std::move(ChatTemplate::Parse(
                    fmt::format("{{% if {}'rag' %}}{{{{ documents | tojson }}}}{{% elif chat_template is defined %}}"
                                "{{{{ raise_exception('{}, there are: rag') }}}}{{% else %}}-{{% endif %}}",
                                kTemplateNameTest, kUnknownTemplateName),
                    "named")
                    .value());
  Serve(std::move(model));
  EXPECT_THAT(ToldChat(kUser, R"(,"chat_template_kwargs":{"chat_template":"rag","documents":[{"text":"t"}]})"),
              HasSubstr(R"([{"text": "t"}])"));
  EXPECT_THAT(ToldChat(kUser, R"(,"chat_template_kwargs":{"chat_template":"rag","documents":[{"text":"t"}]},)"
                              R"("documents":[{"text":"beside"}])"),
              HasSubstr(R"([{"text": "beside"}])"));
  const std::string unknown = ToldChat(kUser, R"(,"chat_template_kwargs":{"chat_template":"rga"})");
  EXPECT_THAT(unknown, HasSubstr(R"("param":"chat_template_kwargs.chat_template")"));
  EXPECT_THAT(unknown, HasSubstr("chat_template_kwargs.chat_template: no chat template has this name, there are: rag"));
}

TEST_F(ClientBodiesTest, LimitsOfOtherApisAreKeptOrRefused) {
  const auto told = [this](std::string_view path, std::string_view field) {
    return Told(path, fmt::format(R"({{"model":"bytes","messages":[{}],"input":"q",{}}})", kUser, field));
  };
  EXPECT_THAT(told("/v1/responses", R"("n":2)"), HasSubstr(R"("param":"n")"));
  for (const std::string_view field : {R"("max_tokens":4)", R"("max_completion_tokens":4)"}) {
    EXPECT_THAT(told("/v1/responses", field), HasSubstr(R"("param":"max_output_tokens")"));
  }
  for (const std::string_view field :
       {R"("stop":["x"])", R"("max_completion_tokens":4)", R"("n":2)", R"("bad_words":["x"])"}) {
    EXPECT_THAT(told("/v1/messages", fmt::format(R"("max_tokens":4,{})", field)),
                HasSubstr(std::string(field.substr(1, field.find('"', 1) - 1))));
  }
  for (const std::string_view path : {"/v1/messages", "/v1/responses"}) {
    const std::string_view limit = path == "/v1/messages" ? R"("max_tokens":9)" : R"("max_output_tokens":9)";
    told(path, fmt::format(R"({},"presence_penalty":1.5,"logit_bias":{{"65":-100}},"min_tokens":2,"n":1)", limit));
    ASSERT_EQ(dispatcher_.specs.size(), 1U) << path;
    const GenerateSpec& spec = dispatcher_.specs[0];
    EXPECT_EQ(spec.generate.sampling.presence_penalty, 1.5F);
    ASSERT_EQ(spec.generate.sampling.logit_bias.size(), 1U);
    EXPECT_EQ(spec.generate.min_output_tokens, 2U);
  }
}

TEST_F(ClientBodiesTest, OptionsOfAFormThatAreOffAskForNothing) {
  const auto outputs = [this](std::string_view option) {
    return ToldChat(kUser, fmt::format(R"(,"structured_outputs":{{"regex":"[0-9]","json":null,{}}})", option));
  };
  EXPECT_THAT(outputs(R"("disable_any_whitespace":false,"whitespace_pattern":null)"), HasSubstr("[user"));
  EXPECT_THAT(outputs(R"("disable_any_whitespace":true)"), HasSubstr("structured_outputs.disable_any_whitespace"));
  EXPECT_THAT(outputs(R"("whitespace_pattern":"x")"), HasSubstr("structured_outputs.whitespace_pattern"));
}

TEST_F(ClientBodiesTest, AnAssistantsLastMessageBeginsTheAnswerWhereItsApiSaysSo) {
  const auto message = [this](std::string_view last) {
    return Told("/v1/messages", fmt::format(R"({{"model":"bytes","max_tokens":4,"messages":[{},{}]}})", kUser, last));
  };
  EXPECT_THAT(message(R"({"role":"assistant","content":"{\"a\":"})"), EndsWith(R"([assistant||{"a":)"));
  EXPECT_THAT(message(R"({"role":"assistant","content":[{"type":"text","text":"Dear"}]})"),
              EndsWith("[assistant||Dear"));
  EXPECT_THAT(message(R"({"role":"assistant","content":"  "})"), EndsWith("]"));
  EXPECT_THAT(message(R"({"role":"assistant","content":"a"},{"role":"user","content":"b"})"), EndsWith("]"));
  for (const std::string_view mark : {"prefix", "partial"}) {
    EXPECT_THAT(ToldChat(fmt::format(R"({},{{"role":"assistant","content":"Dear","{}":true}})", kUser, mark)),
                EndsWith("[assistant||Dear"));
    EXPECT_THAT(ToldChat(fmt::format(R"({},{{"role":"assistant","content":"Dear","{}":false}})", kUser, mark)),
                EndsWith("]"));
  }
}

TEST_F(ClientBodiesTest, InstructionsThatSayNothingAreNoMessage) {
  EXPECT_EQ(Told("/v1/responses", R"({"model":"bytes","input":"q","instructions":""})"), "[user||q|[]|]");
  for (const std::string_view system : {R"("")", "[]", R"([{"type":"text","text":""}])"}) {
    EXPECT_EQ(Told("/v1/messages",
                   fmt::format(R"({{"model":"bytes","max_tokens":4,"messages":[{}],"system":{}}})", kUser, system)),
              "[user||q|[]|]");
  }
}

TEST_F(ClientBodiesTest, CallsOfAnInputMayHaveAnObjectForArguments) {
  for (const std::string_view arguments : {R"(,"arguments":{"a":1})", R"(,"arguments":"{\"a\":1}")"}) {
    EXPECT_THAT(
        Told("/v1/responses", fmt::format(R"({{"model":"bytes","input":[{},{{"type":"function_call","call_id":"c",)"
                                          R"("name":"f"{}}}]}})",
                                          kUser, arguments)),
        HasSubstr(R"("arguments": {"a": 1})"));
  }
}

TEST_F(ClientBodiesTest, AToolWithoutATypeIsAFunction) {
  EXPECT_THAT(ToldChat(kUser, R"(,"tools":[{"function":{"name":"f"}}],"tool_choice":{"function":{"name":"f"}})"),
              HasSubstr("tool_choice.type"));
  EXPECT_THAT(ToldChat(kUser, R"(,"tools":[{"function":{"name":"f"}}])"), HasSubstr("[user"));
}

// Programs that cut texts by UTF-16 units leave halves of characters.
TEST_F(ClientBodiesTest, HalvesOfCharactersAreReplaced) {
  EXPECT_THAT(ToldChat(R"({"role":"user","content":"a\ud83d"})"), HasSubstr("a\uFFFD|"));
  EXPECT_THAT(ToldChat(R"({"role":"user","content":"\uDE00b\\ud83d\ud83d\ude00"})"), HasSubstr("\uFFFD"
                                                                                               "b\\ud83d\U0001F600|"));
  EXPECT_THAT(ToldChat(R"({"role":"user","content":"\ud83d\ud83d\ude00\ud83"})"), HasSubstr("not valid JSON"));
}

TEST_F(ClientBodiesTest, TextsOfDocumentsAndSearchesAreRead) {
  EXPECT_THAT(ToldMessage(R"({"type":"document","title":"T","context":"C","source":{"type":"text","media_type":)"
                          R"("text/plain","data":"D"},"citations":{"enabled":false}},{"type":"text","text":"q"})"),
              HasSubstr("[user||T\nC\nD\nq|"));
  EXPECT_THAT(ToldMessage(R"({"type":"document","source":{"type":"content","content":[{"type":"text","text":"D"}]}})"),
              HasSubstr("[user||D|"));
  EXPECT_THAT(
      ToldMessage(R"({"type":"search_result","title":"T","source":"S","content":[{"type":"text","text":"D"}]})"),
      HasSubstr("[user||T\nS\nD|"));
  EXPECT_THAT(
      ToldMessage(R"({"type":"tool_result","tool_use_id":"t1","content":[{"type":"tool_reference","tool_name":"f"},)"
                  R"({"type":"search_result","source":"S","title":"T","content":"D"}]})"),
      HasSubstr("[tool||f\nT\nS\nD|[]|t1]"));
}

TEST_F(ClientBodiesTest, FilesAndCitationsAreRefusedByName) {
  EXPECT_THAT(ToldMessage(R"({"type":"document","source":{"type":"base64","media_type":"application/pdf","data":""}})"),
              HasSubstr("messages[0].content[0].source.type"));
  EXPECT_THAT(
      ToldMessage(R"({"type":"search_result","source":"S","title":"T","content":[],"citations":{"enabled":true}})"),
      HasSubstr("messages[0].content[0].citations.enabled"));
  EXPECT_THAT(ToldMessage(R"({"type":"image","source":{"type":"url","url":"x"}})"),
              HasSubstr("messages[0].content[0].type"));
  EXPECT_THAT(Told("/v1/messages", R"({"model":"bytes","max_tokens":4,"messages":[{"role":"user","content":"q"}],)"
                                   R"("mcp_servers":[{"type":"url"}]})"),
              HasSubstr("mcp_servers"));
}

// ---- numbers and depth ----

TEST_F(ClientBodiesTest, JsonOfAnySizeAndDepthReachesTheModelAsItIs) {
  const std::string deep = std::string(500, '[') + "1" + std::string(500, ']');
  for (const std::string& value : {std::string("18446744073709551616"), std::string("-9223372036854775809"),
                                   std::string("0.12345678901234567891"), std::string("1e400"), deep}) {
    const std::string shown = fmt::format(R"({{"x": {}}})", value);
    EXPECT_THAT(ToldChat(fmt::format(R"({},{{"role":"assistant","content":null,"tool_calls":[{{"id":"c","function":)"
                                     R"({{"name":"f","arguments":"{{\"x\": {}}}"}}}}]}})",
                                     kUser, value)),
                HasSubstr(shown));
    EXPECT_THAT(Told("/v1/messages",
                     fmt::format(R"({{"model":"bytes","max_tokens":4,"messages":[{},{{"role":"assistant","content":[)"
                                 R"({{"type":"tool_use","id":"t","name":"f","input":{{"x":{}}}}}]}},{{"role":"user",)"
                                 R"("content":[{{"type":"tool_result","tool_use_id":"t","content":"r"}}]}}]}})",
                                 kUser, value)),
                HasSubstr(shown));
  }
}

// ---- what requests are taken ----

TEST_F(ClientBodiesTest, AByteOrderMarkIsNoPartOfTheBody) {
  EXPECT_THAT(Told("/v1/chat/completions",
                   "\xEF\xBB\xBF"
                   R"({"model":"bytes","messages":[{"role":"user","content":"q"}]})"),
              HasSubstr("[user||q"));
}

TEST_F(ClientBodiesTest, TruncationKeepsTheLastTokens) {
  constexpr std::string_view kPrompt = R"("model":"bytes","prompt":"0123456789")";
  const auto kept = [&](std::string_view more) {
    return Told("/v1/completions", fmt::format("{{{},{}}}", kPrompt, more));
  };
  EXPECT_THAT(kept(R"("truncate_prompt_tokens":4)"), EndsWith("6789"));
  EXPECT_EQ(kept(R"("truncate_prompt_tokens":4)").size(), 4U);
  EXPECT_EQ(kept(R"("truncate_prompt_tokens":400)"), kept(R"("truncate_prompt_tokens":-1)"));
  EXPECT_EQ(kept(R"("truncate_prompt_tokens":-1,"max_tokens":3994)"), "456789");
  EXPECT_THAT(kept(R"("truncate_prompt_tokens":-2)"), HasSubstr("truncate_prompt_tokens"));
  EXPECT_EQ(ToldChat(kUser, R"(,"truncate_prompt_tokens":3)").size(), 3U);
  const auto tokenized = Ask("POST", "/tokenize", fmt::format(R"({{{},"truncate_prompt_tokens":2}})", kPrompt));
  EXPECT_THAT(tokenized->response->body, HasSubstr(R"("count":2,)"));
  EXPECT_THAT(tokenized->response->body, HasSubstr(R"("tokens":[56,57])"));
}

TEST_F(ClientBodiesTest, AStopTextCountsBehindTheLeastTokens) {
  const auto responder =
      Ask("POST", "/v1/completions", R"({"model":"bytes","prompt":"q","max_tokens":9,"min_tokens":4,"stop":["b"]})");
  dispatcher_.Dispatch(0);
  for (const char* piece : {"a", "b", "b", "b", "c", "b"}) dispatcher_.Produce(Bytes(piece));
  EXPECT_THAT(responder->response->body, HasSubstr(R"("text":"abbbc")"));
}

}  // namespace
}  // namespace roost::router
