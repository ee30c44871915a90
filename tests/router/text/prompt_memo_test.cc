// The prompt memo against tokenizing and hashing the whole text.
#include "router/text/prompt_memo.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/rng.h"
#include "tests/support/memo_driver.h"

namespace roost::router {
namespace {

using testing_support::AllWritten;
using testing_support::OwnedText;

constexpr std::size_t kAmple = 64U << 20U;

std::shared_ptr<const Tokenizer> ByteLevelTokenizer() {
  return testing_support::MakeMemoTokenizer(
      {testing_support::ByteLevelModelJson(), 260, "null", R"({"type":"ByteLevel","add_prefix_space":false})"});
}

// Each turn is one piece.
std::string Turn(const std::string& content) { return "<t>" + content + std::string(300, 'b') + "<e>"; }

class PromptMemoTest : public ::testing::Test {
 protected:
  // Reads `text`, which must give the same as tokenizing it whole; returns how many bytes were known.
  std::uint64_t Known(PromptMemo& memo, const OwnedText& text) { return Known(memo, text, scope_); }
  static std::uint64_t Known(PromptMemo& memo, const OwnedText& text, const PromptMemo::Scope& scope) {
    const std::uint64_t before = memo.counts().known_bytes;
    const Result<HashedTokens> read = memo.Read(scope, text.view(), Tokenizer::kAllTokens);
    const Result<std::vector<TokenId>> whole = scope.tokenizer->Encode(text.view(), scope.special_tokens);
    EXPECT_TRUE(read.ok() && whole.ok());
    EXPECT_EQ(read->tokens, *whole);
    EXPECT_EQ(read->block_hashes, HashBlocks(scope.root, *whole, scope.block_tokens));
    return memo.counts().known_bytes - before;
  }

  PromptMemo::Scope scope_{ByteLevelTokenizer(), SpecialTokens::kOmit, {1, 2}, 16};
};

TEST_F(PromptMemoTest, KnowsAllPiecesOfTheLastTurn) {
  PromptMemo memo(kAmple);
  std::string text = Turn("system");
  EXPECT_EQ(Known(memo, AllWritten(text + "assistant")), 0U);
  for (int turn = 0; turn < 20; ++turn) {
    const std::size_t before = text.size();
    text += Turn(std::to_string(turn));
    EXPECT_EQ(Known(memo, AllWritten(text + "assistant")), before);
  }
}

TEST_F(PromptMemoTest, ShortTurnsMakeAPieceTogether) {
  PromptMemo memo(kAmple);
  std::string text;
  for (int turn = 0; turn < 100; ++turn) text += "hi<e>";
  Known(memo, AllWritten(text));
  EXPECT_EQ(Known(memo, AllWritten(text + "b")), 260U);  // the first turn end after 256 bytes
}

TEST_F(PromptMemoTest, ForgetsAllTextsAtOnce) {
  PromptMemo memo(kAmple);
  const OwnedText text = AllWritten(Turn("system") + Turn("question"));
  Known(memo, text);
  EXPECT_GT(Known(memo, text), 0U);
  memo.Clear();
  EXPECT_EQ(memo.counts().held_bytes, 0U);
  EXPECT_EQ(Known(memo, text), 0U);
  EXPECT_GT(Known(memo, text), 0U);
}

TEST_F(PromptMemoTest, TextsWithoutAddedTokensAreNotKept) {
  PromptMemo memo(kAmple);
  const OwnedText text = AllWritten(std::string(10'000, 'a'));
  Known(memo, text);
  EXPECT_EQ(Known(memo, text), 0U);
  EXPECT_EQ(memo.counts().held_bytes, 0U);
}

TEST_F(PromptMemoTest, EqualBytesWithOtherWrittenRangesAreAnotherText) {
  PromptMemo memo(kAmple);
  OwnedText given;
  given.Write("<t>");
  given.Give("abab <e> abab");
  given.Write(std::string(300, 'b') + "<e>");
  const OwnedText written = AllWritten(given.bytes);
  Known(memo, written);
  EXPECT_EQ(Known(memo, given), 0U);
  EXPECT_EQ(Known(memo, given), given.bytes.size());
  EXPECT_EQ(Known(memo, written), given.bytes.size());
  EXPECT_NE(memo.Read(scope_, given.view(), 10'000)->tokens, memo.Read(scope_, written.view(), 10'000)->tokens);
}

// The text right after a cut decides about the last token before it.
TEST_F(PromptMemoTest, ACutMovesWithWhatFollowsIt) {
  PromptMemo memo(kAmple);
  const std::string filler(300, 'b');
  for (const std::string end : {"<e>", "x<e>", "Ww", "<e><e>", " <l>", "<r>", "<r> ", "<wl>", "<lr>"}) {
    for (const std::string next : {"", "b", "y", "<e>", "  ", "a", " <l>", "<e>b"}) {
      Known(memo, AllWritten(filler + end + next));
      Known(memo, AllWritten(filler + end + next + filler + "<t>"));
    }
  }
}

TEST_F(PromptMemoTest, ScopesShareNothing) {
  PromptMemo memo(kAmple);
  const OwnedText text = AllWritten(Turn("a") + Turn("b"));
  std::vector<PromptMemo::Scope> scopes(5, scope_);
  scopes[1].root = {1, 3};
  scopes[2].special_tokens = SpecialTokens::kAdd;
  scopes[3].block_tokens = 4;
  scopes[4].tokenizer = ByteLevelTokenizer();
  for (const PromptMemo::Scope& scope : scopes) EXPECT_EQ(Known(memo, text, scope), 0U);
  for (const PromptMemo::Scope& scope : scopes) EXPECT_EQ(Known(memo, text, scope), text.bytes.size());
}

TEST_F(PromptMemoTest, ANewTokenizerInTheOldOnesPlaceKnowsNothing) {
  PromptMemo memo(kAmple);
  const OwnedText text = AllWritten(Turn("a"));
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(Known(memo, text), 0U);
    scope_.tokenizer = nullptr;
    scope_.tokenizer = ByteLevelTokenizer();
  }
}

TEST_F(PromptMemoTest, StopsAtTheSameTokenAsTheTokenizer) {
  PromptMemo memo(kAmple);
  const OwnedText text = AllWritten(Turn("a") + Turn("b") + Turn("c"));
  const std::size_t all = scope_.tokenizer->Encode(text.view(), scope_.special_tokens)->size();
  for (int round = 0; round < 2; ++round) {
    for (std::size_t most = 0; most <= all + 1; ++most) {
      EXPECT_EQ(memo.Read(scope_, text.view(), most)->tokens,
                *scope_.tokenizer->Encode(text.view(), scope_.special_tokens, most));
    }
  }
}

TEST_F(PromptMemoTest, IllFormedTextIsReadAsTheTokenizerReadsIt) {
  PromptMemo memo(kAmple);
  const OwnedText text = AllWritten(Turn("a\xFF"));
  Known(memo, text);
  EXPECT_EQ(Known(memo, text), 0U);
}

TEST_F(PromptMemoTest, EvictsTheEndsOfTheConversationsUsedLeastRecently) {
  const OwnedText old_text = AllWritten(Turn("old 0") + Turn("old 1") + Turn("old 2") + Turn("old 3"));
  const std::size_t turn_bytes = old_text.bytes.size() / 4;
  std::size_t old_bytes = 0;
  {
    PromptMemo ample(kAmple);
    Known(ample, old_text);
    old_bytes = ample.counts().held_bytes;
  }
  PromptMemo memo(2 * old_bytes + 200);  // two conversations fit, but not another turn
  Known(memo, old_text);
  const OwnedText other = AllWritten(Turn("new 0") + Turn("new 1") + Turn("new 2") + Turn("new 3"));
  Known(memo, other);
  EXPECT_EQ(memo.counts().evicted_count, 0U);
  Known(memo, AllWritten(Turn("one") + Turn("two")));
  EXPECT_EQ(memo.counts().evicted_count, 2U);
  EXPECT_EQ(Known(memo, other), other.bytes.size());
  EXPECT_EQ(Known(memo, old_text), 2 * turn_bytes);
}

TEST_F(PromptMemoTest, HoldsNoMoreThanItsBound) {
  PromptMemo memo(20'000);
  Rng rng(7);
  for (int i = 0; i < 300; ++i) {
    std::string text;
    for (std::uint64_t turn = 0; turn <= rng.Below(40); ++turn) text += Turn(std::to_string(rng.Below(3)));
    Known(memo, AllWritten(text));
    EXPECT_LE(memo.counts().held_bytes, 20'000U);
  }
  EXPECT_GT(memo.counts().evicted_count, 0U);
  Known(memo, AllWritten(Turn(std::string(100'000, 'a'))));  // alone larger than the limit
  EXPECT_LE(memo.counts().held_bytes, 20'000U);
}

TEST_F(PromptMemoTest, WithoutBytesItKeepsNothing) {
  PromptMemo memo(0);
  const OwnedText text = AllWritten(Turn("a"));
  Known(memo, text);
  EXPECT_EQ(Known(memo, text), 0U);
  EXPECT_EQ(memo.counts().read_bytes, 2 * text.bytes.size());
}

TEST_F(PromptMemoTest, RandomTextsAreReadAsWhole) {
  const auto tokenizers = testing_support::MemoTokenizers();
  std::uint64_t known_bytes = 0;
  std::uint64_t evicted = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    std::vector<std::uint8_t> program(3000);
    for (std::uint8_t& byte : program) byte = static_cast<std::uint8_t>(rng.Below(256));
    testing_support::MemoDriver driver(tokenizers);
    driver.Run(program);
    known_bytes += driver.counts().known_bytes;
    evicted += driver.counts().evicted_count;
  }
  EXPECT_GT(known_bytes, 100'000U);
  EXPECT_GT(evicted, 100U);
}

TEST_F(PromptMemoTest, ThreadsReadEqualPromptsAtTheSameTime) {
  PromptMemo memo(30'000);  // pieces are evicted all the time
  std::vector<OwnedText> texts;
  for (int talk = 0; talk < 6; ++talk) {
    std::string text = Turn("system");
    for (int turn = 0; turn < 12; ++turn) {
      text += Turn(std::to_string(talk) + " " + std::to_string(turn));
      texts.push_back(AllWritten(text + "assistant"));
    }
  }
  std::vector<std::thread> threads;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      Rng rng(seed);
      for (int i = 0; i < 200; ++i) {
        const OwnedText& text = texts[rng.Below(texts.size())];
        const Result<HashedTokens> read = memo.Read(scope_, text.view(), Tokenizer::kAllTokens);
        ASSERT_TRUE(read.ok());
        ASSERT_EQ(read->tokens, *scope_.tokenizer->Encode(text.view(), scope_.special_tokens));
        ASSERT_EQ(read->block_hashes, HashBlocks(scope_.root, read->tokens, scope_.block_tokens));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(memo.counts().held_bytes, 30'000U);
  EXPECT_GT(memo.counts().known_bytes, 0U);
}

}  // namespace
}  // namespace roost::router
