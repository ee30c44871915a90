// Each kind of pre-tokenizer, normalizer, post-processor and decoder of the format: it works as in the reference
// library (testdata/kinds.jsonl, made by make_kinds.py), or is refused by name.
#include <gtest/gtest.h>
#include <simdjson.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/utf8.h"
#include "common/json/json_node.h"
#include "common/text/normalizer.h"
#include "common/text/pre_tokenizer.h"
#include "common/text/tokenizer.h"
#include "tests/common/text/tokenizer_fixture.h"
#include "tests/support/sanitized.h"
#include "tests/support/source_dir.h"

namespace roost {
namespace {

using simdjson::dom::element;
using testing_support::FileParts;
using testing_support::LoadError;
using testing_support::ToJson;

constexpr char32_t kEnd = testing_support::kSanitized ? 0x12000 : 0x110000;
constexpr std::size_t kLimit = 1U << 20U;

// Surrogates, and planes in which no code points are assigned or all are private.
bool IsLeftOut(char32_t c) { return (c >= 0xD800 && c <= 0xDFFF) || (c >= 0x33000 && c < 0xE0000) || c >= 0xE1000; }

// Calls `check` with each line that has the member `key`.
template <typename Check>
void ForEachLineWith(const char* key, Check check) {
  simdjson::dom::parser parser;
  const std::string path = std::string(testing_support::SourceDir()) + "/tests/common/text/testdata/kinds.jsonl";
  std::size_t count = 0;
  for (const element line : parser.load_many(path, 1U << 20U)) {
    element part;
    if (line[key].get(part) != simdjson::SUCCESS) continue;
    SCOPED_TRACE(simdjson::minify(part));
    check(line, part);
    ++count;
  }
  EXPECT_GE(count, 2U) << key;
}

std::string_view Text(element string) { return string; }

std::vector<TokenId> Ids(element array) {
  std::vector<TokenId> ids;
  for (const std::uint64_t id : array) ids.push_back(static_cast<TokenId>(id));
  return ids;
}

class PreTokenizerUnderTest {
 public:
  explicit PreTokenizerUnderTest(element part)
      : pre_tokenizer_(text::PreTokenizer::FromJson(JsonNode(part, "pre_tokenizer", source_)).value()) {}

  std::vector<std::string> Pieces(std::string_view text) {
    scratch_.now.Assign(text, true);
    regex_.budget().Start(text.size());
    EXPECT_TRUE(pre_tokenizer_.Apply(scratch_, kLimit, regex_).ok());
    std::vector<std::string> pieces;
    for (const auto& [begin, end] : scratch_.now.pieces) pieces.push_back(scratch_.now.text.substr(begin, end - begin));
    return pieces;
  }

 private:
  std::string source_ = "kinds.jsonl";
  text::PreTokenizer pre_tokenizer_;
  text::PreTokenizeScratch scratch_;
  text::RegexScratch regex_;
};

class NormalizerUnderTest {
 public:
  explicit NormalizerUnderTest(element part)
      : normalizer_(text::Normalizer::FromJson(JsonNode(part, "normalizer", source_)).value()) {}

  std::string Normalized(std::string text) {
    regex_.budget().Start(text.size());
    EXPECT_TRUE(normalizer_.Apply(text, kLimit, regex_).ok());
    return text;
  }

 private:
  std::string source_ = "kinds.jsonl";
  text::Normalizer normalizer_;
  text::RegexScratch regex_;
};

TEST(KindsTest, PreTokenizersCutAsTheReference) {
  ForEachLineWith("pre_tokenizer", [](element line, element part) {
    PreTokenizerUnderTest pre_tokenizer(part);
    for (const element expected : line["cases"]) {
      std::vector<std::string> pieces;
      for (const element piece : expected["pieces"]) pieces.emplace_back(Text(piece));
      EXPECT_EQ(pre_tokenizer.Pieces(Text(expected["text"])), pieces) << Text(expected["text"]);
    }
  });
}

// The cut of "xcx": "x|c|x".
std::string CutAround(char32_t c, PreTokenizerUnderTest& pre_tokenizer) {
  std::string character;
  AppendUtf8(c, character);
  std::string cut;
  for (const std::string& piece : pre_tokenizer.Pieces("x" + character + "x")) cut += (cut.empty() ? "" : "|") + piece;
  const std::size_t place = cut.find(character);
  if (c != 'x' && place != std::string::npos) cut.replace(place, character.size(), "c");
  return cut;
}

TEST(KindsTest, PreTokenizersKnowEveryCodePointAsTheReference) {
  int lines = 0;
  ForEachLineWith("pre_tokenizer", [&](element line, element part) {
    element cuts;
    if (line["cuts"].get(cuts) != simdjson::SUCCESS) return;
    ++lines;
    PreTokenizerUnderTest pre_tokenizer(part);
    std::map<char32_t, std::string> expected;
    for (const element run : cuts) expected[static_cast<char32_t>(std::uint64_t{run.at(0)})] = Text(run.at(1));
    int wrong = 0;
    for (char32_t c = 0; c < kEnd && wrong < 20; ++c) {
      if (IsLeftOut(c) || c == '|') continue;
      const std::string& cut = std::prev(expected.upper_bound(c))->second;
      const std::string actual = CutAround(c, pre_tokenizer);
      if (actual == cut) continue;
      ++wrong;
      ADD_FAILURE() << "U+" << std::hex << static_cast<std::uint32_t>(c) << ": " << actual << " instead of " << cut;
    }
  });
  EXPECT_EQ(lines, 4);
}

TEST(KindsTest, NormalizersRewriteAsTheReference) {
  ForEachLineWith("normalizer", [](element line, element part) {
    NormalizerUnderTest normalizer(part);
    for (const element expected : line["cases"]) {
      const std::string text(Text(expected["text"]));
      EXPECT_EQ(normalizer.Normalized(text), Text(expected["normalized"])) << text;
    }
    element changes;
    if (line["changes"].get(changes) != simdjson::SUCCESS) return;
    std::map<char32_t, std::string> changed;
    for (const element change : changes) {
      changed[static_cast<char32_t>(std::uint64_t{change.at(0)})] = Text(change.at(1));
    }
    ASSERT_GT(changed.size(), 1'000U);
    for (char32_t c = 0; c < kEnd; ++c) {
      if (IsLeftOut(c)) continue;
      std::string text;
      AppendUtf8(c, text);
      const auto found = changed.find(c);
      EXPECT_EQ(normalizer.Normalized(text), found == changed.end() ? text : found->second);
    }
  });
}

TEST(KindsTest, PostProcessorsFrameAsTheReference) {
  ForEachLineWith("post_processor", [](element line, element part) {
    FileParts parts;
    parts.model = R"({"type":"BPE","vocab":{"x":0},"merges":[]})";
    parts.post_processor = simdjson::minify(part);
    EXPECT_EQ(*testing_support::Load(parts)->Encode("xx", SpecialTokens::kAdd), Ids(line["ids"]));
  });
}

TEST(KindsTest, WholeTokenizersEncodeAsTheReference) {
  ForEachLineWith("tokenizer", [](element line, element part) {
    const auto tokenizer = Tokenizer::FromJson(simdjson::minify(part), "kinds.jsonl");
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().ToString();
    for (const element expected : line["cases"]) {
      const std::string_view text = Text(expected["text"]);
      EXPECT_EQ(*(*tokenizer)->Encode(text, SpecialTokens::kAdd), Ids(expected["ids"])) << text;
      if (const auto most = (*tokenizer)->most_bytes_per_token()) {
        EXPECT_LE(text.size(), *most * (*tokenizer)->Encode(text, SpecialTokens::kOmit)->size()) << text;
      }
    }
  });
}

// All kinds in the format, as of version 0.23 of the reference library.
struct KindCase {
  const char* part;
  const char* name;
  bool served;
  const char* options = "";
};
constexpr KindCase kKindCases[] = {
    {"pre_tokenizer", "BertPreTokenizer", true},
    {"pre_tokenizer", "ByteLevel", true, R"(,"add_prefix_space":false)"},
    {"pre_tokenizer", "CharDelimiterSplit", true, R"(,"delimiter":"-")"},
    {"pre_tokenizer", "Digits", true, R"(,"individual_digits":true)"},
    {"pre_tokenizer", "FixedLength", true},
    {"pre_tokenizer", "Metaspace", true, R"(,"replacement":"▁")"},
    {"pre_tokenizer", "Punctuation", true},
    {"pre_tokenizer", "Sequence", true, R"(,"pretokenizers":[])"},
    {"pre_tokenizer", "Split", true, R"(,"pattern":{"String":"a"},"behavior":"Removed","invert":false)"},
    {"pre_tokenizer", "UnicodeScripts", false},
    {"pre_tokenizer", "Whitespace", true},
    {"pre_tokenizer", "WhitespaceSplit", true},
    {"normalizer", "Bert", false},
    {"normalizer", "BertNormalizer", false},
    {"normalizer", "ByteLevel", true},
    {"normalizer", "Lowercase", true},
    {"normalizer", "NFC", true},
    {"normalizer", "NFD", true},
    {"normalizer", "NFKC", true},
    {"normalizer", "NFKD", true},
    {"normalizer", "Nmt", true},
    {"normalizer", "Precompiled", false},
    {"normalizer", "Prepend", true, R"(,"prepend":"a")"},
    {"normalizer", "Replace", true, R"(,"pattern":{"String":"a"},"content":"b")"},
    {"normalizer", "Sequence", true, R"(,"normalizers":[])"},
    {"normalizer", "Strip", true, R"(,"strip_left":true,"strip_right":true)"},
    {"normalizer", "StripAccents", false},
    {"post_processor", "BertProcessing", true, R"(,"cls":["a",0],"sep":["b",1])"},
    {"post_processor", "ByteLevel", true},
    {"post_processor", "RobertaProcessing", true, R"(,"cls":["a",0],"sep":["b",1])"},
    {"post_processor", "Sequence", true, R"(,"processors":[])"},
    {"post_processor", "TemplateProcessing", true, R"(,"single":[{"Sequence":{"id":"A","type_id":0}}])"},
    {"decoder", "BPEDecoder", false},
    {"decoder", "ByteFallback", true},
    {"decoder", "ByteLevel", true},
    {"decoder", "CTC", false},
    {"decoder", "Fuse", true},
    {"decoder", "Metaspace", true, R"(,"replacement":"▁")"},
    {"decoder", "Replace", true, R"(,"pattern":{"String":"a"},"content":"b")"},
    {"decoder", "Sequence", true, R"(,"decoders":[])"},
    {"decoder", "Strip", true, R"(,"content":" ","start":1,"stop":0)"},
    {"decoder", "WordPiece", false},
    {"model", "BPE", true, R"(,"vocab":{},"merges":[])"},
    {"model", "Unigram", false},
    {"model", "WordLevel", false},
    {"model", "WordPiece", false},
};

TEST(KindsTest, EveryKindOfTheFormatIsServedOrRefusedByName) {
  for (const KindCase& kind : kKindCases) {
    FileParts parts;
    const std::map<std::string_view, std::string*> members = {{"pre_tokenizer", &parts.pre_tokenizer},
                                                              {"normalizer", &parts.normalizer},
                                                              {"post_processor", &parts.post_processor},
                                                              {"decoder", &parts.decoder},
                                                              {"model", &parts.model}};
    *members.at(kind.part) = fmt::format(R"({{"type":"{}"{}}})", kind.name, kind.options);
    const std::string refusal = fmt::format("tokenizer.json: {}.type: '{}' is not supported", kind.part, kind.name);
    EXPECT_EQ(LoadError(ToJson(parts)), kind.served ? "" : refusal) << kind.part << " " << kind.name;
  }
}

TEST(KindsTest, NamesOptionsThatCanNotBe) {
  const auto error_of = [](std::string_view pre_tokenizer, std::string_view post_processor = "null") {
    FileParts parts;
    parts.pre_tokenizer = pre_tokenizer;
    parts.post_processor = post_processor;
    return LoadError(ToJson(parts));
  };
  EXPECT_EQ(error_of(R"({"type":"FixedLength","length":0})"),
            "tokenizer.json: pre_tokenizer.length: must be at least 1");
  EXPECT_EQ(error_of(R"({"type":"CharDelimiterSplit","delimiter":"ab"})"),
            "tokenizer.json: pre_tokenizer.delimiter: must be one character");
  EXPECT_EQ(error_of(R"({"type":"Punctuation","behavior":"Other"})"),
            "tokenizer.json: pre_tokenizer.behavior: 'Other' is not supported");
  EXPECT_EQ(error_of("null", R"({"type":"BertProcessing","cls":["a"],"sep":["b",1]})"),
            "tokenizer.json: post_processor.cls: must be a token and its id");
  EXPECT_EQ(error_of("null", R"({"type":"RobertaProcessing","cls":["a",0]})"),
            "tokenizer.json: post_processor.sep: is missing");
}

}  // namespace
}  // namespace roost
