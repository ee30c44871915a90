// The patterns by which well-known models cut text into words, as hand-written code: GPT-2's, that of cl100k and Llama
// 3, Qwen 2's, and o200k's. A pattern is recognised by its exact text in tokenizer.json. All others use regex.h, which
// is also the reference in this code's tests. The scanners are two to four times as fast.
//
// Each of these patterns matches at every place of every text, so words have no gaps between them. Linear in the text,
// without own memory.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace roost::text {

class WordScanner {
 public:
  // Nothing for an unknown pattern.
  static std::optional<WordScanner> ForPattern(std::string_view oniguruma_pattern);

  // The end of the word that begins at `begin`, which is below text.size(). `text` is valid UTF-8.
  [[nodiscard]] std::size_t WordEnd(std::string_view text, std::size_t begin) const { return word_end_(text, begin); }

 private:
  using Function = std::size_t (*)(std::string_view text, std::size_t begin);

  explicit WordScanner(Function word_end) : word_end_(word_end) {}

  Function word_end_;
};

}  // namespace roost::text
