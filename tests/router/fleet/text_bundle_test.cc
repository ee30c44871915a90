#include "router/fleet/workers/text_bundle.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "common/text/tokenizer.h"
#include "tests/support/shared_data.h"

namespace roost::router {
namespace {

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(TextBundleTest, ReadsWhatAWorkerBrings) {
  const auto path = testing_support::SharedDir() / "tokenizers/gpt-2.tokenizer.json";
  ROOST_SKIP_WITHOUT(path);
  const Result<TextBundle> text =
      ReadTextBundle({"digest", ReadFile(path), "{% for m in messages %}{{ m.content }}{% endfor %}", "<s>", "</s>"});
  ASSERT_TRUE(text.ok()) << text.error().ToString();
  EXPECT_NE(text->tokenizer, nullptr);
  EXPECT_NE(text->chat_template, nullptr);
  EXPECT_EQ(text->bos_token + text->eos_token, "<s></s>");
  const Result<TextBundle> bare = ReadTextBundle({"digest", ReadFile(path), "", "", ""});
  ASSERT_TRUE(bare.ok());
  EXPECT_EQ(bare->chat_template, nullptr);
  const Result<TextBundle> broken = ReadTextBundle({"digest", ReadFile(path), "{% for %}", "", ""});
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.error().message.rfind("chat template: line 1: ", 0), 0U) << broken.error().message;
}

TEST(TextBundleTest, TruncatedTokenizerIsAnErrorThatNamesTheFile) {
  const Result<TextBundle> text = ReadTextBundle({"digest", R"({"model": )", "", "", ""});
  ASSERT_FALSE(text.ok());
  EXPECT_NE(text.error().ToString().find("tokenizer.json"), std::string::npos);
}

}  // namespace
}  // namespace roost::router
