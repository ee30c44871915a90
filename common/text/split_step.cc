#include "common/text/split_step.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/utf8.h"
#include "common/text/unicode.h"

namespace roost::text {
namespace {

using Part = PreTokenizeScratch::Part;

// Makes parts of `matches` and the gaps between them, covering 0 … length.
void Cover(std::span<const TextRange> matches, std::size_t length, Delimiter delimiter, std::vector<Part>& parts) {
  const bool is_match = delimiter == Delimiter::kMatches;
  parts.clear();
  std::size_t end = 0;
  for (const TextRange& match : matches) {
    if (match.begin != end) parts.push_back({{end, match.begin}, !is_match});
    parts.push_back({match, is_match});
    end = match.end;
  }
  if (end != length) parts.push_back({{end, length}, !is_match});
}

// Joins each part for which `joins(part, previous_is_match)` to the one before it, in the given order.
template <typename Joins, typename Extend>
void Fold(std::vector<Part>& parts, Joins joins, Extend extend) {
  std::size_t count = 0;
  bool previous_is_match = false;
  for (const Part part : parts) {
    if (count > 0 && joins(part, previous_is_match)) {
      extend(parts[count - 1].range, part.range);
    } else {
      parts[count++].range = part.range;
    }
    previous_is_match = part.is_match;
  }
  parts.resize(count);
}

void ApplyBehavior(Behavior behavior, std::vector<Part>& parts) {
  const auto starts_run = [](const Part& part, bool previous) { return part.is_match && !previous; };
  const auto continues = [](const Part& part, bool previous) { return part.is_match == previous; };
  const auto to_the_right = [](TextRange& range, TextRange more) { range.end = more.end; };
  const auto to_the_left = [](TextRange& range, TextRange more) { range.begin = more.begin; };
  switch (behavior) {
    case Behavior::kIsolated: return;
    case Behavior::kRemoved: std::erase_if(parts, [](const Part& part) { return part.is_match; }); return;
    case Behavior::kContiguous: Fold(parts, continues, to_the_right); return;
    case Behavior::kMergedWithPrevious: Fold(parts, starts_run, to_the_right); return;
    case Behavior::kMergedWithNext:
      std::reverse(parts.begin(), parts.end());
      Fold(parts, starts_run, to_the_left);
      std::reverse(parts.begin(), parts.end());
      return;
  }
}

class SplitStep : public PreTokenizerStep {
 public:
  SplitStep(Behavior behavior, Delimiter delimiter) : behavior_(behavior), delimiter_(delimiter) {}

  Result<void> Apply(PreTokenizeScratch& scratch, RegexScratch& regex) const override {
    const std::string_view subject = SubjectOf(scratch.now.text, scratch.stand_in);
    std::vector<TextRange>& pieces = scratch.next.pieces;
    pieces.clear();
    for (const TextRange& piece : scratch.now.pieces) {
      const std::size_t length = piece.end - piece.begin;
      scratch.matches.clear();
      ROOST_RETURN_IF_ERROR(Find(subject.substr(piece.begin, length), regex, scratch.matches));
      Cover(scratch.matches, length, delimiter_, scratch.parts);
      ApplyBehavior(behavior_, scratch.parts);
      for (const Part& part : scratch.parts) {
        if (part.range.begin == part.range.end) continue;
        pieces.push_back({piece.begin + part.range.begin, piece.begin + part.range.end});
      }
    }
    scratch.now.starts_text &= !pieces.empty() && pieces.front().begin == scratch.now.pieces.front().begin;
    std::swap(scratch.now.pieces, pieces);
    return {};
  }
  [[nodiscard]] bool MayDrop() const override { return behavior_ == Behavior::kRemoved; }

 private:
  // The text in which matches are searched; it must have the same length.
  [[nodiscard]] virtual std::string_view SubjectOf(const std::string& text, std::string& /*stand_in*/) const {
    return text;
  }
  // Appends the matches in a piece of the subject.
  virtual Result<void> Find(std::string_view piece, RegexScratch& regex, std::vector<TextRange>& matches) const = 0;

  Behavior behavior_;
  Delimiter delimiter_;
};

class RegexSplit final : public SplitStep {
 public:
  RegexSplit(Regex regex, Behavior behavior, Delimiter delimiter)
      : SplitStep(behavior, delimiter), regex_(std::move(regex)) {}

 private:
  [[nodiscard]] std::string_view SubjectOf(const std::string& text, std::string& stand_in) const override {
    return ReplaceNewCodePoints(text, stand_in) ? stand_in : text;
  }
  Result<void> Find(std::string_view piece, RegexScratch& regex, std::vector<TextRange>& matches) const override {
    return regex_.FindAll(piece, regex, matches);
  }

  Regex regex_;
};

class WordSplit final : public SplitStep {
 public:
  explicit WordSplit(WordScanner words) : SplitStep(Behavior::kIsolated, Delimiter::kMatches), words_(words) {}

  [[nodiscard]] const WordScanner* Words() const override { return &words_; }

 private:
  Result<void> Find(std::string_view piece, RegexScratch&, std::vector<TextRange>& matches) const override {
    for (std::size_t begin = 0; begin < piece.size();) {
      const std::size_t end = words_.WordEnd(piece, begin);
      matches.push_back({begin, end});
      begin = end;
    }
    return {};
  }

  WordScanner words_;
};

class CharacterSplit final : public SplitStep {
 public:
  CharacterSplit(std::function<bool(char32_t)> is_of_kind, Behavior behavior)
      : SplitStep(behavior, Delimiter::kMatches), is_of_kind_(std::move(is_of_kind)) {
    for (char32_t c = 0; c < ascii_.size(); ++c) ascii_[c] = is_of_kind_(c);
  }

 private:
  Result<void> Find(std::string_view piece, RegexScratch&, std::vector<TextRange>& matches) const override {
    for (std::size_t i = 0; i < piece.size();) {
      const auto byte = static_cast<unsigned char>(piece[i]);
      const CodePoint point = byte < ascii_.size() ? CodePoint{byte, 1} : *DecodeUtf8(piece.substr(i));
      const std::size_t end = i + point.length;
      if (byte < ascii_.size() ? ascii_[byte] : is_of_kind_(point.value)) matches.push_back({i, end});
      i = end;
    }
    return {};
  }

  std::function<bool(char32_t)> is_of_kind_;
  std::array<bool, 128> ascii_{};
};

class FixedLengthSplit final : public SplitStep {
 public:
  explicit FixedLengthSplit(std::size_t characters)
      : SplitStep(Behavior::kIsolated, Delimiter::kMatches), characters_(characters) {}

 private:
  Result<void> Find(std::string_view piece, RegexScratch&, std::vector<TextRange>& matches) const override {
    for (std::size_t end = 0; end < piece.size();) {
      const std::size_t begin = end;
      for (std::size_t i = 0; i < characters_ && end < piece.size(); ++i) end += Utf8SequenceLength(piece.substr(end));
      matches.push_back({begin, end});
    }
    return {};
  }

  std::size_t characters_;
};

}  // namespace

std::unique_ptr<const PreTokenizerStep> MakeRegexSplit(Regex regex, Behavior behavior, Delimiter delimiter) {
  return std::make_unique<RegexSplit>(std::move(regex), behavior, delimiter);
}

std::unique_ptr<const PreTokenizerStep> MakeWordSplit(WordScanner words) { return std::make_unique<WordSplit>(words); }

std::unique_ptr<const PreTokenizerStep> MakeCharacterSplit(std::function<bool(char32_t)> is_of_kind,
                                                           Behavior behavior) {
  return std::make_unique<CharacterSplit>(std::move(is_of_kind), behavior);
}

std::unique_ptr<const PreTokenizerStep> MakeFixedLengthSplit(std::size_t characters) {
  return std::make_unique<FixedLengthSplit>(characters);
}

}  // namespace roost::text
