// Conversations that grow turn by turn, rendered by real templates and tokenized by real vocabularies: the prompt memo
// must read each turn as the whole text would be read.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "common/base/json_writer.h"
#include "common/base/rng.h"
#include "common/text/chat_template.h"
#include "router/text/prompt_memo.h"
#include "tests/common/text/jinja_support.h"
#include "tests/support/shared_data.h"

namespace roost::router {
namespace {

using testing_support::ReadFile;
using testing_support::StoredDate;

// Adds the templates' turn markers to the file as added tokens, because these vocabularies lack them.
std::string WithMarkers(std::string json, const std::set<std::string>& markers) {
  const std::size_t begin = json.find('[', json.find("\"added_tokens\"")) + 1;
  std::string more;
  for (const std::string& marker : markers) {
    std::string content;
    AppendJsonString(marker, content);
    if (json.find("\"content\": " + content) != std::string::npos) continue;
    if (json.find("\"content\":" + content) != std::string::npos) continue;
    more += fmt::format(
        R"({{"id":900000,"content":{},"single_word":false,"lstrip":false,"rstrip":false,"normalized":false,)"
        R"("special":true}},)",
        content);
  }
  return json.insert(begin, more);
}

class PromptMemoCasesTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::filesystem::path shared = testing_support::SharedDir();
    ROOST_SKIP_WITHOUT(shared / "tokenizers");
    ROOST_SKIP_WITHOUT(shared / "chat_templates");
    std::set<std::string> markers = {"[INST]", "[/INST]",         "</s>",         "[gMASK]",
                                     "<sop>",  "<start_of_turn>", "<end_of_turn>"};
    const std::regex marker(R"(<[|｜][^<>{}' ]{1,40}[|｜]>)");
    for (const auto& file : std::filesystem::directory_iterator(shared / "chat_templates/templates")) {
      const std::string source = ReadFile(file.path());
      for (std::sregex_iterator at(source.begin(), source.end(), marker); at != std::sregex_iterator(); ++at) {
        markers.insert(at->str());
      }
      templates_[file.path().filename()] = ChatTemplate::Parse(source, file.path().filename().string()).value();
    }
    const std::string json = ReadFile(shared / "tokenizers" / (GetParam() + ".tokenizer.json"));
    tokenizer_ = Tokenizer::FromJson(WithMarkers(json, markers), GetParam()).value();
    corpus_ = ReadFile(shared / "corpus/tinyshakespeare.txt");
  }

  std::string Message(Rng& rng) {
    const std::size_t size = rng.Below(1500);
    std::string text = corpus_.substr(rng.Below(corpus_.size() - size), size);
    if (rng.Below(4) == 0) text += "<|im_end|></s>[INST]";  // written by a user
    if (rng.Below(4) == 0) text += " Grüße, 世界 ";
    return text;
  }

  static jinja::Value MessageOf(const std::string& role, std::string content) {
    jinja::Dict message;
    message.Set("role", jinja::Value::String(role));
    message.Set("content", jinja::Value::String(std::move(content)));
    return jinja::Value::Mapping(std::move(message));
  }

  static Result<jinja::TracedText> Render(const ChatTemplate& chat_template,
                                          const std::vector<jinja::Value>& messages) {
    jinja::Dict context;
    context.Set("messages", jinja::Value::List(messages));
    context.Set("add_generation_prompt", jinja::Value::Bool(true));
    context.Set("bos_token", jinja::Value::WrittenString("<s>"));
    context.Set("eos_token", jinja::Value::WrittenString("</s>"));
    return chat_template.RenderTraced(jinja::Value::Mapping(std::move(context)), StoredDate());
  }

  void ExpectWhole(PromptText text) {
    const Result<std::vector<TokenId>> whole = tokenizer_->Encode(text, SpecialTokens::kOmit);
    const Result<HashedTokens> read =
        memo_.Read({tokenizer_, SpecialTokens::kOmit, {1, 2}, 16}, text, Tokenizer::kAllTokens);
    ASSERT_TRUE(whole.ok() && read.ok());
    ASSERT_EQ(read->tokens, *whole);
    ASSERT_EQ(read->block_hashes, HashBlocks({1, 2}, *whole, 16));
  }

  std::map<std::string, std::shared_ptr<const ChatTemplate>> templates_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::string corpus_;
  PromptMemo memo_{4U << 20U};
};

TEST_P(PromptMemoCasesTest, EachTurnOfAConversationIsReadAsWhole) {
  constexpr int kTurns = 10;
  for (const auto& [name, chat_template] : templates_) {
    SCOPED_TRACE(name);
    Rng rng(std::hash<std::string>{}(name));
    std::vector<jinja::Value> messages;
    const PromptMemo::Counts before = memo_.counts();
    for (int turn = 0; turn < kTurns; ++turn) {
      messages.push_back(MessageOf("user", Message(rng)));
      const Result<jinja::TracedText> text = Render(*chat_template, messages);
      ASSERT_TRUE(text.ok()) << text.error().ToString();
      ExpectWhole({text->bytes, text->written});
      messages.push_back(MessageOf("assistant", Message(rng)));
    }
    const PromptMemo::Counts after = memo_.counts();
    RecordProperty(name, fmt::format("{:.2f}", static_cast<double>(after.known_bytes - before.known_bytes) /
                                                   static_cast<double>(after.read_bytes - before.read_bytes)));
    if (name.starts_with("Qwen")) {  // its turns stay the same, except the last answer
      EXPECT_GT(after.known_bytes - before.known_bytes, (after.read_bytes - before.read_bytes) / 2);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shared, PromptMemoCasesTest, testing::Values("cl100k", "gpt-2", "llama-spm"),
                         [](const auto& named) {
                           std::string name = named.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace roost::router
