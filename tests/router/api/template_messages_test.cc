// Messages in the forms that templates render: nothing of a conversation is lost or refused for its roles.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/text/chat_template.h"
#include "common/text/jinja/json.h"
#include "router/api/requests/prompt.h"
#include "router/api/requests/template_messages.h"
#include "tests/common/text/jinja_support.h"
#include "tests/router/api/api_fixture.h"
#include "tests/router/api/request_bodies.h"
#include "tests/support/shared_data.h"

namespace roost::router {
namespace {

// "role: content" of each message, with " | " between them.
std::string Adapted(std::string_view messages_json, const TemplateTraits& traits) {
  const jinja::Value messages = jinja::FromJson(messages_json, "messages").value();
  const jinja::Value adapted = MessagesForTemplate(messages, traits);
  std::string text;
  for (const jinja::Value& message : adapted.AsSequence().items) {
    const jinja::Value* content = message.AsDict().Find("content");
    text += (text.empty() ? "" : " | ") + message.AsDict().Find("role")->AsString() + ": ";
    text += content->is(jinja::Kind::kString) ? content->AsString() : "none";
  }
  return text;
}

TemplateTraits WithoutDeveloper() {
  TemplateTraits traits;
  traits.first_developer = traits.later_developer = Rendering::kDropped;
  return traits;
}

TemplateTraits SystemInFrontOnly() {
  TemplateTraits traits = WithoutDeveloper();
  traits.later_system = Rendering::kRefused;
  return traits;
}

TEST(TemplateMessages, ADeveloperIsSystemWhereTheTemplateDoesNotKnowTheRole) {
  constexpr std::string_view kMessages = R"([{"role":"developer","content":"a"},{"role":"user","content":"b"},)"
                                         R"({"role":"developer","content":"c"},{"role":"user","content":"d"}])";
  EXPECT_EQ(Adapted(kMessages, {}), "developer: a | user: b | developer: c | user: d");
  EXPECT_EQ(Adapted(kMessages, WithoutDeveloper()), "system: a | user: b | system: c | user: d");
}

TEST(TemplateMessages, LeadingInstructionsBecomeOneMessage) {
  constexpr std::string_view kMessages = R"([{"role":"system","content":"a"},{"role":"developer","content":"b"},)"
                                         R"({"role":"system","content":"c"},{"role":"user","content":"d"}])";
  EXPECT_EQ(Adapted(kMessages, {}), "system: a\n\nb\n\nc | user: d");
  EXPECT_EQ(Adapted(kMessages, SystemInFrontOnly()), "system: a\n\nb\n\nc | user: d");
  constexpr std::string_view kDevelopers = R"([{"role":"developer","content":"a"},{"role":"developer","content":"b"}])";
  EXPECT_EQ(Adapted(kDevelopers, {}), "developer: a\n\nb");
  EXPECT_EQ(Adapted(kDevelopers, WithoutDeveloper()), "system: a\n\nb");
}

TEST(TemplateMessages, ALaterSystemMessageThatIsRefusedIsUserTextAtItsPlace) {
  const TemplateTraits traits = SystemInFrontOnly();
  constexpr std::string_view kFront = R"([{"role":"user","content":"a"},)";
  const auto adapted = [&](std::string_view rest) { return Adapted(std::string(kFront).append(rest), traits); };
  EXPECT_EQ(adapted(R"({"role":"system","content":"b"},{"role":"user","content":"c"}])"), "user: a | user: b\n\nc");
  EXPECT_EQ(adapted(R"({"role":"system","content":"b"}])"), "user: a\n\nb");
  EXPECT_EQ(adapted(R"({"role":"system","content":"b"},{"role":"assistant","content":"c"}])"),
            "user: a\n\nb | assistant: c");
  EXPECT_EQ(adapted(R"({"role":"assistant","content":"b"},{"role":"system","content":"c"}])"),
            "user: a | assistant: b | user: c");
  EXPECT_EQ(
      adapted(R"({"role":"tool","content":"b"},{"role":"system","content":"c"},{"role":"system","content":"d"}])"),
      "user: a | tool: b | user: c\n\nd");
}

TEST(TemplateMessages, UserTextBehindAToolsResultJoinsItWhereNoUserMayFollow) {
  TemplateTraits traits = SystemInFrontOnly();
  traits.user_after_tool = Rendering::kRefused;
  EXPECT_EQ(Adapted(R"([{"role":"user","content":"a"},{"role":"tool","content":"b"},{"role":"system","content":"c"}])",
                    traits),
            "user: a | tool: b\n\nc");
}

TEST(TemplateMessages, UserMessagesJoinWhereTheTemplateTakesNoTwo) {
  TemplateTraits traits = SystemInFrontOnly();
  traits.adjacent_users = Rendering::kRefused;
  EXPECT_EQ(
      Adapted(R"([{"role":"user","content":"a"},{"role":"system","content":"b"},{"role":"user","content":"c"},)"
              R"({"role":"assistant","content":"d"},{"role":"user","content":"e"},{"role":"user","content":"f"}])",
              traits),
      "user: a\n\nb\n\nc | assistant: d | user: e\n\nf");
}

TEST(TemplateMessages, AFirstSystemMessageThatIsRefusedGoesInFrontOfTheUsers) {
  TemplateTraits traits = SystemInFrontOnly();
  traits.first_system = Rendering::kRefused;
  EXPECT_EQ(Adapted(R"([{"role":"system","content":"a"},{"role":"user","content":"b"}])", traits), "user: a\n\nb");
  EXPECT_EQ(Adapted(R"([{"role":"system","content":"a"}])", traits), "user: a");
  traits.first_developer = Rendering::kShown;
  EXPECT_EQ(Adapted(R"([{"role":"system","content":"a"},{"role":"user","content":"b"}])", traits),
            "developer: a | user: b");
}

TEST(TemplateMessages, ManyUserMessagesJoinInLinearTime) {
  TemplateTraits traits;
  traits.adjacent_users = Rendering::kRefused;
  constexpr std::size_t kCount = 20'000;
  std::string messages = "[";
  for (std::size_t i = 0; i < kCount; ++i) messages += R"({"role":"user","content":"0123456789"},)";
  messages.back() = ']';
  // Copying the text so far for each message would copy 2.4 GB.
  EXPECT_EQ(Adapted(messages, traits).size(), 6 + kCount * 12 - 2);
}

// ---- calls, results, reasoning, contents and tools ----

std::string RenderedJson(std::string_view name, jinja::Value value) {
  jinja::Dict context;
  context.Set("value", std::move(value));
  const auto parsed = ChatTemplate::Parse("{{ value | tojson }}", std::string(name)).value();
  return parsed->Render(jinja::Value::Mapping(std::move(context)), ProbeOptions()).value();
}

// The messages as a template gets them, in JSON.
std::string Shown(std::string_view messages_json, const TemplateTraits& traits) {
  const jinja::Value messages = jinja::FromJson(messages_json, "messages").value();
  return RenderedJson("messages", WithContentForms(MessagesForTemplate(messages, traits), traits));
}

TemplateTraits LearnedTraits(std::string_view source) { return ChatTemplate::Parse(source, "t").value()->traits(); }

constexpr std::string_view kTwoCalls =
    R"([{"role":"user","content":"a"},{"role":"assistant","content":"b","reasoning":"c","tool_calls":[)"
    R"({"id":"c1","type":"function","function":{"name":"f","arguments":{"x":1}}},)"
    R"({"id":"c2","type":"function","function":{"name":"g","arguments":{}}}]},)"
    R"({"role":"tool","content":"two","tool_call_id":"c2"},{"role":"tool","content":"one","tool_call_id":"c1"}])";

TEST(TemplateMessages, CallsStandAloneWhereTheTemplateShowsOneAlone) {
  TemplateTraits traits;
  traits.several_calls = Rendering::kDropped;
  EXPECT_EQ(Shown(kTwoCalls, traits),
            R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "tool_calls": [{"id": "c1", )"
            R"("type": "function", "function": {"name": "f", "arguments": {"x": 1}}}], "reasoning_content": "c"}, )"
            R"({"role": "tool", "content": "one", "tool_call_id": "c1"}, {"role": "assistant", "content": null, )"
            R"("tool_calls": [{"id": "c2", "type": "function", "function": {"name": "g", "arguments": {}}}]}, )"
            R"({"role": "tool", "content": "two", "tool_call_id": "c2"}])");
}

TEST(TemplateMessages, IdsAreOfTheFormThatTheTemplateTakesForCallsAndResultsAlike) {
  TemplateTraits nine;
  nine.call_ids = CallIdForm::kNine;
  const std::string text = Shown(kTwoCalls, nine);
  EXPECT_EQ(text.find("\"c1\""), std::string::npos);
  EXPECT_EQ(text, Shown(kTwoCalls, nine)) << "the next turn has the same ids";
  constexpr std::string_view kCall = R"("tool_calls": [{"id": ")";
  const std::string first = text.substr(text.find(kCall) + kCall.size(), 10);
  EXPECT_EQ(first.back(), '"') << text;
  EXPECT_THAT(text, testing::HasSubstr(R"("content": "one", "tool_call_id": ")" + first));
  constexpr std::string_view kOwn =
      R"([{"role":"assistant","content":null,"tool_calls":[{"id":"abcdefghi","type":"function","function":)"
      R"({"name":"f","arguments":{}}}]},{"role":"tool","content":"x"}])";
  EXPECT_THAT(Shown(kOwn, nine), testing::HasSubstr(R"("content": "x", "tool_call_id": "abcdefghi")"));
  TemplateTraits numbered;
  numbered.call_ids = CallIdForm::kNumbered;
  const std::string kimi = Shown(kTwoCalls, numbered);
  EXPECT_THAT(kimi, testing::HasSubstr(R"("id": "functions.f:0")"));
  EXPECT_THAT(kimi, testing::HasSubstr(R"("id": "functions.g:1")"));
  EXPECT_THAT(kimi, testing::HasSubstr(R"("content": "two", "tool_call_id": "functions.g:1")"));
}

TEST(TemplateMessages, AResultHasTheNameOfItsCallWhereTheTemplateNeedsOne) {
  TemplateTraits traits;
  constexpr std::string_view kNamed = R"("tool_call_id": "c2", "name": "g")";
  EXPECT_EQ(Shown(kTwoCalls, traits).find(kNamed), std::string::npos);
  traits.unnamed_result = Rendering::kRefused;
  EXPECT_THAT(Shown(kTwoCalls, traits), testing::HasSubstr(std::string(kNamed)));
}

TEST(TemplateMessages, ReasoningHasTheNameThatTheTemplateReads) {
  for (const std::string_view name : {"reasoning_content", "reasoning", "thinking"}) {
    const std::string message =
        fmt::format(R"([{{"role":"user","content":"a"}},{{"role":"assistant","content":"b","{}":"why"}}])", name);
    for (const std::string_view wanted : {"reasoning_content", "reasoning", "thinking"}) {
      TemplateTraits traits;
      traits.reasoning_name = wanted;
      EXPECT_THAT(Shown(message, traits), testing::HasSubstr(fmt::format(R"("content": "b", "{}": "why"}})", wanted)));
    }
  }
  TemplateTraits apart;
  apart.reasoning_and_text = Rendering::kRefused;
  EXPECT_THAT(Shown(kTwoCalls, apart), testing::HasSubstr(R"("content": null)"));
  EXPECT_THAT(Shown(kTwoCalls, apart), testing::HasSubstr(R"("reasoning_content": "c\n\nb")"));
}

TEST(TemplateMessages, ProbesLearnWhatATemplateReads) {
  const TemplateTraits parts = LearnedTraits(
      "{% for m in messages %}{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}{% endif %}{% endfor %}"
      "{% endfor %}");
  EXPECT_EQ(parts.user_content, ContentForm::kParts);
  EXPECT_EQ(parts.first_system, Rendering::kShown);
  EXPECT_EQ(Shown(R"([{"role":"user","content":"a"}])", parts),
            R"([{"role": "user", "content": [{"type": "text", "text": "a"}]}])");
  const TemplateTraits thinking = LearnedTraits(
      "{% for m in messages %}{% if m.tool_calls %}{{ m.thinking }}{{ m.tool_calls[0] | tojson }}{% else %}{{ "
      "m.content "
      "}}{% endif %}{% endfor %}");
  EXPECT_EQ(thinking.reasoning_name, "thinking");
  EXPECT_EQ(thinking.several_calls, Rendering::kDropped);
  const TemplateTraits strict = LearnedTraits(
      "{% for t in tools or [] %}{{ t.function.name + t.function.description }}{{ t.function.parameters.properties | "
      "length }}{% endfor %}{% for m in messages %}{{ m.content or '' }}{% for c in m.tool_calls or [] %}{% if c.id | "
      "length != 9 %}{{ raise_exception('nine') }}{% endif %}{{ c | tojson }}{% endfor %}{% if m.role == 'tool' and "
      "not "
      "m.name %}{{ raise_exception('name') }}{% endif %}{% endfor %}");
  EXPECT_EQ(strict.tool_without_description, Rendering::kRefused);
  EXPECT_EQ(strict.tool_without_parameters, Rendering::kRefused);
  EXPECT_EQ(strict.call_ids, CallIdForm::kNine);
  EXPECT_EQ(strict.unnamed_result, Rendering::kRefused);
}

TEST(TemplateMessages, ToolsHaveWhatTheTemplateNeeds) {
  TemplateTraits traits;
  const auto shown = [&traits](std::string_view tool) {
    const jinja::Value tools = jinja::FromJson(fmt::format("[{}]", tool), "tools").value();
    return RenderedJson("tools", ToolsForTemplate(tools, traits));
  };
  constexpr std::string_view kNulls = R"({"function":{"name":"f","description":null,"parameters":null}})";
  EXPECT_EQ(shown(kNulls), R"([{"function": {"name": "f"}, "type": "function"}])");
  traits.tool_without_description = traits.tool_without_parameters = Rendering::kRefused;
  traits.tool_without_properties = Rendering::kRefused;
  EXPECT_EQ(shown(kNulls), R"([{"function": {"name": "f", "description": "", "parameters": {"type": "object", )"
                           R"("properties": {}}}, "type": "function"}])");
  EXPECT_EQ(shown(R"({"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}})"),
            R"([{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object", )"
            R"("properties": {}}}}])");
}

TEST(TemplateMessages, ParametersHaveDescriptionsWhereTheTemplateNeedsThem) {
  const TemplateTraits traits = LearnedTraits(
      "{% for t in tools or [] %}{{ t.function.name }}{% for k, v in t.function.parameters.properties | items %}{{ k + "
      "v.description }}{% endfor %}{% endfor %}{% for m in messages %}{{ m.content }}{% endfor %}");
  EXPECT_EQ(traits.property_without_description, Rendering::kRefused);
  const jinja::Value tools =
      jinja::FromJson(
          R"([{"type":"function","function":{"name":"f","parameters":{"properties":{"a":{"type":"null"}}}}}])", "tools")
          .value();
  EXPECT_THAT(RenderedJson("tools", ToolsForTemplate(tools, traits)),
              testing::HasSubstr(R"("a": {"type": "null", "description": ""})"));
}

// ---- with real templates ----

class RealTemplates : public ApiTest {
 protected:
  struct Rendered {
    bool ok = false;
    std::string text;  // or the error
  };

  void SetUp() override { ROOST_SKIP_WITHOUT(Folder()); }
  static std::filesystem::path Folder() { return testing_support::SharedDir() / "chat_templates/templates"; }

  template <typename Check>
  void ForEach(const Check& check) {
    for (const auto& file : std::filesystem::directory_iterator(Folder())) {
      SCOPED_TRACE(file.path().filename().string());
      ServedModel model = ByteModel();
      model.chat_template = ChatTemplate::Parse(testing_support::ReadFile(file.path()), "t").value();
      check(model, file.path().stem().string());
    }
  }

  static Rendered Render(const ServedModel& model, std::string_view messages, bool adds_prompt = true) {
    JsonBody json(fmt::format(R"({{"model":"m","messages":{},"add_generation_prompt":{}}})", messages, adds_prompt));
    const Result<ChatRequest> request = ParseChatRequest(json.Parse().value());
    if (!request.ok()) return {false, request.error().ToString()};
    const Result<jinja::TracedText> text = RenderChat(model, *request, {});
    if (!text.ok()) return {false, text.error().ToString()};
    return {true, text->bytes};
  }

  static void ExpectInOrder(const Rendered& rendered, std::initializer_list<std::string_view> marks) {
    ASSERT_TRUE(rendered.ok) << rendered.text;
    std::size_t at = 0;
    for (const std::string_view mark : marks) {
      at = rendered.text.find(mark, at);
      ASSERT_NE(at, std::string::npos) << mark << " in " << rendered.text;
    }
  }
};

TEST_F(RealTemplates, ShowInstructionsWhereverTheyStand) {
  ForEach([](const ServedModel& model, const std::string& name) {
    ExpectInOrder(Render(model, R"([{"role":"developer","content":"Banana"},{"role":"user","content":"Capital"}])"),
                  {"Banana", "Capital"});
    ExpectInOrder(Render(model, R"([{"role":"system","content":"Apple"},{"role":"developer","content":"Banana"},)"
                                R"({"role":"system","content":"Cherry"},{"role":"user","content":"Capital"}])"),
                  {"Apple\n\nBanana\n\nCherry", "Capital"});
    ExpectInOrder(Render(model, R"([{"role":"user","content":"Hello"},{"role":"system","content":"Banana"},)"
                                R"({"role":"user","content":"Capital"}])"),
                  {"Hello", "Banana", "Capital"});
    const bool moves_system =
        name.starts_with("mistralai");  // its template puts the first one in front of the last user
    const Rendered late = Render(model, R"([{"role":"system","content":"Apple"},{"role":"user","content":"Hello"},)"
                                        R"({"role":"assistant","content":"Hi"},{"role":"system","content":"Banana"}])");
    moves_system ? ExpectInOrder(late, {"Hello", "Hi", "Banana"})
                 : ExpectInOrder(late, {"Apple", "Hello", "Hi", "Banana"});
  });
}

// Messages in front of a later system message begin the prompt as they did without it.
TEST_F(RealTemplates, ALaterSystemMessageKeepsThePrefix) {
  ForEach([](const ServedModel& model, const std::string&) {
    constexpr std::string_view kFront = R"([{"role":"user","content":"Hello"},{"role":"assistant","content":"Hi"})";
    const auto behind = [&](std::string_view rest) { return Render(model, std::string(kFront).append(rest)).text; };
    const std::string without = behind(R"(,{"role":"user","content":"Capital"}])");
    const std::string with = behind(R"(,{"role":"system","content":"Banana"},{"role":"user","content":"Capital"}])");
    const std::size_t answer = without.find("Hi", without.find("Hello"));
    EXPECT_EQ(with.substr(0, answer + 2), without.substr(0, answer + 2));
  });
}

TEST_F(RealTemplates, TakeAnyArgumentsOfEarlierCalls) {
  ForEach([](const ServedModel& model, const std::string&) {
    const TemplateTraits& traits = model.chat_template->traits();
    const bool refuses_calls = traits.tool_results == Rendering::kRefused;
    for (const std::string_view arguments :
         {R"("{\"path\": \"Banana")", R"("Banana")", R"("[\"Banana\"]")", R"(["Banana"])", R"("{\"a\": Banana}")",
          R"({"path":"Banana"})", R"("{\"path\":\"Banana\"}")"}) {
      SCOPED_TRACE(arguments);
      const Rendered rendered = Render(
          model, fmt::format(R"([{{"role":"user","content":"Hello"}},{{"role":"assistant","content":null,"tool_calls":)"
                             R"([{{"id":"abcdefghi","type":"function","function":{{"name":"f","arguments":{}}}}}]}},)"
                             R"({{"role":"tool","tool_call_id":"abcdefghi","content":"cut"}}])",
                             arguments));
      EXPECT_EQ(rendered.ok, !refuses_calls) << rendered.text;
      const bool shows_calls = traits.empty_text_beside_calls == Rendering::kShown;
      EXPECT_EQ(rendered.text.find("Banana") != std::string::npos, shows_calls) << rendered.text;
    }
  });
}

TEST_F(RealTemplates, TakeAnAnswerWithoutText) {
  ForEach([](const ServedModel& model, const std::string&) {
    ExpectInOrder(Render(model, R"([{"role":"user","content":"Hello"},{"role":"assistant","content":null},)"
                                R"({"role":"user","content":"Capital"}])"),
                  {"Hello", "Capital"});
  });
}

}  // namespace
}  // namespace roost::router
