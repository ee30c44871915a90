#include "deploy/roostctl/text_commands.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace roost::roostctl {
namespace {

class TemplateCommandTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "template_command_test." +
            testing::UnitTest::GetInstance()->current_test_info()->name() + ".jinja";
  }
  void TearDown() override { std::filesystem::remove(path_); }

  void WriteTemplate(const std::string& source) { std::ofstream(path_, std::ios::binary) << source; }

  int Run(const std::string& lines, std::optional<std::string> now = std::nullopt) {
    std::istringstream in(lines);
    std::ostringstream out;
    std::ostringstream err;
    const int status = RunTemplate({path_, std::move(now)}, in, out, err);
    out_ = out.str();
    err_ = err.str();
    return status;
  }

  std::string path_;
  std::string out_;
  std::string err_;
};

TEST_F(TemplateCommandTest, RendersEachLine) {
  WriteTemplate("{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}");
  EXPECT_EQ(Run(R"({"context":{"bos_token":"<s>","messages":[{"role":"user","content":"a \"é\""}]}})"
                "\n"
                R"({"case":"x","context":{"messages":[]}})"
                "\n"),
            0);
  EXPECT_EQ(out_, "{\"rendered\":\"<s>user: a \\\"é\\\"\\n\"}\n{\"rendered\":\"\"}\n");
  EXPECT_EQ(err_, "");
}

TEST_F(TemplateCommandTest, AnswersTemplateErrorsInPlace) {
  WriteTemplate("{{ 'ok' if fine else raise_exception('not fine') }}");
  EXPECT_EQ(Run("{\"context\":{\"fine\":false}}\n{\"context\":{\"fine\":true}}\n"), 0);
  EXPECT_EQ(out_, "{\"error\":\"chat template " + path_ + ", line 1: not fine\"}\n{\"rendered\":\"ok\"}\n");
}

TEST_F(TemplateCommandTest, SaysWhichLineIsNotValid) {
  WriteTemplate("x");
  EXPECT_EQ(Run("{\n{\"context\":[]}\n{}\n{\"context\":{}}\n"), 1);
  EXPECT_EQ(out_.substr(0, 34), "{\"error\":\"line: is not valid JSON:");
  EXPECT_NE(out_.find("{\"error\":\"context: is required and must be an object\"}\n"), std::string::npos);
  EXPECT_EQ(out_.substr(out_.size() - 17), "{\"rendered\":\"x\"}\n");
}

TEST_F(TemplateCommandTest, TellsTheGivenTime) {
  WriteTemplate("{{ strftime_now('%A %d %b %Y %H:%M:%S') }}");
  EXPECT_EQ(Run("{\"context\":{}}", "2026-11-20T12:00:00"), 0);
  EXPECT_EQ(out_, "{\"rendered\":\"Friday 20 Nov 2026 12:00:00\"}\n");
  EXPECT_EQ(Run("{\"context\":{}}", "yesterday"), 1);
  EXPECT_EQ(err_, "roostctl template: --now: 'yesterday' is not a time like 2026-11-20T12:00:00\n");
  EXPECT_EQ(Run("{\"context\":{}}"), 0);
  EXPECT_EQ(out_.substr(0, 12), "{\"rendered\":");
}

TEST_F(TemplateCommandTest, NamesABadTemplate) {
  EXPECT_EQ(Run(""), 1);
  EXPECT_EQ(err_, "roostctl template: " + path_ + ": can not be read\n");
  WriteTemplate("a\n{% if %}");
  EXPECT_EQ(Run("{\"context\":{}}"), 1);
  EXPECT_EQ(err_, "roostctl template: chat template " + path_ + ": line 2: expected an expression, found '%}'\n");
  EXPECT_EQ(out_, "");
}

}  // namespace
}  // namespace roost::roostctl
