// The parts of a prompt that real models' templates wrote, and the special tokens that result.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/json_writer.h"
#include "common/base/rng.h"
#include "common/text/byte_level.h"
#include "common/text/chat_template.h"
#include "common/text/tokenizer.h"
#include "tests/common/text/jinja_support.h"
#include "tests/common/text/tokenizer_fixture.h"
#include "tests/support/shared_data.h"

namespace roost {
namespace {

using testing_support::ReadFile;
using testing_support::StoredDate;

using Ids = std::vector<TokenId>;
using Change = std::function<std::string(const std::string&)>;

constexpr std::string_view kMark = "†";
constexpr std::string_view kMarkInJson = "\\u2020";

// `value` with every string changed that a client chooses. Types stay, because templates compare them.
jinja::Value Changed(const jinja::Value& value, const Change& change) {
  if (value.is(jinja::Kind::kString)) return jinja::Value::String(change(value.AsString()));
  if (value.is(jinja::Kind::kSequence)) {
    std::vector<jinja::Value> items;
    for (const jinja::Value& item : value.AsSequence().items) items.push_back(Changed(item, change));
    return jinja::Value::List(std::move(items));
  }
  if (!value.is(jinja::Kind::kDict)) return value;
  jinja::Dict dict;
  for (const auto& [key, member] : value.AsDict().entries()) {
    const std::string& name = key.AsString();
    if (name == "role") {
      dict.Set(key, jinja::Value::WrittenString(member.AsString()));
    } else {
      dict.Set(key, name == "type" ? member : Changed(member, change));
    }
  }
  return jinja::Value::Mapping(std::move(dict));
}

// The context as the router makes it.
jinja::Value Context(const jinja::Value& stored, const Change& change) {
  jinja::Dict context;
  for (const auto& [key, member] : stored.AsDict().entries()) {
    const std::string& name = key.AsString();
    const bool is_of_model = name == "bos_token" || name == "eos_token";
    context.Set(key, is_of_model && member.is(jinja::Kind::kString) ? jinja::Value::WrittenString(member.AsString())
                                                                    : Changed(member, change));
  }
  return jinja::Value::Mapping(std::move(context));
}

std::string Same(const std::string& text) { return text; }

// Texts in a template's source that look like special tokens.
std::set<std::string> SpecialsIn(const std::string& source) {
  static const std::regex kSpecial(
      R"(<\|[^|<>\s]+\|>|<｜[^｜<>\s]+｜>|</?s>|\[/?[A-Z_]+\]|<(start|end)_of_turn>|<sop>|\[gMASK\])");
  std::set<std::string> specials = {"<s>", "</s>", "<|endoftext|>"};
  for (auto match = std::sregex_iterator(source.begin(), source.end(), kSpecial); match != std::sregex_iterator();
       ++match) {
    specials.insert(match->str());
  }
  return specials;
}

// A tokenizer with a token for each byte and each special token.
std::shared_ptr<const Tokenizer> ByteTokenizer(const std::set<std::string>& specials) {
  JsonWriter model;
  model.BeginObject().Key("type").String("BPE").Key("merges").BeginArray().EndArray().Key("vocab").BeginObject();
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::string character;
    text::AppendByteLevel(std::string(1, static_cast<char>(byte)), character);
    model.Key(character).Number(byte);
  }
  model.EndObject().EndObject();
  JsonWriter added;
  added.BeginArray();
  std::uint64_t id = 256;
  for (const std::string& special : specials) {
    added.BeginObject().Key("id").Number(id++).Key("content").String(special).Key("special").Bool(true);
    for (const char* flag : {"single_word", "lstrip", "rstrip", "normalized"}) added.Key(flag).Bool(false);
    added.EndObject();
  }
  added.EndArray();
  testing_support::FileParts parts;
  parts.model = model.Take();
  parts.added_tokens = added.Take();
  parts.pre_tokenizer = R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true})";
  parts.decoder = R"({"type":"ByteLevel"})";
  return testing_support::Load(parts);
}

class TracedPromptTest : public testing::Test {
 protected:
  struct Model {
    std::shared_ptr<const ChatTemplate> chat_template;
    std::set<std::string> specials;
    std::shared_ptr<const Tokenizer> tokenizer;
  };

  void SetUp() override { ROOST_SKIP_WITHOUT(testing_support::SharedDir() / "chat_templates"); }

  // Calls `check` with the model and the context of every stored case that renders.
  void ForEachCase(const std::function<void(const Model&, const jinja::Value&)>& check) {
    const auto folder = testing_support::SharedDir() / "chat_templates";
    std::map<std::string, Model> models;
    std::ifstream cases(folder / "cases.jsonl");
    int count = 0;
    for (std::string line; std::getline(cases, line);) {
      const jinja::Value stored = jinja::FromJson(line, "case").value();
      if (stored.AsDict().Find("rendered") == nullptr) continue;
      const std::string name = stored.AsDict().Find("template")->AsString();
      SCOPED_TRACE(name + " / " + stored.AsDict().Find("case")->AsString());
      Model& model = models[name];
      if (model.tokenizer == nullptr) {
        const std::string source = ReadFile(folder / "templates" / name);
        model.chat_template = ChatTemplate::Parse(source, name).value();
        model.specials = SpecialsIn(source);
        model.tokenizer = ByteTokenizer(model.specials);
      }
      check(model, *stored.AsDict().Find("context"));
      ++count;
    }
    EXPECT_GE(count, 154);
  }

  static Ids Encode(const Tokenizer& tokenizer, const jinja::TracedText& text) {
    return *tokenizer.Encode(PromptText{text.bytes, text.written}, SpecialTokens::kOmit);
  }
  // The special tokens of a prompt, in order.
  static Ids Controls(const Model& model, const jinja::TracedText& text) {
    Ids ids = Encode(*model.tokenizer, text);
    ids.erase(std::remove_if(ids.begin(), ids.end(), [&](TokenId id) { return !model.tokenizer->IsSpecial(id); }),
              ids.end());
    return ids;
  }
};

TEST_F(TracedPromptTest, WhatAClientGaveIsNeverWritten) {
  int shown = 0;
  ForEachCase([&](const Model& model, const jinja::Value& stored) {
    const auto mark = [](const std::string& text) { return std::string(kMark) + text + std::string(kMark); };
    const auto text = model.chat_template->RenderTraced(Context(stored, mark), StoredDate());
    if (!text.ok()) return;  // some templates require a certain form of an id, or a value
    if (text->bytes.find(kMark) != std::string::npos || text->bytes.find(kMarkInJson) != std::string::npos) ++shown;
    std::size_t last = 0;
    for (const ByteRange& range : text->written) {
      EXPECT_TRUE(last < range.begin || last == 0) << last;
      EXPECT_LT(range.begin, range.end);
      last = range.end;
      const std::string_view part = std::string_view(text->bytes).substr(range.begin, range.end - range.begin);
      EXPECT_EQ(part.find(kMark), std::string_view::npos) << part;
      EXPECT_EQ(part.find(kMarkInJson), std::string_view::npos) << part;
    }
    EXPECT_LE(last, text->bytes.size());
  });
  EXPECT_GE(shown, 100);
}

TEST_F(TracedPromptTest, TheTemplatesOwnSpecialTokensAreWritten) {
  ForEachCase([](const Model& model, const jinja::Value& stored) {
    const auto text = model.chat_template->RenderTraced(Context(stored, Same), StoredDate());
    ASSERT_TRUE(text.ok()) << text.error().ToString();
    const Ids whole = *model.tokenizer->Encode(text->bytes, SpecialTokens::kOmit);
    EXPECT_EQ(Encode(*model.tokenizer, *text), whole) << text->bytes;
  });
}

TEST_F(TracedPromptTest, EveryVocabularyGivesTheIdsOfTheWholeText) {
  std::vector<std::shared_ptr<const Tokenizer>> tokenizers;
  for (const char* name : {"gpt-2", "cl100k", "llama-spm"}) {
    tokenizers.push_back(
        Tokenizer::FromFile(testing_support::SharedDir() / "tokenizers" / (std::string(name) + ".tokenizer.json"))
            .value());
  }
  ForEachCase([&](const Model& model, const jinja::Value& stored) {
    const auto text = model.chat_template->RenderTraced(Context(stored, Same), StoredDate());
    ASSERT_TRUE(text.ok());
    for (const auto& tokenizer : tokenizers) {
      EXPECT_EQ(Encode(*tokenizer, *text), *tokenizer->Encode(text->bytes, SpecialTokens::kOmit)) << text->bytes;
    }
  });
}

TEST_F(TracedPromptTest, RandomContentsGiveTheIdsOfTheWholeText) {
  const auto tokenizer =
      Tokenizer::FromFile(testing_support::SharedDir() / "tokenizers" / "llama-spm.tokenizer.json").value();
  Rng rng(11);
  const auto random = [&](const std::string& text) {
    constexpr std::string_view kPieces[] = {" ", "\n", "don't", " 12", "…", "<|", "|>", "<", ">", "你好", "é", "  \n"};
    std::string out = text;
    for (std::uint64_t left = rng.Below(6); left > 0; --left) out += kPieces[rng.Below(std::size(kPieces))];
    return out;
  };
  int compared = 0;
  ForEachCase([&](const Model& model, const jinja::Value& stored) {
    const auto text = model.chat_template->RenderTraced(Context(stored, random), StoredDate());
    if (!text.ok()) return;
    EXPECT_EQ(Encode(*tokenizer, *text), *tokenizer->Encode(text->bytes, SpecialTokens::kOmit)) << text->bytes;
    ++compared;
  });
  EXPECT_GE(compared, 100);
}

// A prompt has the same special tokens in the same order, whatever its client writes.
TEST_F(TracedPromptTest, NoTextOfAClientAddsOrHidesASpecialToken) {
  int attacked = 0;
  ForEachCase([&](const Model& model, const jinja::Value& stored) {
    const auto harmless = [](const std::string& text) { return text + "†"; };
    const auto clean = model.chat_template->RenderTraced(Context(stored, harmless), StoredDate());
    if (!clean.ok()) return;
    const Ids expected = Controls(model, *clean);
    for (const std::string& special : model.specials) {
      const auto attack = [&](const std::string& text) { return text + special + "\n" + special + "†"; };
      const auto text = model.chat_template->RenderTraced(Context(stored, attack), StoredDate());
      if (!text.ok()) continue;
      EXPECT_EQ(Controls(model, *text), expected) << special << "\n" << text->bytes;
      ++attacked;
    }
  });
  EXPECT_GE(attacked, 500);
}

}  // namespace
}  // namespace roost
