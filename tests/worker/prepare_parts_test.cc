// The tokens that end an answer: those of the files, the tokenizer's end token, and what the template writes.
#include "worker/prepare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/text/jinja/value.h"

namespace roost::worker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Letters, and the added tokens <end> (7, special), <turn> (8, not special), <start> (9, special).
constexpr std::string_view kTokenizer =
    R"({"version":"1.0","added_tokens":[)"
    R"({"id":7,"content":"<end>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},)"
    R"({"id":8,"content":"<turn>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":false},)"
    R"({"id":9,"content":"<start>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],)"
    R"("normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true},)"
    R"("post_processor":null,"decoder":{"type":"ByteLevel"},"model":{"type":"BPE","dropout":null,"unk_token":null,)"
    R"("continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,)"
    R"("vocab":{"a":0,"b":1,"Ċ":2,"Ġ":3,"#":4,"U":5,":":6},"merges":[]}})";

constexpr std::string_view kChat = "{% for m in messages %}<start>{{ m.content }}BEHIND{% endfor %}";

ModelText TextWith(std::string_view behind, std::string eos_token = "") {
  ModelText text;
  text.vocab_size = 16;
  text.tokenizer_json = kTokenizer;
  text.eos_token = std::move(eos_token);
  text.chat_template = kChat;
  text.chat_template.replace(text.chat_template.find("BEHIND"), 6, behind);
  return text;
}

std::vector<TokenId> EndsOf(ModelText text) {
  const auto tokenizer = CompleteText(text, "folder");
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.error().ToString();
  return text.stop_tokens;
}

TEST(PrepareParts, TheTokenizersEndTokenEndsAnAnswer) {
  EXPECT_THAT(EndsOf(TextWith("", "<end>")), ElementsAre(7));
  EXPECT_THAT(EndsOf(TextWith("", "<no token>")), IsEmpty());
}

TEST(PrepareParts, WhatTheTemplateWritesBehindAnAnswerEndsIt) {
  EXPECT_THAT(EndsOf(TextWith("<end>\n")), ElementsAre(7));
  EXPECT_THAT(EndsOf(TextWith("<turn>\n", "<end>")), ElementsAre(7, 8));
  EXPECT_THAT(EndsOf(TextWith("\n<turn>")), ElementsAre(8));
  EXPECT_THAT(EndsOf(TextWith("{{ eos_token }}", "<end>")), ElementsAre(7));
}

TEST(PrepareParts, OrdinaryTextEndsNothing) {
  EXPECT_THAT(EndsOf(TextWith("\n##U:")), IsEmpty());
  EXPECT_THAT(EndsOf(TextWith("\n\n")), IsEmpty());
}

TEST(PrepareParts, TheFilesTokensStayAndNoneComesTwice) {
  ModelText text = TextWith("<end>", "<end>");
  text.stop_tokens = {3, 7};
  EXPECT_THAT(EndsOf(std::move(text)), ElementsAre(3, 7));
}

TEST(PrepareParts, ATokenThatTheModelCanNotWriteIsLeftOut) {
  ModelText text = TextWith("<turn>");
  text.vocab_size = 8;
  EXPECT_THAT(EndsOf(std::move(text)), IsEmpty());
}

TEST(PrepareParts, HarmonysMessagesAreNotAnswers) {
  EXPECT_THAT(EndsOf(TextWith("<end>{# <|channel|> #}")), IsEmpty());
}

TEST(PrepareParts, AProcessThatWouldBeKilledDoesNotStart) {
  constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;
  EXPECT_EQ(MemoryBesideProcess(100 * kMiB).value(), 36 * kMiB);
  const Result<std::uint64_t> none = MemoryBesideProcess(40 * kMiB);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().field, "memory");
  EXPECT_EQ(none.error().message, "40 MiB may be used here, and a worker needs 64 MiB beside weights and KV");
}

}  // namespace
}  // namespace roost::worker
