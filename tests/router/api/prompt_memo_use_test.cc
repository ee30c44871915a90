// The requests that share the router's prompt memo.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "tests/router/api/api_fixture.h"

namespace roost::router {
namespace {

class PromptMemoUseTest : public ApiTest {
 protected:
  PromptMemoUseTest() {
    ServedModel model = ByteModel();
    model.max_context_tokens = 4000;
    Serve(std::move(model));
  }

  // The bytes of the request's prompt that the memo had.
  std::uint64_t KnownOf(const std::string& path, const std::string& fields) {
    const std::uint64_t before = prompt_memo_->counts().known_bytes;
    Ask("POST", path, R"({"model":"bytes",)" + fields + "}");
    return prompt_memo_->counts().known_bytes - before;
  }
  std::uint64_t KnownOfChat(const std::string& fields) { return KnownOf("/v1/chat/completions", fields); }

  static std::string Messages(const std::string& last) {
    return R"("messages":[{"role":"user","content":")" + std::string(300, 'a') + R"("},{"role":"user","content":")" +
           last + R"("}])";
  }

  static constexpr std::uint64_t kFirstTurn = 327;  // <|im_start|>user\n, 300 bytes, <|im_end|>
};

TEST_F(PromptMemoUseTest, TheNextTurnKnowsTheOneBefore) {
  EXPECT_EQ(KnownOfChat(Messages("b")), 0U);
  EXPECT_EQ(KnownOfChat(Messages("c")), kFirstTurn);
  ASSERT_EQ(dispatcher_.specs.size(), 2U);
  const GenerateSpec& spec = dispatcher_.specs.back();
  const std::string text = "<|im_start|>user\n" + std::string(300, 'a') +
                           "<|im_end|>\n<|im_start|>user\nc<|im_end|>\n" + "<|im_start|>assistant\n";
  EXPECT_EQ(spec.generate.prompt, *spec.model->tokenizer->Encode(text, SpecialTokens::kOmit));
  EXPECT_EQ(spec.generate.block_hashes,
            HashBlocks(ScopeRoot(*spec.model, "", ""), spec.generate.prompt, spec.model->block_tokens));
}

TEST_F(PromptMemoUseTest, PromptsOfOtherSaltsAreNotKnown) {
  KnownOfChat(Messages("b") + R"(,"cache_salt":"one")");
  EXPECT_EQ(KnownOfChat(Messages("c") + R"(,"cache_salt":"two")"), 0U);
  EXPECT_EQ(KnownOfChat(Messages("c")), 0U);
  EXPECT_EQ(KnownOfChat(Messages("c") + R"(,"cache_salt":"one")"), kFirstTurn);
}

TEST_F(PromptMemoUseTest, AnEvictionLeavesNothing) {
  KnownOfChat(Messages("b"));
  Ask("POST", "/admin/v1/evict", R"({"tenant":"hens"})");
  EXPECT_EQ(prompt_memo_->counts().held_bytes, 0U);
  EXPECT_EQ(KnownOfChat(Messages("c")), 0U);
}

TEST_F(PromptMemoUseTest, WithoutCacheNothingIsKept) {
  EXPECT_EQ(KnownOfChat(Messages("b") + R"(,"cache":"off")"), 0U);
  EXPECT_EQ(prompt_memo_->counts().held_bytes, 0U);
  KnownOfChat(Messages("b"));
  EXPECT_EQ(KnownOfChat(Messages("b") + R"(,"cache":"off")"), 0U);
}

TEST_F(PromptMemoUseTest, ChatsAndTokenizeShareWhatTheyKnow) {
  KnownOfChat(Messages("b"));
  EXPECT_EQ(KnownOf("/tokenize", Messages("c")), kFirstTurn);
  EXPECT_EQ(KnownOf("/v1/responses", R"("input":")" + std::string(300, 'a') + R"(")"), kFirstTurn);
}

TEST_F(PromptMemoUseTest, CompletionsKnowTheirOwn) {
  const std::string prompt = R"("prompt":")" + std::string(300, 'a') + R"(<|im_end|> b")";
  EXPECT_EQ(KnownOf("/v1/completions", prompt), 0U);
  EXPECT_EQ(KnownOf("/v1/completions", prompt), 310U);
  const GenerateSpec& spec = dispatcher_.specs.back();
  EXPECT_EQ(spec.generate.prompt.front(), kBos);
  EXPECT_EQ(spec.generate.block_hashes,
            HashBlocks(ScopeRoot(*spec.model, "", ""), spec.generate.prompt, spec.model->block_tokens));
}

}  // namespace
}  // namespace roost::router
