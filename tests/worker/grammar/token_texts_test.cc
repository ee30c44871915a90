#include <gtest/gtest.h>

#include "common/text/tokenizer.h"
#include "worker/grammar/grammar_library.h"

namespace roost::worker {
namespace {

std::shared_ptr<const Tokenizer> TokenizerOf(const std::string& decoder, const std::string& vocab) {
  const std::string json = R"({"added_tokens":[{"id":4,"content":"<|end|>","single_word":false,"lstrip":false,)"
                           R"("rstrip":false,"normalized":false,"special":true},{"id":5,"content":"<think>",)"
                           R"("single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":false}],)"
                           R"("normalizer":null,"pre_tokenizer":null,"post_processor":null,"decoder":)" +
                           decoder + R"(,"model":{"type":"BPE","vocab":)" + vocab + R"(,"merges":[]}})";
  auto tokenizer = Tokenizer::FromJson(json, "tokenizer.json");
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.error().ToString();
  return *tokenizer;
}

TEST(TokenTextsTest, ByteLevelTokensAreTheirBytes) {
  const auto tokenizer = TokenizerOf(R"({"type":"ByteLevel"})", R"({"a":0,"Ġb":1,"Ċ":2,"Ã":3})");
  EXPECT_EQ(TokenTextsOf(*tokenizer, 8, {}), (TokenTexts{"a", " b", "\n", "\xC3", "", "<think>", "", ""}));
  EXPECT_EQ(TokenTextsOf(*tokenizer, 3, {0}), (TokenTexts{"", " b", "\n"}));
}

TEST(TokenTextsTest, PiecesOfSentencesAndBytesAreTheirText) {
  const auto tokenizer =
      TokenizerOf(R"({"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},)"
                  R"({"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]})",
                  R"({"a":0,"▁b":1,"<0x0A>":2,"<0xC3>":3})");
  EXPECT_EQ(TokenTextsOf(*tokenizer, 6, {}), (TokenTexts{"a", " b", "\n", "\xC3", "", "<think>"}));
}

}  // namespace
}  // namespace roost::worker
