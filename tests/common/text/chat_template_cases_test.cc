// Real models' templates against the output of Python's Jinja2, byte for byte.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "common/text/chat_template.h"
#include "tests/common/text/jinja_support.h"
#include "tests/support/shared_data.h"

namespace roost {
namespace {

using testing_support::ReadFile;
using testing_support::StoredDate;

class ChatTemplateCasesTest : public testing::Test {
 protected:
  void SetUp() override { ROOST_SKIP_WITHOUT(Folder()); }

  static std::filesystem::path Folder() { return testing_support::SharedDir() / "chat_templates"; }

  std::shared_ptr<const ChatTemplate> Template(const std::string& name) {
    auto& parsed = templates_[name];
    if (parsed == nullptr) parsed = ChatTemplate::Parse(ReadFile(Folder() / "templates" / name), name).value();
    return parsed;
  }

 private:
  std::map<std::string, std::shared_ptr<const ChatTemplate>> templates_;
};

TEST_F(ChatTemplateCasesTest, EveryStoredCaseRendersTheSameBytes) {
  std::ifstream cases(Folder() / "cases.jsonl");
  int rendered_count = 0;
  int error_count = 0;
  for (std::string line; std::getline(cases, line);) {
    const jinja::Value stored = jinja::FromJson(line, "case").value();
    const auto field = [&](std::string_view name) { return stored.AsDict().Find(name); };
    const std::string name = field("template")->AsString();
    SCOPED_TRACE(name + " / " + field("case")->AsString());
    const Result<std::string> text = Template(name)->Render(*field("context"), StoredDate());
    if (const jinja::Value* expected = field("rendered")) {
      ++rendered_count;
      EXPECT_EQ(text.ok() ? *text : text.error().ToString(), expected->AsString());
    } else {
      ++error_count;
      ASSERT_NE(field("error"), nullptr);
      EXPECT_FALSE(text.ok()) << *text;
    }
  }
  EXPECT_GE(rendered_count, 154);
  EXPECT_GE(error_count, 13);
}

// A real template that is cut anywhere is a template or an error, and a template renders or fails; nothing crashes.
TEST_F(ChatTemplateCasesTest, TemplatesCutAtEveryByteAreErrorsOrTemplates) {
  const jinja::Value context =
      jinja::FromJson(R"({"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Ho"}]})", "context")
          .value();
  for (const char* name : {"Qwen-Qwen3-0.6B.jinja", "meta-llama-Llama-3.1-8B-Instruct.jinja"}) {
    const std::string source = ReadFile(Folder() / "templates" / name);
    ASSERT_GT(source.size(), 1000U);
    int error_count = 0;
    for (std::size_t size = 0; size < source.size(); ++size) {
      const auto parsed = ChatTemplate::Parse(std::string_view(source).substr(0, size), name);
      if (!parsed.ok()) {
        ++error_count;
        EXPECT_NE(parsed.error().message.find(name), std::string::npos);
        continue;
      }
      const Result<std::string> text = (*parsed)->Render(context, StoredDate());
      if (text.ok()) continue;
      EXPECT_NE(text.error().message.find("line "), std::string::npos);
    }
    EXPECT_GT(error_count, static_cast<int>(source.size()) / 2);
  }
}

}  // namespace
}  // namespace roost
