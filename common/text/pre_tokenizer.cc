#include "common/text/pre_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "common/text/byte_level.h"
#include "common/text/metaspace.h"
#include "common/text/normalizer.h"
#include "common/text/unicode.h"

namespace roost::text {
namespace {

using Part = PreTokenizeScratch::Part;
using PreTokenizerSteps = std::vector<std::unique_ptr<const PreTokenizerStep>>;

// What ByteLevel splits by when the file leaves the pattern to it.
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// What becomes of the parts that match.
enum class Behavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };
enum class Delimiter { kMatches, kGaps };

// `matches` and the gaps between them, covering 0 … length.
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

// Joins each part for which `joins(part, previous_is_match)` to the one before it. Order: as given.
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

class SplitStep final : public PreTokenizerStep {
 public:
  SplitStep(Regex regex, Behavior behavior, Delimiter delimiter)
      : regex_(std::move(regex)), behavior_(behavior), delimiter_(delimiter) {}

  Result<void> Apply(PreTokenizeScratch& scratch, RegexScratch& regex) const override {
    const std::string& text = scratch.now.text;
    const std::string_view subject = ReplaceNewCodePoints(text, scratch.stand_in) ? scratch.stand_in : text;
    std::vector<TextRange>& pieces = scratch.next.pieces;
    pieces.clear();
    for (const TextRange& piece : scratch.now.pieces) {
      const std::size_t length = piece.end - piece.begin;
      scratch.matches.clear();
      ROOST_RETURN_IF_ERROR(regex_.FindAll(subject.substr(piece.begin, length), regex, scratch.matches));
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

 private:
  Regex regex_;
  Behavior behavior_;
  Delimiter delimiter_;
};

// `rewrite(piece, is_start, out)` appends what becomes of a piece.
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

 private:
  Metaspace options_;
};

Result<Behavior> BehaviorFromJson(const JsonNode& parent) {
  ROOST_ASSIGN_OR_RETURN(const JsonNode node, parent.Get("behavior"));
  ROOST_ASSIGN_OR_RETURN(const std::string_view name, node.AsString());
  if (name == "Isolated") return Behavior::kIsolated;
  if (name == "Removed") return Behavior::kRemoved;
  if (name == "MergedWithPrevious") return Behavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return Behavior::kMergedWithNext;
  if (name == "Contiguous") return Behavior::kContiguous;
  return node.Complain(fmt::format("'{}' is not supported", name));
}

Result<void> AppendSplit(std::string_view pattern, Behavior behavior, PreTokenizerSteps& steps) {
  ROOST_ASSIGN_OR_RETURN(Regex regex, Regex::Compile(pattern));
  steps.push_back(std::make_unique<SplitStep>(std::move(regex), behavior, Delimiter::kMatches));
  return {};
}

Result<void> AppendSplit(const JsonNode& node, PreTokenizerSteps& steps) {
  ROOST_ASSIGN_OR_RETURN(const Pattern pattern, Pattern::FromJson(node));
  if (pattern.text.empty()) return pattern.node.Complain("must not be empty");
  ROOST_ASSIGN_OR_RETURN(Regex regex, pattern.Compile());
  ROOST_ASSIGN_OR_RETURN(const Behavior behavior, BehaviorFromJson(node));
  ROOST_ASSIGN_OR_RETURN(const bool invert, node.GetBool("invert"));
  const Delimiter delimiter = invert ? Delimiter::kGaps : Delimiter::kMatches;
  steps.push_back(std::make_unique<SplitStep>(std::move(regex), behavior, delimiter));
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
  return AppendSplit("\\p{N}", individual ? Behavior::kIsolated : Behavior::kContiguous, steps);
}

Result<PreTokenizerSteps> StepsOf(const JsonNode& node, const JsonNode& type, std::string_view name) {
  PreTokenizerSteps steps;
  if (name == "ByteLevel") {
    ROOST_RETURN_IF_ERROR(AppendByteLevelSteps(node, steps));
  } else if (name == "Split") {
    ROOST_RETURN_IF_ERROR(AppendSplit(node, steps));
  } else if (name == "Metaspace") {
    ROOST_RETURN_IF_ERROR(AppendMetaspace(node, steps));
  } else if (name == "Digits") {
    ROOST_RETURN_IF_ERROR(AppendDigits(node, steps));
  } else {
    return type.Complain(fmt::format("'{}' is not supported", name));
  }
  return steps;
}

}  // namespace

void PreTokenized::Assign(std::string_view input, bool at_start) {
  text = input;
  pieces.clear();
  if (!input.empty()) pieces.push_back({0, input.size()});
  starts_text = at_start;
}

// A Sequence is flat here: nesting means nothing more. The parser bounds its depth.
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

bool PreTokenizer::NeedsStart() const {
  return std::any_of(rules_.begin(), rules_.end(), [](const Rule& rule) { return rule.step->NeedsStart(); });
}

}  // namespace roost::text
