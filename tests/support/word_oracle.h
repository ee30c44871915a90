// The words of a text, computed twice: by a word scanner, and by the pattern that it implements.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/text/regex/regex.h"
#include "common/text/unicode.h"
#include "common/text/word_scanner.h"
#include "tests/support/tokenizer_patterns.h"

namespace roost::testing_support {

class WordOracle {
 public:
  WordOracle(TokenizerPattern pattern, text::WordScanner scanner)
      : name_(pattern.name), scanner_(scanner), regex_(text::Regex::Compile(pattern.pattern).value()) {}

  [[nodiscard]] std::string_view name() const { return name_; }

  [[nodiscard]] std::vector<text::TextRange> Scanned(std::string_view text) const {
    std::vector<text::TextRange> words;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = scanner_.WordEnd(text, begin);
      ROOST_CHECK(end > begin && end <= text.size());
      words.push_back({begin, end});
      begin = end;
    }
    return words;
  }

  [[nodiscard]] std::vector<text::TextRange> Matched(std::string_view text, text::RegexScratch& scratch) const {
    std::string stand_in;
    std::vector<text::TextRange> words;
    scratch.budget().Start(text.size());
    const std::string_view subject = text::ReplaceNewCodePoints(text, stand_in) ? stand_in : text;
    ROOST_CHECK(regex_.FindAll(subject, scratch, words).ok());
    return words;
  }

 private:
  std::string_view name_;
  text::WordScanner scanner_;
  text::Regex regex_;
};

// One for each known pattern with a scanner.
inline std::vector<WordOracle> WordOracles() {
  std::vector<WordOracle> oracles;
  for (const TokenizerPattern& pattern : kTokenizerPatterns) {
    if (const auto scanner = text::WordScanner::ForPattern(pattern.pattern)) oracles.emplace_back(pattern, *scanner);
  }
  return oracles;
}

}  // namespace roost::testing_support
