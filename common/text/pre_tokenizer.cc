#include "common/text/pre_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/utf8.h"
#include "common/text/byte_level.h"
#include "common/text/character_kinds.h"
#include "common/text/metaspace.h"
#include "common/text/normalizer.h"
#include "common/text/regex/regex.h"
#include "common/text/unicode.h"
#include "common/text/word_scanner.h"

namespace roost::text {
namespace {

// The steps of a pre-tokenizer that cut pieces further: by a regular expression, by a kind of character, by length.

// The treatment of the parts that match.
enum class Behavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };
// The parts that count as matches: the pattern's matches, or the gaps between them.
enum class Delimiter { kMatches, kGaps };

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

[[nodiscard]] std::unique_ptr<const PreTokenizerStep> MakeRegexSplit(Regex regex, Behavior behavior,
                                                                     Delimiter delimiter) {
  return std::make_unique<RegexSplit>(std::move(regex), behavior, delimiter);
}

// Like MakeRegexSplit with a pattern that the scanner knows, and kIsolated matches.
[[nodiscard]] std::unique_ptr<const PreTokenizerStep> MakeWordSplit(WordScanner words) {
  return std::make_unique<WordSplit>(words);
}

// Every character of the kind is a match. Linear.
[[nodiscard]] std::unique_ptr<const PreTokenizerStep> MakeCharacterSplit(std::function<bool(char32_t)> is_of_kind,
                                                                         Behavior behavior) {
  return std::make_unique<CharacterSplit>(std::move(is_of_kind), behavior);
}

// Pieces of this many characters, at least 1; the last one of each piece may be shorter. Linear.
[[nodiscard]] std::unique_ptr<const PreTokenizerStep> MakeFixedLengthSplit(std::size_t characters) {
  return std::make_unique<FixedLengthSplit>(characters);
}

using PreTokenizerSteps = std::vector<std::unique_ptr<const PreTokenizerStep>>;

// ByteLevel's own pattern, for files that do not give another.
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// `rewrite(piece, is_start, out)` appends the new text of a piece.
template <typename Rewrite>
void RewritePieces(PreTokenizeScratch& scratch, Rewrite rewrite) {
  const PreTokenized& now = scratch.now;
  PreTokenized& next = scratch.next;
  next.text.clear();
  next.pieces.clear();
  next.starts_text = now.starts_text;
  const std::string_view text = now.text;
  for (const TextRange& piece : now.pieces) {
    const bool is_start = now.starts_text && next.pieces.empty();
    const std::size_t begin = next.text.size();
    rewrite(text.substr(piece.begin, piece.end - piece.begin), is_start, next.text);
    next.pieces.push_back({begin, next.text.size()});
  }
  std::swap(scratch.now, scratch.next);
}

class PrefixSpaceStep final : public PreTokenizerStep {
 public:
  Result<void> Apply(PreTokenizeScratch& scratch, RegexScratch&) const override {
    RewritePieces(scratch, [](std::string_view piece, bool, std::string& out) {
      if (!piece.starts_with(' ')) out += ' ';
      out += piece;
    });
    return {};
  }
};

class ByteLevelStep final : public PreTokenizerStep {
 public:
  Result<void> Apply(PreTokenizeScratch& scratch, RegexScratch&) const override {
    RewritePieces(scratch, [](std::string_view piece, bool, std::string& out) { AppendByteLevel(piece, out); });
    return {};
  }
  [[nodiscard]] bool IsByteLevel() const override { return true; }
};

class MetaspaceStep final : public PreTokenizerStep {
 public:
  explicit MetaspaceStep(Metaspace options) : options_(std::move(options)) {}

  Result<void> Apply(PreTokenizeScratch& scratch, RegexScratch&) const override {
    RewritePieces(scratch, [&](std::string_view piece, bool is_start, std::string& out) {
      const std::string& replacement = options_.replacement;
      const bool wanted = options_.scheme == PrependScheme::kAlways || (NeedsStart() && is_start);
      if (wanted && !piece.starts_with(' ') && !piece.starts_with(replacement)) out += replacement;
      for (const char c : piece) {
        if (c == ' ') {
          out += replacement;
        } else {
          out += c;
        }
      }
    });
    return {};
  }
  [[nodiscard]] bool NeedsStart() const override { return options_.scheme == PrependScheme::kFirst; }
  [[nodiscard]] bool MayDrop() const override { return options_.replacement.empty(); }

 private:
  Metaspace options_;
};

Result<Behavior> BehaviorFromJson(const JsonNode& node) {
  ROOST_ASSIGN_OR_RETURN(const std::string_view name, node.AsString());
  if (name == "Isolated") return Behavior::kIsolated;
  if (name == "Removed") return Behavior::kRemoved;
  if (name == "MergedWithPrevious") return Behavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return Behavior::kMergedWithNext;
  if (name == "Contiguous") return Behavior::kContiguous;
  return node.Complain(fmt::format("'{}' is not supported", name));
}

Result<void> AppendSplit(std::string_view pattern, Behavior behavior, PreTokenizerSteps& steps) {
  const std::optional<WordScanner> words = WordScanner::ForPattern(pattern);
  if (words && behavior == Behavior::kIsolated) {
    steps.push_back(MakeWordSplit(*words));
    return {};
  }
  ROOST_ASSIGN_OR_RETURN(Regex regex, Regex::Compile(pattern));
  steps.push_back(MakeRegexSplit(std::move(regex), behavior, Delimiter::kMatches));
  return {};
}

Result<void> AppendSplit(const JsonNode& node, PreTokenizerSteps& steps) {
  ROOST_ASSIGN_OR_RETURN(const Pattern pattern, Pattern::FromJson(node));
  if (pattern.text.empty()) return pattern.node.Complain("must not be empty");
  ROOST_ASSIGN_OR_RETURN(Regex regex, pattern.Compile());
  ROOST_ASSIGN_OR_RETURN(const JsonNode behavior_node, node.Get("behavior"));
  ROOST_ASSIGN_OR_RETURN(const Behavior behavior, BehaviorFromJson(behavior_node));
  ROOST_ASSIGN_OR_RETURN(const bool invert, node.Get<bool>("invert"));
  const Delimiter delimiter = invert ? Delimiter::kGaps : Delimiter::kMatches;
  if (pattern.kind == Pattern::Kind::kRegex && !invert && WordScanner::ForPattern(pattern.text)) {
    return AppendSplit(pattern.text, behavior, steps);
  }
  steps.push_back(MakeRegexSplit(std::move(regex), behavior, delimiter));
  return {};
}

Result<void> AppendByteLevelSteps(const JsonNode& node, PreTokenizerSteps& steps) {
  ROOST_ASSIGN_OR_RETURN(const bool add_prefix_space, node.Get<bool>("add_prefix_space"));
  ROOST_ASSIGN_OR_RETURN(const bool use_regex, node.Or<bool>("use_regex", true));
  if (add_prefix_space) steps.push_back(std::make_unique<PrefixSpaceStep>());
  if (use_regex) ROOST_RETURN_IF_ERROR(AppendSplit(kGpt2Pattern, Behavior::kIsolated, steps));
  steps.push_back(std::make_unique<ByteLevelStep>());
  return {};
}

Result<void> AppendMetaspace(const JsonNode& node, PreTokenizerSteps& steps) {
  ROOST_ASSIGN_OR_RETURN(const Metaspace options, Metaspace::FromJson(node));
  ROOST_ASSIGN_OR_RETURN(const bool split, node.Or<bool>("split", true));
  steps.push_back(std::make_unique<MetaspaceStep>(options));
  if (!split) return {};
  return AppendSplit("\\" + options.replacement, Behavior::kMergedWithNext, steps);
}

Result<void> AppendDigits(const JsonNode& node, PreTokenizerSteps& steps) {
  ROOST_ASSIGN_OR_RETURN(const bool individual, node.Get<bool>("individual_digits"));
  steps.push_back(MakeCharacterSplit(IsNumeric, individual ? Behavior::kIsolated : Behavior::kContiguous));
  return {};
}

Result<void> AppendPunctuation(const JsonNode& node, PreTokenizerSteps& steps) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<JsonNode> member, node.Find("behavior"));
  Behavior behavior = Behavior::kIsolated;
  if (member) {
    ROOST_ASSIGN_OR_RETURN(behavior, BehaviorFromJson(*member));
  }
  steps.push_back(MakeCharacterSplit(IsPunctuation, behavior));
  return {};
}

Result<void> AppendWhitespace(const JsonNode&, PreTokenizerSteps& steps) {
  const std::string pattern = fmt::format("[{0}]+|[^{0}{1}]+", kWordCharacters, kSpaceCharacters);
  ROOST_ASSIGN_OR_RETURN(Regex regex, Regex::CompilePcre2(pattern));
  steps.push_back(MakeRegexSplit(std::move(regex), Behavior::kRemoved, Delimiter::kGaps));
  return {};
}

Result<void> AppendWhitespaceSplit(const JsonNode&, PreTokenizerSteps& steps) {
  steps.push_back(MakeCharacterSplit(IsWhitespace, Behavior::kRemoved));
  return {};
}

Result<void> AppendBert(const JsonNode&, PreTokenizerSteps& steps) {
  steps.push_back(MakeCharacterSplit(IsWhitespace, Behavior::kRemoved));
  steps.push_back(MakeCharacterSplit(IsPunctuation, Behavior::kIsolated));
  return {};
}

Result<void> AppendCharDelimiterSplit(const JsonNode& node, PreTokenizerSteps& steps) {
  ROOST_ASSIGN_OR_RETURN(const JsonNode member, node.Get("delimiter"));
  ROOST_ASSIGN_OR_RETURN(const std::string_view character, member.AsCharacter());
  const char32_t delimiter = DecodeUtf8(character)->value;
  steps.push_back(MakeCharacterSplit([delimiter](char32_t c) { return c == delimiter; }, Behavior::kRemoved));
  return {};
}

Result<void> AppendFixedLength(const JsonNode& node, PreTokenizerSteps& steps) {
  constexpr std::uint32_t kDefault = 5;
  ROOST_ASSIGN_OR_RETURN(const std::optional<JsonNode> member, node.Find("length"));
  std::uint32_t length = kDefault;
  if (member) {
    ROOST_ASSIGN_OR_RETURN(length, member->AsCount(std::numeric_limits<std::uint32_t>::max()));
  }
  if (length == 0) return member->Complain("must be at least 1");
  steps.push_back(MakeFixedLengthSplit(length));
  return {};
}

// All kinds of the format except Sequence, which is not a step, and UnicodeScripts, because no library has its table of
// scripts.
struct Kind {
  std::string_view name;
  Result<void> (*append)(const JsonNode& node, PreTokenizerSteps& steps);
};
constexpr Kind kKinds[] = {
    {"BertPreTokenizer", AppendBert},
    {"ByteLevel", AppendByteLevelSteps},
    {"CharDelimiterSplit", AppendCharDelimiterSplit},
    {"Digits", AppendDigits},
    {"FixedLength", AppendFixedLength},
    {"Metaspace", AppendMetaspace},
    {"Punctuation", AppendPunctuation},
    {"Split", AppendSplit},
    {"Whitespace", AppendWhitespace},
    {"WhitespaceSplit", AppendWhitespaceSplit},
};

Result<PreTokenizerSteps> StepsOf(const JsonNode& node, const JsonNode& type, std::string_view name) {
  const auto* kind =
      std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& known) { return known.name == name; });
  if (kind == std::end(kKinds)) return type.Complain(fmt::format("'{}' is not supported", name));
  PreTokenizerSteps steps;
  ROOST_RETURN_IF_ERROR(kind->append(node, steps));
  return steps;
}

}  // namespace

void PreTokenized::Assign(std::string_view input, bool at_start) {
  text = input;
  pieces.clear();
  if (!input.empty()) pieces.push_back({0, input.size()});
  starts_text = at_start;
}

// A Sequence is flattened: nesting has no meaning. The parser limits its depth.
Result<void> PreTokenizer::Append(const JsonNode& node) {
  ROOST_ASSIGN_OR_RETURN(const JsonNode type, node.Get("type"));
  ROOST_ASSIGN_OR_RETURN(const std::string_view name, type.AsString());
  if (name == "Sequence") {
    ROOST_ASSIGN_OR_RETURN(const std::vector<JsonNode> parts, node.Get<std::vector<JsonNode>>("pretokenizers"));
    for (const JsonNode& part : parts) ROOST_RETURN_IF_ERROR(Append(part));
    return {};
  }
  ROOST_ASSIGN_OR_RETURN(PreTokenizerSteps steps, StepsOf(node, type, name));
  for (auto& step : steps) rules_.push_back({node.path(), std::move(step)});
  return {};
}

Result<PreTokenizer> PreTokenizer::FromJson(const std::optional<JsonNode>& node) {
  PreTokenizer pre_tokenizer;
  if (node) ROOST_RETURN_IF_ERROR(pre_tokenizer.Append(*node));
  return pre_tokenizer;
}

Result<void> PreTokenizer::Apply(PreTokenizeScratch& scratch, std::size_t limit, RegexScratch& regex) const {
  for (const auto& [path, step] : rules_) {
    Result<void> applied = step->Apply(scratch, regex);
    const std::size_t size = scratch.now.text.size();
    if (applied.ok() && size > limit) applied = GrowsOver(limit);
    if (applied.ok() && !regex.budget().TrySpend(1 + size / CpuBudget::kBytesPerWork))
      applied = regex.budget().SpentTime();
    if (!applied.ok()) return InvalidArgument("", "{}: {}", path, applied.error().message);
  }
  return {};
}

const WordScanner* PreTokenizer::ByteLevelWords() const {
  if (rules_.size() != 2 || !rules_[1].step->IsByteLevel()) return nullptr;
  return rules_[0].step->Words();
}

bool PreTokenizer::NeedsStart() const {
  return std::any_of(rules_.begin(), rules_.end(), [](const Rule& rule) { return rule.step->NeedsStart(); });
}

bool PreTokenizer::MayDrop() const {
  return std::any_of(rules_.begin(), rules_.end(), [](const Rule& rule) { return rule.step->MayDrop(); });
}

bool PreTokenizer::IsByteLevel() const {
  return std::any_of(rules_.begin(), rules_.end(), [](const Rule& rule) { return rule.step->IsByteLevel(); });
}

}  // namespace roost::text
