// The Responses API and Anthropic's Messages API, which are translated to chats; /tokenize; the API document.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "router/api/requests/chat_translation.h"
#include "tests/router/api/api_fixture.h"

namespace roost::router {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using wire::FinishReason;

std::string TextOf(const GenerateSpec& spec) {
  return spec.model->tokenizer->Decode(spec.generate.prompt, SpecialTokenOutput::kShow);
}

class TranslationsTest : public ApiTest {
 protected:
  std::shared_ptr<FakeResponder> Message(std::string body) { return Ask("POST", "/v1/messages", std::move(body)); }
  std::shared_ptr<FakeResponder> Respond(std::string body) { return Ask("POST", "/v1/responses", std::move(body)); }
  void AnswerWith(std::string_view text, FinishReason reason = FinishReason::kStop) {
    dispatcher_.Dispatch(0);
    dispatcher_.Produce(Bytes(text), 4);
    dispatcher_.Finish(reason);
  }
  // The events of a stream: "name data".
  static std::vector<std::pair<std::string, std::string>> NamedEvents(const FakeResponder& responder) {
    std::vector<std::pair<std::string, std::string>> events;
    std::string_view rest = responder.frames;
    while (!rest.empty()) {
      const std::size_t end = rest.find("\n\n");
      const std::string_view frame = rest.substr(0, end);
      const std::size_t line = frame.find('\n');
      EXPECT_EQ(frame.substr(0, 7), "event: ");
      EXPECT_EQ(frame.substr(line + 1, 6), "data: ");
      events.emplace_back(frame.substr(7, line - 7), frame.substr(line + 7));
      rest.remove_prefix(end + 2);
    }
    return events;
  }
  static std::vector<std::string> NamesOf(const std::vector<std::pair<std::string, std::string>>& events) {
    std::vector<std::string> names;
    for (const auto& event : events) names.push_back(event.first);
    return names;
  }
};

// ---- Messages ----

TEST_F(TranslationsTest, AMessageIsAskedForAsAChat) {
  const auto responder = Message(
      R"({"model":"bytes","max_tokens":9,"system":[{"type":"text","text":"be"},{"type":"text","text":"kind"}],)"
      R"("messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"text","text":"yes"}]},)"
      R"({"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}],)"
      R"("temperature":0,"top_k":3,"stop_sequences":["END"],"metadata":{"user_id":"u"},"session_id":"s"})");
  ASSERT_EQ(dispatcher_.specs.size(), 1U);
  EXPECT_EQ(TextOf(dispatcher_.specs[0]),
            "<|im_start|>system\nbe\nkind<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nyes"
            "<|im_end|>\n<|im_start|>user\na\nb<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(dispatcher_.specs[0].generate.max_output_tokens, 9U);
  EXPECT_EQ(dispatcher_.specs[0].generate.sampling.top_k, 3U);
  EXPECT_NE(dispatcher_.specs[0].generate.session_hash, 0U);
  AnswerWith("fine END more");
  const std::string& body = responder->response->body;
  EXPECT_THAT(At(body, "/id"), HasSubstr("msg_"));
  EXPECT_EQ(At(body, "/type"), R"("message")");
  EXPECT_EQ(At(body, "/content"), R"([{"type":"text","text":"fine "}])");
  EXPECT_EQ(At(body, "/stop_reason"), R"("stop_sequence")");
  EXPECT_EQ(At(body, "/stop_sequence"), R"("END")");
  EXPECT_EQ(At(body, "/usage/cache_read_input_tokens"), "4");
  const std::size_t prompt = dispatcher_.specs[0].generate.prompt.size();
  EXPECT_EQ(At(body, "/usage/input_tokens"), fmt::to_string(prompt - 4));
}

TEST_F(TranslationsTest, AMessagesStreamHasNamedEventsAndBlocks) {
  const auto responder =
      Message(R"({"model":"bytes","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"hi"}]})");
  dispatcher_.Dispatch(0);
  dispatcher_.Produce(Bytes("one"), 4);
  dispatcher_.Produce(Bytes(" two"));
  dispatcher_.Finish(FinishReason::kLength);
  const auto events = NamedEvents(*responder);
  EXPECT_THAT(NamesOf(events),
              ElementsAre("message_start", "content_block_start", "content_block_delta", "content_block_delta",
                          "content_block_stop", "message_delta", "message_stop"));
  for (const auto& [name, data] : events) EXPECT_EQ(At(data, "/type"), '"' + name + '"');
  EXPECT_EQ(At(events[0].second, "/message/content"), "[]");
  EXPECT_EQ(At(events[1].second, "/content_block"), R"({"type":"text","text":""})");
  EXPECT_EQ(At(events[3].second, "/delta"), R"({"type":"text_delta","text":" two"})");
  EXPECT_EQ(At(events[5].second, "/delta/stop_reason"), R"("max_tokens")");
  EXPECT_EQ(At(events[5].second, "/usage/output_tokens"), "7");
  EXPECT_TRUE(responder->ended);
}

TEST_F(TranslationsTest, ToolsOfAConversationBecomeCallsAndTheirResults) {
  const auto chat = [](std::string body) {
    JsonBody json(std::move(body));
    const Result<JsonObject> object = json.Parse();
    Result<Translation> translation = ChatOfMessages(object.value());
    EXPECT_TRUE(translation.ok()) << translation.error().ToString();
    return std::move(translation).value().chat;
  };
  const std::string text =
      chat(R"({"model":"m","max_tokens":5,"thinking":{"type":"enabled","budget_tokens":1024},)"
           R"("tools":[{"name":"f","description":"d","input_schema":{"type":"object"}}],)"
           R"("tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true},"messages":[)"
           R"({"role":"user","content":"q"},)"
           R"({"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"x"},)"
           R"({"type":"text","text":"I look"},{"type":"tool_use","id":"t1","name":"f","input":{"a":1}},)"
           R"({"type":"tool_use","id":"t2","name":"f","input":{}}]},)"
           R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"one"},)"
           R"({"type":"tool_result","tool_use_id":"t2","content":[{"type":"text","text":"two"}],"is_error":true},)"
           R"({"type":"text","text":"and?"}]}]})");
  EXPECT_EQ(At(text, "/messages/1"), R"({"role":"assistant","content":"I look","reasoning_content":"hm","tool_calls":[)"
                                     R"({"id":"t1","type":"function","function":{"name":"f","arguments":{"a":1}}},)"
                                     R"({"id":"t2","type":"function","function":{"name":"f","arguments":{}}}]})");
  EXPECT_EQ(At(text, "/messages/2"), R"({"role":"tool","tool_call_id":"t1","content":"one"})");
  EXPECT_EQ(At(text, "/messages/3"), R"({"role":"tool","tool_call_id":"t2","content":"two"})");
  EXPECT_EQ(At(text, "/messages/4"), R"({"role":"user","content":"and?"})");
  EXPECT_EQ(At(text, "/tools/0"),
            R"({"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}})");
  EXPECT_EQ(At(text, "/tool_choice"), R"({"type":"function","function":{"name":"f"}})");
  EXPECT_EQ(At(text, "/parallel_tool_calls"), "false");
  EXPECT_EQ(At(text, "/chat_template_kwargs/enable_thinking"), "true");
}

TEST_F(TranslationsTest, MessagesErrorsHaveTheirOwnFormAndNameTheField) {
  const auto refused = [this](std::string body) {
    const auto responder = Message(std::move(body));
    EXPECT_EQ(At(responder->response->body, "/type"), R"("error")");
    EXPECT_EQ(At(responder->response->body, "/error/type"), R"("invalid_request_error")");
    return At(responder->response->body, "/error/message");
  };
  EXPECT_THAT(refused(R"({"model":"bytes","messages":[{"role":"user","content":"hi"}]})"), HasSubstr("max_tokens"));
  EXPECT_THAT(refused(R"({"model":"bytes","max_tokens":5})"), HasSubstr("messages"));
  EXPECT_THAT(refused(R"({"model":"bytes","max_tokens":5,"messages":[{"role":"developer","content":"x"}]})"),
              HasSubstr("messages[0].role"));
  EXPECT_THAT(refused(R"({"model":"bytes","max_tokens":5,"messages":[{"role":"user","content":[{"type":"image"}]}]})"),
              HasSubstr("messages[0].content[0].type"));
  EXPECT_THAT(refused(R"({"model":"bytes","max_tokens":5,"stop_sequences":[7],)"
                      R"("messages":[{"role":"user","content":"x"}]})"),
              HasSubstr("stop_sequences[0]"));
  EXPECT_THAT(refused("{"), HasSubstr("JSON"));
  const auto unknown = Message(R"({"model":"other","max_tokens":5,"messages":[{"role":"user","content":"x"}]})");
  EXPECT_EQ(unknown->response->status, 404);
  EXPECT_EQ(At(unknown->response->body, "/error/type"), R"("not_found_error")");
}

TEST_F(TranslationsTest, AFailureInMidMessageIsAnErrorEvent) {
  const auto responder =
      Message(R"({"model":"bytes","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"hi"}]})");
  dispatcher_.Dispatch(0);
  dispatcher_.Produce(Bytes("one"), 4);
  dispatcher_.Finish(FinishReason::kError, Error{ErrorCode::kUnavailable, "the worker was lost", ""});
  const auto events = NamedEvents(*responder);
  EXPECT_EQ(events.back().first, "error");
  EXPECT_EQ(At(events.back().second, "/error/type"), R"("overloaded_error")");
}

TEST_F(TranslationsTest, AFormOfTheOutputIsEnforcedOnEveryRoute) {
  using Kind = wire::ConstraintKind;
  const std::string message = R"({"model":"bytes","max_tokens":9,"messages":[{"role":"user","content":"hi"}],)";
  const std::string response = R"({"model":"bytes","input":"hi",)";
  const auto constraint = [&](const std::string& body, bool is_message) {
    is_message ? Message(message + body) : Respond(response + body);
    EXPECT_FALSE(dispatcher_.specs.empty()) << body;
    return dispatcher_.specs.empty() ? std::nullopt : dispatcher_.specs.back().generate.constraint;
  };
  const wire::Constraint schema{
      .kind = Kind::kJsonSchema, .text = R"({"type":"null"})", .field = "response_format.schema"};
  EXPECT_EQ(
      constraint(R"("output_config":{"format":{"type":"json_schema","schema":{"type":"null"}},"effort":"low"}})", true),
      schema);
  EXPECT_EQ(constraint(R"("output_format":{"type":"json_schema","schema":{"type":"null"}}})", true), schema);
  EXPECT_EQ(constraint(R"("text":{"format":{"type":"json_object","schema":{"type":"null"}}}})", false), schema);
  for (const bool is_message : {true, false}) {
    EXPECT_EQ(constraint(R"("guided_regex":"a"})", is_message)->kind, Kind::kRegex);
    EXPECT_EQ(constraint(R"("guided_choice":["a"]})", is_message)->kind, Kind::kChoice);
    EXPECT_EQ(constraint(R"("guided_grammar":"root ::= [a]"})", is_message)->kind, Kind::kGrammar);
    EXPECT_EQ(constraint(R"("guided_json":{}})", is_message)->kind, Kind::kJsonSchema);
    EXPECT_EQ(constraint(R"("format":"json"})", is_message)->kind, Kind::kJson);
    EXPECT_EQ(constraint(R"("format":{}})", is_message)->kind, Kind::kJsonSchema);
    EXPECT_EQ(constraint(R"("structured_outputs":{"regex":"a"}})", is_message)->kind, Kind::kRegex);
  }
  EXPECT_EQ(constraint(R"("output_config":{"effort":"low"}})", true), std::nullopt);
  const std::size_t taken = dispatcher_.specs.size();
  EXPECT_THAT(
      Message(message + R"("output_config":{"format":{"type":"json_schema","schema":{"not":{}}}}})")->response->body,
      HasSubstr("output_config.format.schema"));
  EXPECT_THAT(Message(message + R"("output_config":{"format":{"type":"xml"}}})")->response->body,
              HasSubstr("output_config.format.type"));
  EXPECT_THAT(Message(message + R"("response_format":{"type":"json_object"}})")->response->body,
              HasSubstr("response_format"));
  EXPECT_EQ(Respond(response + R"("response_format":{"type":"json_object"}})")->response->status, 400);
  EXPECT_EQ(dispatcher_.specs.size(), taken);
}

TEST_F(TranslationsTest, CountsTheTokensOfAMessage) {
  const auto responder =
      Ask("POST", "/v1/messages/count_tokens", R"({"model":"bytes","messages":[{"role":"user","content":"hi"}]})");
  EXPECT_EQ(responder->response->body, R"({"input_tokens":21})");
  EXPECT_TRUE(dispatcher_.specs.empty());
}

TEST_F(TranslationsTest, AnUnknownPathOfTheMessagesApiAnswersInItsForm) {
  const auto nowhere = Ask("POST", "/v1/messages/batches", "{}");
  EXPECT_EQ(nowhere->response->status, 404);
  EXPECT_EQ(At(nowhere->response->body, "/error/type"), R"("not_found_error")");
  const auto wrong = Ask("GET", "/v1/messages");
  EXPECT_EQ(wrong->response->status, 405);
  EXPECT_EQ(At(wrong->response->body, "/type"), R"("error")");
  EXPECT_EQ(HeaderOf(wrong->response->headers, "Allow"), "POST, OPTIONS");
}

TEST_F(TranslationsTest, ASystemMessageOfAConversationKeepsItsPlace) {
  constexpr std::string_view kBody =
      R"({"model":"bytes",MORE"system":"be kind","messages":[{"role":"user","content":"hi"},)"
      R"({"role":"system","content":[{"type":"text","text":"no servers"}]},{"role":"user","content":"describe"}]})";
  const auto body = [&](std::string_view more) {
    std::string text(kBody);
    return text.replace(text.find("MORE"), 4, more);
  };
  Message(body(R"("max_tokens":5,)"));
  ASSERT_EQ(dispatcher_.specs.size(), 1U);
  EXPECT_EQ(TextOf(dispatcher_.specs[0]),
            "<|im_start|>system\nbe kind<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>system\nno servers"
            "<|im_end|>\n<|im_start|>user\ndescribe<|im_end|>\n<|im_start|>assistant\n");
  const auto count = Ask("POST", "/v1/messages/count_tokens", body(""));
  EXPECT_EQ(At(count->response->body, "/input_tokens"), fmt::to_string(dispatcher_.specs[0].generate.prompt.size()));
}

TEST_F(TranslationsTest, ALineForAnthropicsAccountsIsNoPartOfThePrompt) {
  const auto prompt_of = [this](std::string_view system, std::string_view hash) {
    dispatcher_.specs.clear();
    std::string body = fmt::format(
        R"({{"model":"bytes","max_tokens":5,"system":{},"messages":[{{"role":"user","content":"hi"}},)"
        R"({{"role":"system","content":[{{"type":"text","text":"x-anthropic-billing-header: cch=HASH;"}}]}},)"
        R"({{"role":"system","content":[]}}]}})",
        system);
    for (std::size_t at = body.find("HASH"); at != std::string::npos; at = body.find("HASH")) body.replace(at, 4, hash);
    Message(std::move(body));
    return dispatcher_.specs.empty() ? "refused" : TextOf(dispatcher_.specs[0]);
  };
  constexpr std::string_view kExpected =
      "<|im_start|>system\nbe kind<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n";
  constexpr std::string_view kBlocks =
      R"([{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1.154.a; cch=HASH;"},)"
      R"({"type":"text","text":"be kind"}])";
  EXPECT_EQ(prompt_of(kBlocks, "ea6aa"), kExpected);
  EXPECT_EQ(prompt_of(kBlocks, "4e20a"), kExpected);
  EXPECT_EQ(prompt_of(R"("x-anthropic-billing-header: cch=HASH;\nbe kind")", "4e20a"), kExpected);
}

TEST_F(TranslationsTest, ALeadingSystemMessageJoinsTheSystemField) {
  Message(R"({"model":"bytes","max_tokens":5,"system":"be kind","messages":[{"role":"system","content":"be brief"},)"
          R"({"role":"user","content":"hi"}]})");
  ASSERT_EQ(dispatcher_.specs.size(), 1U);
  EXPECT_THAT(TextOf(dispatcher_.specs[0]), HasSubstr("<|im_start|>system\nbe kind\n\nbe brief<|im_end|>"));
}

TEST_F(TranslationsTest, AToolsInputMayBeATextThatWasCutOff) {
  JsonBody json(R"({"model":"m","max_tokens":5,"messages":[{"role":"assistant","content":[)"
                R"({"type":"tool_use","id":"t","name":"f","input":"{\"a\": "}]}]})");
  const std::string chat = ChatOfMessages(json.Parse().value()).value().chat;
  EXPECT_EQ(At(chat, "/messages/0/tool_calls/0/function/arguments"), R"("{\"a\": ")");
}

TEST_F(TranslationsTest, ManyBlocksJoinInLinearTime) {
  std::string blocks;
  constexpr std::size_t kCount = 100'000;
  for (std::size_t i = 0; i < kCount; ++i) blocks += R"({"type":"text","text":"0123456789"},)";
  blocks.pop_back();
  // Copying the text so far for each block would copy 55 GB.
  JsonBody json(R"({"model":"m","max_tokens":5,"messages":[{"role":"user","content":[)" + blocks + "]}]}");
  const std::string chat = ChatOfMessages(json.Parse().value()).value().chat;
  EXPECT_EQ(At(chat, "/messages/0/content").size(), kCount * 12 - 2 + 2);  // line breaks are two bytes in JSON
}

// ---- Responses ----

TEST_F(TranslationsTest, ErrorsNameTheItemThatAChatWasMadeFrom) {
  const auto param_of = [this](std::string_view members) {
    const auto responder = Respond(fmt::format(R"({{"model":"bytes","instructions":"be kind",{}}})", members));
    EXPECT_EQ(responder->response->status, 400);
    return At(responder->response->body, "/error/param");
  };
  EXPECT_EQ(param_of(R"("input":[{"role":"user","content":"q"},{"type":"function_call","call_id":"c","name":"f"}])"),
            R"("input[1].arguments")");
  EXPECT_EQ(param_of(R"("input":"q","tools":[{"type":"function","name":"f","parameters":7}])"),
            R"("tools[0].parameters")");
  EXPECT_EQ(param_of(R"("input":"q","tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"a"},)"
                     R"({"type":"function","name":"f","parameters":7}]}])"),
            R"("tools[0].tools[1].parameters")");
}

TEST_F(TranslationsTest, NumbersOfEarlierCallsKeepTheirText) {
  constexpr std::string_view kInput = R"({"a":18446744073709551616,"b":[9223372036854775808,0.12345678901234567891]})";
  JsonBody json(
      fmt::format(R"({{"model":"m","max_tokens":5,"messages":[{{"role":"user","content":"q"}},)"
                  R"({{"role":"assistant","content":[{{"type":"tool_use","id":"t","name":"f","input":{}}}]}}]}})",
                  kInput));
  const Translation translation = ChatOfMessages(json.Parse().value()).value();
  EXPECT_THAT(translation.chat, HasSubstr(std::string(kInput)));
}

TEST_F(TranslationsTest, ACutCallOfAnEarlierTurnIsTaken) {
  ServedModel model = ByteModel();
  model.chat_template =
      ChatTemplate::Parse("{% for m in messages %}{{ m.content }}{{ (m.tool_calls or []) | tojson }}{% endfor %}", "t")
          .value();
  Serve(model);
  Respond(R"({"model":"bytes","input":[{"role":"user","content":"go"},{"type":"function_call","call_id":"c1",)"
          R"("name":"shell","arguments":"{\"cmd\": \""},{"type":"function_call_output","call_id":"c1",)"
          R"("output":"not run"},{"role":"user","content":"Continue."}]})");
  EXPECT_EQ(dispatcher_.specs.size(), 1U);
}

TEST_F(TranslationsTest, ReasoningBelongsToTheMessageThatFollowsItDirectly) {
  JsonBody json(R"({"model":"m","input":[)"
                R"({"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"lost"}]},)"
                R"({"role":"user","content":"q"},)"
                R"({"type":"reasoning","summary":[{"type":"summary_text","text":"one"}]},)"
                R"({"type":"reasoning","summary":[{"type":"summary_text","text":"two"}]},)"
                R"({"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},)"
                R"({"type":"function_call_output","call_id":"c1","output":"r"},)"
                R"({"role":"assistant","content":"a"},)"
                R"({"type":"reasoning","summary":[{"type":"summary_text","text":"at the end"}]}]})");
  const Translation translation = ChatOfResponses(json.Parse().value()).value();
  EXPECT_EQ(translation.dropped_reasoning_count, 2U);
  EXPECT_EQ(At(translation.chat, "/messages/0"), R"({"role":"user","content":"q"})");
  EXPECT_EQ(At(translation.chat, "/messages/1/reasoning_content"), R"("one\ntwo")");
  EXPECT_EQ(At(translation.chat, "/messages/3"), R"({"role":"assistant","content":"a"})");
  Respond(R"({"model":"bytes","input":[{"type":"reasoning","summary":[{"type":"summary_text","text":"x"}]},)"
          R"({"role":"user","content":"q"}]})");
  EXPECT_EQ(observer_.dropped_reasoning, 1U);
}

// ---- Codex's tools ----

constexpr std::string_view kCodexTools =
    R"("tools":[{"type":"function","name":"shell","strict":false,"parameters":{"type":"object"}},)"
    R"({"type":"custom","name":"apply_patch","description":"edits files",)"
    R"("format":{"type":"grammar","syntax":"lark","definition":"start: \"x\""}},)"
    R"({"type":"custom","name":"zip","format":{"type":"grammar","syntax":"regex","definition":"[0-9]{5}"}},)"
    R"({"type":"custom","name":"note"},)"
    R"({"type":"namespace","name":"mcp__files","description":"","tools":[{"type":"function","name":"list",)"
    R"("parameters":{"type":"object"}}]},{"type":"namespace","name":"empty","tools":[]}])";

TEST_F(TranslationsTest, ClientToolsBecomeToolsOfAChat) {
  JsonBody json(
      fmt::format(R"({{"model":"m","input":"q","tool_choice":{{"type":"custom","name":"note"}},{}}})", kCodexTools));
  const std::string chat = ChatOfResponses(json.Parse().value()).value().chat;
  EXPECT_EQ(At(chat, "/tools/1/custom/name"), R"("apply_patch")");
  EXPECT_EQ(At(chat, "/tools/1/custom/description"), R"("edits files")");
  EXPECT_EQ(At(chat, "/tools/1/custom/format"),
            R"({"type":"grammar","grammar":{"syntax":"lark","definition":"start: \"x\""}})");
  EXPECT_EQ(At(chat, "/tools/2/custom/format/grammar/syntax"), R"("regex")");
  EXPECT_EQ(At(chat, "/tools/3/custom"), R"({"name":"note"})");
  EXPECT_EQ(At(chat, "/tools/4/function/name"), R"("mcp__files__list")");
  EXPECT_EQ(At(chat, "/tools/5"), "");
  EXPECT_EQ(At(chat, "/tool_choice"), R"({"type":"custom","custom":{"name":"note"}})");
}

TEST_F(TranslationsTest, CallsOfClientToolsHaveTheClientsNames) {
  ServedModel model = ByteModel();
  model.max_context_tokens = 4000;
  model.chat_template =
      ChatTemplate::Parse(
          "{% for m in messages %}<|im_start|>{{ m.role }}{{ m.content }}{{ (m.tool_calls or []) | tojson "
          "}}<tool_call>{% endfor %}",
          "t")
          .value();
  Serve(model);
  const std::string body = fmt::format(
      R"({{"model":"bytes",{},"input":[{{"role":"user","content":"q"}},)"
      R"({{"type":"custom_tool_call","call_id":"c1","name":"note","input":"say \"x\""}},)"
      R"({{"type":"custom_tool_call_output","call_id":"c1","output":"done"}},)"
      R"({{"type":"function_call","call_id":"c2","namespace":"mcp__files","name":"list","arguments":"{{}}"}},)"
      R"({{"type":"function_call_output","call_id":"c2","output":"a.txt"}}]}})",
      kCodexTools);
  constexpr std::string_view kAnswer =
      R"(<tool_call>{"name": "apply_patch", "arguments": {"input": "*** \"a\"\n"}}</tool_call>)"
      R"(<tool_call>{"name": "mcp__files__list", "arguments": {"dir": "."}}</tool_call>)";
  const auto whole = Respond(body);
  ASSERT_EQ(dispatcher_.specs.size(), 1U);
  EXPECT_THAT(TextOf(dispatcher_.specs[0]), HasSubstr(R"("name": "note", "arguments": {"input": "say \"x\""})"));
  EXPECT_THAT(TextOf(dispatcher_.specs[0]), HasSubstr(R"("name": "mcp__files__list")"));
  AnswerWith(kAnswer);
  const std::string custom = At(whole->response->body, "/output/0");
  EXPECT_EQ(At(custom, "/type"), R"("custom_tool_call")");
  EXPECT_EQ(At(custom, "/name"), R"("apply_patch")");
  EXPECT_EQ(At(custom, "/input"), R"("*** \"a\"\n")");
  EXPECT_EQ(At(custom, "/arguments"), "");
  const std::string listed = At(whole->response->body, "/output/1");
  EXPECT_EQ(At(listed, "/type"), R"("function_call")");
  EXPECT_EQ(At(listed, "/name"), R"("list")");
  EXPECT_EQ(At(listed, "/namespace"), R"("mcp__files")");
  EXPECT_EQ(At(listed, "/arguments"), R"("{\"dir\": \".\"}")");
  EXPECT_EQ(At(whole->response->body, "/tools/1/type"), R"("custom")");  // as the client sent them
}

TEST_F(TranslationsTest, AStreamedCustomCallTellsItsText) {
  ServedModel model = ByteModel();
  model.max_context_tokens = 4000;
  model.chat_template =
      ChatTemplate::Parse("{% for m in messages %}{{ m.content }}<tool_call>{% endfor %}", "t").value();
  Serve(model);
  const auto streamed = Respond(fmt::format(R"({{"model":"bytes","stream":true,"input":"q",{}}})", kCodexTools));
  AnswerWith(R"(<tool_call>{"name": "note", "arguments": {"input": "two\nlines"}}</tool_call>)");
  const auto events = NamedEvents(*streamed);
  EXPECT_THAT(NamesOf(events),
              ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                          "response.custom_tool_call_input.delta", "response.custom_tool_call_input.done",
                          "response.output_item.done", "response.completed"));
  EXPECT_EQ(At(events[2].second, "/item/input"), R"("")");
  EXPECT_EQ(At(events[3].second, "/delta"), R"("two\nlines")");
  EXPECT_EQ(At(events[4].second, "/input"), R"("two\nlines")");
  EXPECT_EQ(At(events[5].second, "/item/input"), R"("two\nlines")");
}

TEST_F(TranslationsTest, ToolsOfTheServersOwnAreRefusedByName) {
  for (const std::string_view tool : {R"({"type":"web_search"})", R"({"type":"file_search"})", R"({"type":"mcp"})",
                                      R"({"type":"namespace","name":"n","tools":[{"type":"web_search"}]})"}) {
    const auto responder = Respond(fmt::format(R"({{"model":"bytes","input":"q","tools":[{}]}})", tool));
    EXPECT_EQ(responder->response->status, 400) << tool;
    EXPECT_THAT(At(responder->response->body, "/error/param"), HasSubstr(".type")) << tool;
  }
}

TEST_F(TranslationsTest, AResponseIsAskedForAsAChat) {
  const auto responder =
      Respond(R"({"model":"bytes","instructions":"be kind","input":[{"role":"user","content":"hi"},)"
              R"({"type":"message","role":"assistant","content":[{"type":"output_text","text":"yes"}]},)"
              R"({"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]}],)"
              R"("max_output_tokens":9,"store":true,"metadata":{"k":"v"},"include":["reasoning.encrypted_content"]})");
  ASSERT_EQ(dispatcher_.specs.size(), 1U);
  EXPECT_EQ(TextOf(dispatcher_.specs[0]),
            "<|im_start|>system\nbe kind<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nyes"
            "<|im_end|>\n<|im_start|>user\na\nb<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(dispatcher_.specs[0].generate.max_output_tokens, 9U);
  AnswerWith("fine");
  const std::string& body = responder->response->body;
  EXPECT_EQ(At(body, "/object"), R"("response")");
  EXPECT_EQ(At(body, "/status"), R"("completed")");
  EXPECT_EQ(At(body, "/store"), "false");
  EXPECT_EQ(At(body, "/metadata"), R"({"k":"v"})");
  EXPECT_EQ(At(body, "/output/0/type"), R"("message")");
  EXPECT_EQ(At(body, "/output/0/content"), R"([{"type":"output_text","text":"fine","annotations":[],"logprobs":[]}])");
  EXPECT_EQ(At(body, "/usage/input_tokens_details"), R"({"cached_tokens":4,"cache_write_tokens":0})");
  EXPECT_EQ(At(body, "/usage/output_tokens"), "4");
}

TEST_F(TranslationsTest, AResponsesStreamHasTypedNumberedEvents) {
  const auto responder = Respond(R"({"model":"bytes","input":"hi","stream":true})");
  dispatcher_.Dispatch(0);
  dispatcher_.Produce(Bytes("one"), 4);
  dispatcher_.Produce(Bytes(" two"));
  dispatcher_.Finish(FinishReason::kLength);
  const auto events = NamedEvents(*responder);
  EXPECT_THAT(NamesOf(events),
              ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                          "response.content_part.added", "response.output_text.delta", "response.output_text.delta",
                          "response.output_text.done", "response.content_part.done", "response.output_item.done",
                          "response.incomplete"));
  for (std::size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(At(events[i].second, "/type"), '"' + events[i].first + '"');
    EXPECT_EQ(At(events[i].second, "/sequence_number"), fmt::to_string(i));
  }
  EXPECT_EQ(At(events[5].second, "/delta"), R"(" two")");
  EXPECT_EQ(At(events[5].second, "/item_id"), At(events[2].second, "/item/id"));
  EXPECT_EQ(At(events[6].second, "/text"), R"("one two")");
  EXPECT_EQ(At(events[9].second, "/response/incomplete_details/reason"), R"("max_output_tokens")");
  EXPECT_EQ(At(events[9].second, "/response/output/0"), At(events[8].second, "/item"));
}

TEST_F(TranslationsTest, ItemsOfAnAssistantAreOneMessage) {
  JsonBody json(
      R"({"model":"m","tools":[{"type":"function","name":"f","parameters":{"type":"object"},"strict":true}],)"
      R"("tool_choice":{"type":"function","name":"f"},"reasoning":{"effort":"low"},)"
      R"("text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"},"strict":true}},"input":[)"
      R"({"role":"user","content":"q"},)"
      R"({"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]},)"
      R"({"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look"}]},)"
      R"({"type":"function_call","call_id":"c1","name":"f","arguments":"{\"a\":1}"},)"
      R"({"type":"function_call","call_id":"c2","name":"f","arguments":"{}"},)"
      R"({"type":"function_call_output","call_id":"c1","output":"one"},)"
      R"({"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"two"}]}]})");
  const Result<JsonObject> object = json.Parse();
  const std::string text = ChatOfResponses(object.value()).value().chat;
  EXPECT_EQ(At(text, "/messages/1"), R"({"role":"assistant","content":"I look","reasoning_content":"hm","tool_calls":[)"
                                     R"({"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},)"
                                     R"({"id":"c2","type":"function","function":{"name":"f","arguments":"{}"}}]})");
  EXPECT_EQ(At(text, "/messages/2"), R"({"role":"tool","tool_call_id":"c1","content":"one"})");
  EXPECT_EQ(At(text, "/messages/3"), R"({"role":"tool","tool_call_id":"c2","content":"two"})");
  EXPECT_EQ(At(text, "/tools/0/function/strict"), "true");
  EXPECT_EQ(At(text, "/tool_choice/function/name"), R"("f")");
  EXPECT_EQ(At(text, "/reasoning_effort"), R"("low")");
  EXPECT_EQ(At(text, "/response_format"),
            R"({"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"},"strict":true}})");
}

TEST_F(TranslationsTest, WhatNeedsStoredStateIsRefusedByName) {
  for (const std::string_view member :
       {R"("previous_response_id":"resp_1")", R"("conversation":"c")", R"("background":true)", R"("truncation":"auto")",
        R"("max_output_tokens":0)", R"("tools":[{"type":"web_search"}])", R"("temperature":3)"}) {
    const auto responder = Respond(fmt::format(R"({{"model":"bytes","input":"hi",{}}})", member));
    EXPECT_EQ(responder->response->status, 400) << member;
    const std::string param = At(responder->response->body, "/error/param");
    const std::string name(member.substr(1, member.find('"', 1) - 1));
    EXPECT_THAT(param, HasSubstr(name)) << member;
  }
  EXPECT_EQ(At(Respond(R"({"model":"bytes"})")->response->body, "/error/param"), R"("input")");
  EXPECT_EQ(
      At(Respond(R"({"model":"bytes","input":[{"type":"item_reference","id":"x"}]})")->response->body, "/error/param"),
      R"("input[0].type")");
}

// ---- tokens ----

TEST_F(TranslationsTest, TokenizesTextsAndChats) {
  EXPECT_EQ(Ask("POST", "/tokenize", R"({"model":"bytes","prompt":"hé"})")->response->body,
            R"({"count":4,"max_model_len":200,"tokens":[258,104,195,169],"token_strs":null})");
  EXPECT_EQ(
      Ask("POST", "/tokenize", R"({"prompt":"h","add_special_tokens":false,"return_token_strs":true})")->response->body,
      R"({"count":1,"max_model_len":200,"tokens":[104],"token_strs":["h"]})");
  EXPECT_EQ(
      At(Ask("POST", "/tokenize", R"({"messages":[{"role":"user","content":"hi"}],"model":"bytes"})")->response->body,
         "/count"),
      "21");
  EXPECT_EQ(At(Ask("POST", "/tokenize", R"({"model":"bytes"})")->response->body, "/error/param"), R"("prompt")");
}

TEST_F(TranslationsTest, DetokenizesIds) {
  EXPECT_EQ(Ask("POST", "/detokenize", R"({"tokens":[104,195,169,257]})")->response->body,
            R"({"prompt":"hé<|im_end|>"})");
  EXPECT_EQ(At(Ask("POST", "/detokenize", R"({"tokens":[1,259]})")->response->body, "/error/param"), R"("tokens[1]")");
  EXPECT_EQ(At(Ask("POST", "/detokenize", R"({"model":"bytes"})")->response->body, "/error/param"), R"("tokens")");
}

// ---- the document ----

TEST_F(TranslationsTest, TheDocumentDescribesTheFieldsThatAreRead) {
  const std::string body = Ask("GET", "/openapi.json")->response->body;
  EXPECT_EQ(At(body, "/openapi"), R"("3.1.0")");
  EXPECT_EQ(At(body, "/components/securitySchemes/bearer/scheme"), R"("bearer")");
  const std::string chat = "/components/schemas/ChatCompletionRequest/properties";
  EXPECT_EQ(At(body, chat + "/temperature/maximum"), "2");
  EXPECT_EQ(At(body, chat + "/top_p/exclusiveMinimum"), "0");
  EXPECT_EQ(At(body, chat + "/messages/anyOf/0/type"), R"("array")");
  EXPECT_EQ(At(body, chat + "/priority/maximum"), "100");
  EXPECT_NE(At(body, "/paths/~1v1~1messages/post/requestBody"), "");
  EXPECT_NE(At(body, "/components/schemas/MessagesRequest/properties/system"), "");
  EXPECT_NE(At(body, "/components/schemas/ResponsesRequest/properties/input"), "");
}

TEST_F(TranslationsTest, TheDocumentDescribesThePromptCachesFields) {
  const std::string body = Ask("GET", "/openapi.json")->response->body;
  const auto has = [&body](std::string_view schema, std::string_view path) {
    return !At(body, fmt::format("/components/schemas/{}/properties/{}", schema, path)).empty();
  };
  for (const char* schema : {"ChatCompletionRequest", "CompletionRequest", "ResponsesRequest", "MessagesRequest"}) {
    for (const char* field :
         {"session_id", "prompt_cache_key", "prompt_cache_retention", "cache_control/anyOf/0/properties/ttl",
          "diagnostics/anyOf/0/properties/previous_message_id", "prompt_cache_options/anyOf/0/properties/mode",
          "prompt_cache_options/anyOf/0/properties/ttl", "prompt_cache_options/anyOf/0/properties/prewarm",
          "prompt_cache_options/anyOf/0/properties/comparison_response_id"}) {
      EXPECT_TRUE(has(schema, field)) << schema << ' ' << field;
    }
  }
  EXPECT_TRUE(has("Usage", "prompt_tokens_details/properties/cache_write_tokens"));
  EXPECT_TRUE(has("ChatCompletion", "prompt_cache_diagnostics"));
  EXPECT_TRUE(has("Response", "prompt_cache_diagnostics"));
  EXPECT_TRUE(has("Response", "usage/properties/input_tokens_details/properties/cache_write_tokens"));
  EXPECT_TRUE(has("PromptCacheDiagnostics", "comparison_reusable_tokens"));
  EXPECT_TRUE(has("Message", "diagnostics/properties/cache_miss_reason/properties/cache_missed_input_tokens"));
  EXPECT_TRUE(has("Message", "usage/properties/cache_creation/properties/ephemeral_1h_input_tokens"));
}

TEST_F(TranslationsTest, UnknownFieldsOfOtherApisAreCounted) {
  Message(R"({"model":"bytes","max_tokens":5,"messages":[{"role":"user","content":"hi"}],"other_one":0.1,"new_one":1,)"
          R"("metadata":{},"session_id":"s"})");
  EXPECT_EQ(observer_.unknown_fields, 2U);
  Respond(R"({"model":"bytes","input":"hi","new_one":1,"truncation":"disabled"})");
  EXPECT_EQ(observer_.unknown_fields, 3U);
}

TEST_F(TranslationsTest, FieldsThatNobodyKnowsAreCounted) {
  Chat(R"({"model":"bytes","messages":[{"role":"user","content":"hi"}],"new_one":1,"other":2,"user":"u","n":1})");
  EXPECT_EQ(observer_.unknown_fields, 2U);
}

}  // namespace
}  // namespace roost::router
