// The steps of a pre-tokenizer that cut pieces further: by a regular expression, by a kind of character, by length.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "common/text/pre_tokenizer.h"
#include "common/text/regex.h"
#include "common/text/word_scanner.h"

namespace roost::text {

// The treatment of the parts that match.
enum class Behavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };
// The parts that count as matches: the pattern's matches, or the gaps between them.
enum class Delimiter { kMatches, kGaps };

[[nodiscard]] std::unique_ptr<const PreTokenizerStep> MakeRegexSplit(Regex regex, Behavior behavior,
                                                                     Delimiter delimiter);

// Like MakeRegexSplit with a pattern that the scanner knows, and kIsolated matches.
[[nodiscard]] std::unique_ptr<const PreTokenizerStep> MakeWordSplit(WordScanner words);

// Every character of the kind is a match. Linear.
[[nodiscard]] std::unique_ptr<const PreTokenizerStep> MakeCharacterSplit(std::function<bool(char32_t)> is_of_kind,
                                                                         Behavior behavior);

// Pieces of this many characters, at least 1; the last one of each piece may be shorter. Linear.
[[nodiscard]] std::unique_ptr<const PreTokenizerStep> MakeFixedLengthSplit(std::size_t characters);

}  // namespace roost::text
