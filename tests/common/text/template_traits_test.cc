// The parts of messages that chat templates drop or refuse, as marked conversations find them.
#include "common/text/template_traits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/text/chat_template.h"
#include "tests/common/text/jinja_support.h"
#include "tests/support/shared_data.h"

namespace roost {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TemplateTraits TraitsOf(std::string_view source) { return ChatTemplate::Parse(source, "test").value()->traits(); }

constexpr std::string_view kShowsAll =
    "{% for t in tools or [] %}{{ t.function.name }}\n{% endfor %}"
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content or '' }}"
    "{% for c in m.tool_calls or [] %}{{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %}</s>"
    "{% endfor %}";

TEST(TemplateTraits, ATemplateThatShowsEverythingLosesNothing) {
  EXPECT_EQ(TraitsOf(kShowsAll), TemplateTraits());
  EXPECT_THAT(LossesOf(TraitsOf(kShowsAll), {ToolFamily::kHermes}), IsEmpty());
}

TEST(TemplateTraits, FindsRolesThatAreLeftOut) {
  const TemplateTraits traits = TraitsOf(
      "{% for m in messages %}{% if m.role in ['user', 'assistant'] or (loop.first and m.role == 'system') %}"
      "<|{{ m.role }}|>{{ m.content }}{% endif %}{% endfor %}");
  EXPECT_EQ(traits.first_system, Rendering::kShown);
  EXPECT_EQ(traits.first_developer, Rendering::kDropped);
  EXPECT_EQ(traits.later_system, Rendering::kDropped);
  EXPECT_EQ(traits.tools, Rendering::kDropped);
  EXPECT_EQ(traits.tool_results, Rendering::kDropped);
  EXPECT_THAT(LossesOf(traits, {ToolFamily::kHermes}), Contains(HasSubstr("drops tool results")));
}

TEST(TemplateTraits, AMessageThatMovesIsDroppedFromItsPlace) {
  // All system messages go to the front.
  const TemplateTraits traits = TraitsOf(
      "{% for m in messages if m.role == 'system' %}{{ m.content }}{% endfor %}"
      "{% for m in messages if m.role != 'system' %}<|{{ m.role }}|>{{ m.content }}{% endfor %}");
  EXPECT_EQ(traits.first_system, Rendering::kShown);
  EXPECT_EQ(traits.later_system, Rendering::kDropped);
}

TEST(TemplateTraits, FindsWhatIsRefused) {
  const TemplateTraits traits = TraitsOf(
      "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no') }}{% endif %}"
      "{% if m.role == 'user' and loop.previtem is defined and loop.previtem.role == 'user' %}"
      "{{ raise_exception('alternate') }}{% endif %}"
      "{{ m.content + '</s>' }}{% endfor %}");
  EXPECT_EQ(traits.first_system, Rendering::kRefused);
  EXPECT_EQ(traits.adjacent_users, Rendering::kRefused);
  EXPECT_EQ(traits.tool_calls, Rendering::kRefused);  // none and a text do not add up
  EXPECT_EQ(traits.empty_text_beside_calls, Rendering::kDropped);
}

TEST(TemplateTraits, FindsWhetherArgumentsMayBeAText) {
  constexpr std::string_view kItems =
      "{% for m in messages %}{{ m.content or '' }}{% for c in m.tool_calls or [] %}"
      "{% for k, v in c.function.arguments | items %}{{ k }}={{ v }}{% endfor %}{% endfor %}{% endfor %}";
  EXPECT_EQ(TraitsOf(kItems).text_arguments, Rendering::kRefused);
  EXPECT_EQ(TraitsOf(kItems).tool_calls, Rendering::kShown);
  EXPECT_EQ(TraitsOf(kShowsAll).text_arguments, Rendering::kShown);
}

TEST(TemplateTraits, NothingIsKnownOfATemplateThatShowsNoAnswer) {
  EXPECT_EQ(TraitsOf("{{ messages[-1].content }}"), TemplateTraits());
  EXPECT_EQ(TraitsOf("{{ raise_exception('never') }}"), TemplateTraits());
}

TEST(TemplateTraits, AFormOfAnswersThatIsNotKnownIsALoss) {
  EXPECT_THAT(LossesOf(TraitsOf("{% for t in tools or [] %}{{ t | tojson }}{% endfor %}"
                                "{% for m in messages %}{{ m.content }}{{ m.reasoning }}{% endfor %}"),
                       {}),
              AllOf(Contains(HasSubstr("the form of the model's calls is not known")),
                    Contains(HasSubstr("its tags are not known"))));
  EXPECT_THAT(LossesOf(TraitsOf("{% for m in messages %}{{ m.content }}{% endfor %}"),
                       {ToolFamily::kNone, ReasoningForm::kThink}),
              Contains(HasSubstr("drops reasoning of earlier answers")));
}

TEST(TemplateTraits, AnEndlessTemplateCostsLittle) {
  EXPECT_EQ(TraitsOf("{% for i in range(100000) %}{% for j in range(100000) %}x{% endfor %}{% endfor %}"),
            TemplateTraits());
}

TEST(TemplateTraits, TheTextBehindAnAnswerIsTheTemplates) {
  const auto parsed =
      ChatTemplate::Parse("{% for m in messages %}{{ m.content }}<|end|>\n{% endfor %}{{ eos_token }}", "test").value();
  EXPECT_EQ(TextBehindAnswer(*parsed, "<s>", "</s>"), "<|end|>\n</s>");
  const auto refuses = ChatTemplate::Parse("{{ raise_exception('no') }}", "test").value();
  EXPECT_EQ(TextBehindAnswer(*refuses, "<s>", "</s>"), "");
}

TEST(TemplateTraits, OfRealTemplatesAreAsTheirTextsSay) {
  const auto folder = testing_support::SharedDir() / "chat_templates/templates";
  ROOST_SKIP_WITHOUT(folder);
  const auto traits = [&](const std::string& name) {
    return TraitsOf(testing_support::ReadFile(folder / (name + ".jinja")));
  };
  EXPECT_EQ(traits("google-gemma-2-2b-it").first_system, Rendering::kRefused);
  EXPECT_EQ(traits("google-gemma-2-2b-it").adjacent_users, Rendering::kRefused);
  EXPECT_EQ(traits("microsoft-Phi-3.5-mini-instruct").first_developer, Rendering::kDropped);
  EXPECT_EQ(traits("microsoft-Phi-3.5-mini-instruct").tools, Rendering::kDropped);
  EXPECT_EQ(traits("Qwen-Qwen3-0.6B").first_developer, Rendering::kDropped);
  EXPECT_EQ(traits("Qwen-Qwen3-0.6B").later_system, Rendering::kShown);
  EXPECT_EQ(traits("openai-gpt-oss-120b").first_developer, Rendering::kShown);
  EXPECT_EQ(traits("openai-gpt-oss-120b").later_system, Rendering::kDropped);
  EXPECT_EQ(traits("deepseek-ai-DeepSeek-R1-Distill-Qwen-32B").later_system, Rendering::kDropped);  // moved
  EXPECT_EQ(traits("mistralai-Mistral-Nemo-Instruct-2407").later_system, Rendering::kRefused);
  EXPECT_EQ(traits("mistralai-Mistral-Nemo-Instruct-2407").user_after_tool, Rendering::kRefused);
  EXPECT_NE(traits("GLM-4.6").text_arguments, Rendering::kShown);
  EXPECT_EQ(traits("meta-llama-Llama-3.1-8B-Instruct").tools, Rendering::kShown);
}

}  // namespace
}  // namespace roost
