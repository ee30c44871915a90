// Drives a prompt memo with any bytes, and compares what it reads with tokenizing the whole text: texts that begin like
// earlier ones, with other written ranges, under several scopes and limits, while pieces are evicted.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "router/text/prompt_memo.h"
#include "tests/support/memo_tokenizers.h"
#include "tests/support/prompt_texts.h"

namespace roost::testing_support {

class MemoDriver {
 public:
  static constexpr std::size_t kMaxBytes = 24 * 1024;  // some twenty pieces

  explicit MemoDriver(std::vector<std::shared_ptr<const Tokenizer>> tokenizers)
      : tokenizers_(std::move(tokenizers)), memo_(kMaxBytes, 1) {}

  // Reads texts until the bytes are used up.
  void Run(std::span<const std::uint8_t> program) {
    program_ = program;
    const std::uint8_t home = Next();
    for (int texts = 0; !program_.empty() && texts < kMaxTexts; ++texts) ReadOne(NextText(), home);
  }
  [[nodiscard]] router::PromptMemo::Counts counts() const { return memo_.counts(); }

 private:
  static constexpr int kMaxTexts = 64;
  static constexpr std::size_t kMaxTextBytes = 8 * 1024;

  std::uint8_t Next() {
    if (program_.empty()) return 0;
    const std::uint8_t byte = program_.front();
    program_ = program_.subspan(1);
    return byte;
  }

  std::string Fragment() {
    static constexpr std::array<std::string_view, 28> kFragments = {
        "<e>",  "<e>b",  "x<e>y", "Ww",        " Ww ",     "<l>",  "<r>", "<n>", "<m>", "<t>",
        "<lr>", "<wl>",  "<nr>",  "<nw>",      " ",        "\n  ", "x",   "b",   "y",   "e>",
        "<",    "abab ", "你",    "e\xCC\x81", "\xCC\x81", "é",    "ab",  " a"};
    const std::uint8_t kind = Next();
    if (kind < 3 * kFragments.size()) return std::string(kFragments[kind % kFragments.size()]);
    if (kind == 149) return "\xE4";  // ill-formed, and so is a text that continues it
    if (kind < 149) return std::string(1, static_cast<char>(Next() & 0x7FU));
    std::string filler;  // about a piece's length
    while (filler.size() < kind) filler += kind % 2 == 0 ? "abab a " : "b ab";
    return filler;
  }

  // Begins like an earlier text, up to any place, and continues with fragments.
  OwnedText NextText() {
    OwnedText text;
    if (!texts_.empty()) {
      const OwnedText& other = texts_[Next() % texts_.size()];
      const std::size_t share = Next();
      const std::size_t end = share > 100 ? other.bytes.size() : other.bytes.size() * share / 100;
      text.bytes = other.bytes.substr(0, end);
      for (const ByteRange& range : other.written) {
        if (range.begin < end) text.written.push_back({range.begin, std::min(range.end, end)});
      }
    }
    const std::size_t fragments = Next() % 16;
    for (std::size_t i = 0; i < fragments && text.bytes.size() < kMaxTextBytes; ++i) {
      const bool is_written = Next() % 4 != 0;
      const std::string fragment = Fragment();
      is_written ? text.Write(fragment) : text.Give(fragment);
    }
    if (Next() % 16 == 0) Rewrite(text);
    texts_.push_back(text);
    if (texts_.size() > 8) texts_.erase(texts_.begin());
    return text;
  }

  // The same bytes with other written ranges.
  void Rewrite(OwnedText& text) {
    text.written.clear();
    for (std::size_t at = Next(); at < text.bytes.size(); at += 1 + Next()) {
      const std::size_t begin = at;
      at = std::min(at + 1 + Next(), text.bytes.size());
      text.written.push_back({begin, at});
    }
  }

  // Usually in one scope, so that something can be found.
  void ReadOne(const OwnedText& text, std::uint8_t home) {
    const std::uint8_t kind = Next() % 8 != 0 ? home : Next();
    router::PromptMemo::Scope scope;
    scope.tokenizer = tokenizers_[kind % tokenizers_.size()];
    scope.special_tokens = (kind & 16U) != 0 ? SpecialTokens::kAdd : SpecialTokens::kOmit;
    scope.root = {0, (kind & 32U) != 0 ? 1U : 2U};
    scope.block_tokens = 4;
    const std::size_t max_tokens = Next() % 16 == 0 ? Next() * 8U : Tokenizer::kAllTokens;
    const Result<std::vector<TokenId>> expected =
        scope.tokenizer->Encode(text.view(), scope.special_tokens, max_tokens);
    const Result<router::HashedTokens> read = memo_.Read(scope, text.view(), max_tokens);
    ROOST_CHECK(expected.ok() == read.ok());
    if (!read.ok()) return;
    ROOST_CHECK(read->tokens == *expected, "of {} bytes", text.bytes.size());
    ROOST_CHECK(read->block_hashes == HashBlocks(scope.root, *expected, scope.block_tokens));
    ROOST_CHECK(memo_.counts().held_bytes <= kMaxBytes);
  }

  const std::vector<std::shared_ptr<const Tokenizer>> tokenizers_;
  router::PromptMemo memo_;
  std::span<const std::uint8_t> program_;
  std::vector<OwnedText> texts_;
};

}  // namespace roost::testing_support
