// Unusable files: each is refused with the place of the error, and none crashes.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "tests/common/text/tokenizer_fixture.h"
#include "tests/support/source_dir.h"

namespace roost {
namespace {

using testing_support::FileParts;
using testing_support::LoadError;
using testing_support::ToJson;

std::string ErrorOf(std::string FileParts::*part, std::string text) {
  FileParts parts;
  parts.*part = std::move(text);
  return LoadError(ToJson(parts));
}

TEST(BadTokenizerFileTest, TheGoodOneLoads) { EXPECT_EQ(LoadError(ToJson(FileParts{})), ""); }

TEST(BadTokenizerFileTest, IsRefusedWhereverItIsCut) {
  std::ifstream file(std::string(testing_support::SourceDir()) +
                     "/tests/common/text/testdata/gpt2_style.tokenizer.json");
  std::stringstream bytes;
  bytes << file.rdbuf();
  const std::string whole = bytes.str();
  ASSERT_GT(whole.size(), 5000U);
  for (std::size_t size = 0; size < whole.size(); size += 1 + size / 40) {
    EXPECT_EQ(LoadError(whole.substr(0, size)).rfind("tokenizer.json: is not valid JSON", 0), 0U) << size;
  }
}

TEST(BadTokenizerFileTest, IsRefusedOrLoadedWhateverByteIsChanged) {
  const std::string good = ToJson(FileParts{});
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const char c : {'\0', '"', '[', '}', '9', '-', 'x', '\xFF'}) {
      std::string bad = good;
      bad[i] = c;
      const std::string error = LoadError(bad);
      EXPECT_TRUE(error.empty() || error.rfind("tokenizer.json: ", 0) == 0) << error;
    }
  }
}

TEST(BadTokenizerFileTest, NamesUnsupportedParts) {
  const std::string unknown = R"({"type":"Whatever"})";
  EXPECT_EQ(ErrorOf(&FileParts::pre_tokenizer, R"({"type":"UnicodeScripts"})"),
            "tokenizer.json: pre_tokenizer.type: 'UnicodeScripts' is not supported");
  EXPECT_EQ(ErrorOf(&FileParts::pre_tokenizer, R"({"type":"Sequence","pretokenizers":[{"type":"Nothing"}]})"),
            "tokenizer.json: pre_tokenizer.pretokenizers[0].type: 'Nothing' is not supported");
  EXPECT_EQ(ErrorOf(&FileParts::normalizer, unknown), "tokenizer.json: normalizer.type: 'Whatever' is not supported");
  EXPECT_EQ(ErrorOf(&FileParts::post_processor, unknown),
            "tokenizer.json: post_processor.type: 'Whatever' is not supported");
  EXPECT_EQ(ErrorOf(&FileParts::decoder, R"({"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"WordPiece"}]})"),
            "tokenizer.json: decoder.decoders[1].type: 'WordPiece' is not supported");
  EXPECT_EQ(ErrorOf(&FileParts::model, R"({"type":"Unigram","vocab":[]})"),
            "tokenizer.json: model.type: 'Unigram' is not supported");
  EXPECT_EQ(ErrorOf(&FileParts::model, R"({"type":"BPE","dropout":0.1,"vocab":{},"merges":[]})"),
            "tokenizer.json: model.dropout: only null is supported");
  EXPECT_EQ(ErrorOf(&FileParts::model, R"({"type":"BPE","end_of_word_suffix":"</w>","vocab":{},"merges":[]})"),
            "tokenizer.json: model.end_of_word_suffix: only null is supported");
}

TEST(BadTokenizerFileTest, NamesDecodersInAnOrderThatCanNotStream) {
  EXPECT_EQ(ErrorOf(&FileParts::decoder, R"({"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"ByteFallback"}]})"),
            "tokenizer.json: decoder.decoders[1].type: 'ByteFallback' is not supported at this place");
  EXPECT_EQ(ErrorOf(&FileParts::decoder, R"({"type":"Sequence","decoders":[{"type":"Fuse"},
                {"type":"Replace","pattern":{"String":"ab"},"content":"c"}]})"),
            "tokenizer.json: decoder.decoders[1].pattern.String: at this place only one character is supported");
  EXPECT_EQ(ErrorOf(&FileParts::decoder, R"({"type":"Replace","pattern":{"Regex":"a"},"content":"c"})"),
            "tokenizer.json: decoder.pattern.Regex: is not supported in a decoder");
}

TEST(BadTokenizerFileTest, NamesWrongTypes) {
  EXPECT_EQ(LoadError("[]"), "tokenizer.json: must be an object");
  EXPECT_EQ(LoadError("{}"), "tokenizer.json: model: is missing");
  EXPECT_EQ(ErrorOf(&FileParts::model, "7"), "tokenizer.json: model: must be an object");
  EXPECT_EQ(ErrorOf(&FileParts::model, R"({"vocab":[],"merges":[]})"),
            "tokenizer.json: model.vocab: must be an object");
  EXPECT_EQ(ErrorOf(&FileParts::model, R"({"vocab":{"a":-1},"merges":[]})"),
            "tokenizer.json: model.vocab: the id of 'a' must be a whole number below 4194304");
  EXPECT_EQ(ErrorOf(&FileParts::model, R"({"vocab":{"a":4000000000},"merges":[]})"),
            "tokenizer.json: model.vocab: the id of 'a' must be a whole number below 4194304");
  EXPECT_EQ(ErrorOf(&FileParts::model, R"({"vocab":{"a":0,"b":0},"merges":[]})"),
            "tokenizer.json: model.vocab: 'a' and 'b' have the same id, 0");
  EXPECT_EQ(ErrorOf(&FileParts::model, R"({"vocab":{"a":0,"a":1},"merges":[]})"),
            "tokenizer.json: model.vocab: 'a' occurs twice");
  EXPECT_EQ(ErrorOf(&FileParts::model, R"({"vocab":{},"merges":{}})"),
            "tokenizer.json: model.merges: must be an array");
  EXPECT_EQ(ErrorOf(&FileParts::model, R"({"vocab":{},"merges":[],"byte_fallback":1})"),
            "tokenizer.json: model.byte_fallback: must be true or false");
  EXPECT_EQ(ErrorOf(&FileParts::added_tokens, R"([{"id":1}])"), "tokenizer.json: added_tokens[0].content: is missing");
  EXPECT_EQ(ErrorOf(&FileParts::pre_tokenizer, R"({"type":"ByteLevel"})"),
            "tokenizer.json: pre_tokenizer.add_prefix_space: is missing");
  EXPECT_EQ(ErrorOf(&FileParts::pre_tokenizer, R"({"type":"Metaspace","replacement":"ab"})"),
            "tokenizer.json: pre_tokenizer.replacement: must be one character");
  EXPECT_EQ(ErrorOf(&FileParts::post_processor, R"({"type":"TemplateProcessing","special_tokens":{},
                "single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}]})"),
            "tokenizer.json: post_processor.special_tokens.<s>: is missing");
}

TEST(BadTokenizerFileTest, NamesMergesThatCanNotBe) {
  const auto merges = [](std::string_view entry) {
    return ErrorOf(&FileParts::model, fmt::format(R"({{"vocab":{{"a":0,"b":1}},"merges":[{}]}})", entry));
  };
  EXPECT_EQ(merges(R"("a c")"), "tokenizer.json: model.merges: entry 0: 'c' is not in the vocabulary");
  EXPECT_EQ(merges(R"("a b")"), "tokenizer.json: model.merges: entry 0: 'ab' is not in the vocabulary");
  EXPECT_EQ(merges(R"("ab")"), "tokenizer.json: model.merges: entry 0: must be two tokens with one space between them");
  EXPECT_EQ(merges(R"(["a"])"), "tokenizer.json: model.merges: entry 0: must be a string or a pair of strings");
  EXPECT_EQ(merges("5"), "tokenizer.json: model.merges: entry 0: must be a string or a pair of strings");
}

TEST(BadTokenizerFileTest, RefusesWhatIsTooLarge) {
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += R"({"type":"Sequence","normalizers":[)";
  for (int i = 0; i < 100; ++i) deep += "]}";
  EXPECT_NE(ErrorOf(&FileParts::normalizer, deep).find("is not valid JSON"), std::string::npos);
  EXPECT_EQ(ErrorOf(&FileParts::added_tokens,
                    fmt::format(R"([{{"id":3,"content":"{}","single_word":false,"lstrip":false,"rstrip":false,
                      "normalized":false,"special":true}}])",
                                std::string(1025, 'x'))),
            "tokenizer.json: added_tokens[0].content: is over the limit of 1024 bytes");
}

TEST(BadTokenizerFileTest, RefusesPatternsThatWouldMatchOtherwiseThanTheReference) {
  for (const std::string_view pattern : {R"(\\b)",
                                         R"(\\w)",
                                         R"(a\\1)",
                                         "[[:alpha:]]",
                                         "[a[bc]]",
                                         "[a-z&&[^b]]",
                                         "[]a]",
                                         R"(\\p{Alpha})",
                                         R"(\\p{^L})",
                                         R"(\\pL)",
                                         "(?m:a)",
                                         "(?<name>a)",
                                         "(?#x)",
                                         "a(?i)b",
                                         "(?i)ss",
                                         "(?i)é",
                                         R"((?i)\\p{Lu})",
                                         "a{2}?",
                                         "(?:a*)*",
                                         "(?:a|b?|c){1,3}",
                                         "(?:(?=a)|(?:b?)c?)+",
                                         "(?=a).*",
                                         "$(?:.{2,})",
                                         R"((?i:[a\\p{L}]))",
                                         R"((?i)[\\S])",
                                         "a+*",
                                         "a{2}{3}",
                                         "*a",
                                         "(?=a)+",
                                         "(",
                                         ")",
                                         "[a",
                                         "a\\\\",
                                         R"(\\x{110000})",
                                         R"(\\xE9)",
                                         "[b-a]",
                                         R"([a-\\s])",
                                         "[a-c-e]",
                                         R"(\\K)",
                                         R"(\\R)",
                                         R"(\\X)",
                                         R"(\\Qa\\E)"}) {
    const std::string error = ErrorOf(
        &FileParts::pre_tokenizer,
        fmt::format(R"({{"type":"Split","pattern":{{"Regex":"{}"}},"behavior":"Isolated","invert":false}})", pattern));
    EXPECT_EQ(error.rfind("tokenizer.json: pre_tokenizer.pattern.Regex: regular expression", 0), 0U)
        << pattern << " gives '" << error << "'";
  }
}

TEST(BadTokenizerFileTest, SaysThatAFileIsNotThere) {
  const auto loaded = Tokenizer::FromFile("/no/such/tokenizer.json");
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(loaded.error().ToString(), "/no/such/tokenizer.json: can not be opened: No such file or directory");
}

}  // namespace
}  // namespace roost
