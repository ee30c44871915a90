#include "common/text/pre_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <utility>

#include "common/base/utf8.h"
#include "common/text/byte_level.h"
#include "common/text/character_kinds.h"
#include "common/text/metaspace.h"
#include "common/text/normalizer.h"
#include "common/text/split_step.h"
#include "common/text/unicode.h"

namespace roost::text {
namespace {

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
  ROOST_ASSIGN_OR_RETURN(const bool invert, node.GetBool("invert"));
  const Delimiter delimiter = invert ? Delimiter::kGaps : Delimiter::kMatches;
  if (pattern.kind == Pattern::Kind::kRegex && !invert && WordScanner::ForPattern(pattern.text)) {
    return AppendSplit(pattern.text, behavior, steps);
  }
  steps.push_back(MakeRegexSplit(std::move(regex), behavior, delimiter));
  return {};
}

Result<void> AppendByteLevelSteps(const JsonNode& node, PreTokenizerSteps& steps) {
  ROOST_ASSIGN_OR_RETURN(const bool add_prefix_space, node.GetBool("add_prefix_space"));
  ROOST_ASSIGN_OR_RETURN(const bool use_regex, node.FindBool("use_regex", true));
  if (add_prefix_space) steps.push_back(std::make_unique<PrefixSpaceStep>());
  if (use_regex) ROOST_RETURN_IF_ERROR(AppendSplit(kGpt2Pattern, Behavior::kIsolated, steps));
  steps.push_back(std::make_unique<ByteLevelStep>());
  return {};
}

Result<void> AppendMetaspace(const JsonNode& node, PreTokenizerSteps& steps) {
  ROOST_ASSIGN_OR_RETURN(const Metaspace options, Metaspace::FromJson(node));
  ROOST_ASSIGN_OR_RETURN(const bool split, node.FindBool("split", true));
  steps.push_back(std::make_unique<MetaspaceStep>(options));
  if (!split) return {};
  return AppendSplit("\\" + options.replacement, Behavior::kMergedWithNext, steps);
}

Result<void> AppendDigits(const JsonNode& node, PreTokenizerSteps& steps) {
  ROOST_ASSIGN_OR_RETURN(const bool individual, node.GetBool("individual_digits"));
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
    ROOST_ASSIGN_OR_RETURN(const std::vector<JsonNode> parts, node.GetArray("pretokenizers"));
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
