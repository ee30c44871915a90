#include "common/text/normalizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/utf8.h"
#include "common/text/byte_level.h"
#include "common/text/character_kinds.h"
#include "common/text/regex/rewrite_bounds.h"
#include "common/text/unicode.h"

namespace roost::text {

WrittenMask::WrittenMask(PromptText text, ByteRange part) : written_(part.end - part.begin, 0) {
  const auto at = [&](std::size_t place) {
    return written_.begin() + static_cast<std::ptrdiff_t>(std::clamp(place, part.begin, part.end) - part.begin);
  };
  auto range = std::partition_point(text.written.begin(), text.written.end(),
                                    [&](const ByteRange& known) { return known.end <= part.begin; });
  for (; range != text.written.end() && range->begin < part.end; ++range) {
    std::fill(at(range->begin), at(range->end), char{1});
  }
  for (std::size_t i = part.begin; i < part.end; ++i) {
    if (text.bytes[i] == ' ') *at(i) = 1;
  }
}

void WrittenMask::Carry(const Rewrites& rewrites) {
  if (rewrites.empty()) return;
  std::vector<char> carried;
  carried.reserve(written_.size());
  auto done = written_.begin();
  for (const Rewrite& rewrite : rewrites) {
    const auto begin = written_.begin() + static_cast<std::ptrdiff_t>(rewrite.from.begin);
    const auto end = written_.begin() + static_cast<std::ptrdiff_t>(rewrite.from.end);
    carried.insert(carried.end(), done, begin);
    const bool is_written = std::all_of(begin, end, [](char was_written) { return was_written != 0; });
    carried.insert(carried.end(), rewrite.size, is_written ? 1 : 0);
    done = end;
  }
  carried.insert(carried.end(), done, written_.end());
  written_ = std::move(carried);
}

std::vector<ByteRange> WrittenMask::Ranges() const {
  std::vector<ByteRange> ranges;
  for (auto begin = written_.begin(); begin != written_.end();) {
    const auto end = std::find(begin, written_.end(), char{0});
    if (begin != end) {
      ranges.push_back(
          {static_cast<std::size_t>(begin - written_.begin()), static_cast<std::size_t>(end - written_.begin())});
    }
    begin = std::find(end, written_.end(), char{1});
  }
  return ranges;
}

namespace {

class PrependStep final : public NormalizerStep {
 public:
  explicit PrependStep(std::string_view prefix) : prefix_(prefix) {}
  Result<void> Apply(std::string& text, std::size_t limit, RegexScratch&, Rewrites* rewrites) const override {
    if (text.empty()) return {};
    if (text.size() + prefix_.size() > limit) return GrowsOver(limit);
    text.insert(0, prefix_);
    if (rewrites != nullptr) rewrites->push_back({{0, 0}, prefix_.size()});
    return {};
  }
  [[nodiscard]] std::optional<std::size_t> MostShrinking() const override { return 1; }

 private:
  std::string prefix_;
};

class ReplaceStringStep final : public NormalizerStep {
 public:
  ReplaceStringStep(std::string_view pattern, std::string_view content) : pattern_(pattern), content_(content) {}
  Result<void> Apply(std::string& text, std::size_t limit, RegexScratch&, Rewrites* rewrites) const override {
    if (!ReplaceAll(pattern_, content_, limit, text, rewrites)) return GrowsOver(limit);
    return {};
  }
  [[nodiscard]] bool MayDropFront() const override { return content_.empty(); }
  [[nodiscard]] std::optional<std::size_t> MostShrinking() const override {
    if (content_.empty()) return std::nullopt;
    return (pattern_.size() + content_.size() - 1) / content_.size();
  }

 private:
  std::string pattern_;
  std::string content_;
};

class ReplaceRegexStep final : public NormalizerStep {
 public:
  ReplaceRegexStep(Regex regex, std::string_view content) : regex_(std::move(regex)), content_(content) {}
  Result<void> Apply(std::string& text, std::size_t limit, RegexScratch& scratch, Rewrites* rewrites) const override {
    std::vector<TextRange> matches;
    std::string stand_in;
    const std::string_view subject = ReplaceNewCodePoints(text, stand_in) ? stand_in : text;
    ROOST_RETURN_IF_ERROR(regex_.FindAll(subject, scratch, matches));
    if (matches.empty()) return {};
    std::string out;
    std::size_t begin = 0;
    for (const TextRange& match : matches) {
      out.append(text, begin, match.begin - begin).append(content_);
      begin = match.end;
      if (rewrites != nullptr) rewrites->push_back({match, content_.size()});
      if (out.size() > limit) return GrowsOver(limit);
    }
    out.append(text, begin);
    text = std::move(out);
    return {};
  }
  [[nodiscard]] bool MayDropFront() const override { return content_.empty(); }

 private:
  Regex regex_;
  std::string content_;
};

class NormalFormStep final : public NormalizerStep {
 public:
  explicit NormalFormStep(NormalForm form) : form_(form) {}
  Result<void> Apply(std::string& text, std::size_t limit, RegexScratch&, Rewrites* rewrites) const override {
    if (rewrites != nullptr) return ApplyInParts(text, limit, *rewrites);
    if (!Normalize(form_, limit, text)) return GrowsOver(limit);
    return {};
  }
  // A canonical decomposition has at least a third of the character's bytes (U+1FEF), and at most three times as many
  // (U+0390); composing can undo the latter.
  [[nodiscard]] std::optional<std::size_t> MostShrinking() const override {
    if (form_ == NormalForm::kD) return 3;
    return form_ == NormalForm::kC ? std::optional<std::size_t>(9) : std::nullopt;
  }

 private:
  // The same result, part by part: nothing composes across the front of an ASCII character.
  Result<void> ApplyInParts(std::string& text, std::size_t limit, Rewrites& rewrites) const {
    const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
    std::string out;
    for (std::size_t begin = 0; begin < text.size();) {
      const auto next = std::find_if(text.begin() + static_cast<std::ptrdiff_t>(begin) + 1, text.end(), is_ascii);
      const auto end = static_cast<std::size_t>(next - text.begin());
      std::string part = text.substr(begin, end - begin);
      if (!Normalize(form_, limit, part)) return GrowsOver(limit);
      AppendRewrites(text, {begin, end}, part, rewrites);
      out += part;
      if (out.size() > limit) return GrowsOver(limit);
      begin = end;
    }
    text = std::move(out);
    return {};
  }

  // Character by character, if these rewrites together give `part`; else the whole range as one rewrite.
  void AppendRewrites(std::string_view text, ByteRange range, std::string_view part, Rewrites& rewrites) const {
    if (text.substr(range.begin, range.end - range.begin) == part) return;
    const std::size_t count = rewrites.size();
    std::string joined;
    for (std::size_t i = range.begin; i < range.end;) {
      const std::size_t length = Utf8SequenceLength(text.substr(i));
      std::string character(text.substr(i, length));
      if (!Normalize(form_, std::max<std::size_t>(part.size(), kMaxCharacters), character)) break;
      rewrites.push_back({{i, i + length}, character.size()});
      joined += character;
      i += length;
    }
    if (joined == part) return;
    rewrites.resize(count);
    rewrites.push_back({range, part.size()});
  }

  static constexpr std::size_t kMaxCharacters = 32;  // of the normal form of one character; enough
  NormalForm form_;
};

class StripStep final : public NormalizerStep {
 public:
  enum class Side { kLeft, kRight };
  explicit StripStep(Side side) : side_(side) {}
  Result<void> Apply(std::string& text, std::size_t, RegexScratch&, Rewrites* rewrites) const override {
    const ByteRange space = side_ == Side::kRight ? ByteRange{TrailingWhitespaceBegin(text), text.size()}
                                                  : ByteRange{0, LeadingWhitespaceEnd(text)};
    text.erase(space.begin, space.end - space.begin);
    if (rewrites != nullptr) rewrites->push_back({space, 0});
    return {};
  }
  [[nodiscard]] bool MayDropFront() const override { return side_ == Side::kLeft; }

 private:
  Side side_;
};

// Rewrites each character on its own.
class CharactersStep final : public NormalizerStep {
 public:
  // Appends what the character becomes.
  using Rewrite = void (*)(char32_t c, std::string& out);
  explicit CharactersStep(Rewrite rewrite) : rewrite_(rewrite) {}

  Result<void> Apply(std::string& text, std::size_t limit, RegexScratch&, Rewrites* rewrites) const override {
    std::string out;
    out.reserve(text.size());
    for (std::size_t i = 0; i < text.size();) {
      const CodePoint point = *DecodeUtf8(std::string_view(text).substr(i));
      const std::size_t begin = out.size();
      rewrite_(point.value, out);
      if (out.size() > limit) return GrowsOver(limit);
      if (rewrites != nullptr) rewrites->push_back({{i, i + point.length}, out.size() - begin});
      i += point.length;
    }
    text = std::move(out);
    return {};
  }
  [[nodiscard]] bool MayDropFront() const override { return rewrite_ == AppendNmt; }

  // Drops control characters, and replaces other kinds of spaces by a space.
  static void AppendNmt(char32_t c, std::string& out) {
    const bool is_control =
        (c >= 0x1 && c <= 0x8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
    if (is_control) return;
    const bool is_space = c == 0x9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
                          c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
    AppendUtf8(is_space ? U' ' : c, out);
  }

 private:
  Rewrite rewrite_;
};

class ByteLevelNormalStep final : public NormalizerStep {
 public:
  Result<void> Apply(std::string& text, std::size_t limit, RegexScratch&, Rewrites* rewrites) const override {
    std::string out;
    AppendByteLevel(text, out);
    if (out.size() > limit) return GrowsOver(limit);
    for (std::size_t i = 0; rewrites != nullptr && i < text.size(); ++i) {
      std::string character;
      AppendByteLevel(std::string_view(text).substr(i, 1), character);
      rewrites->push_back({{i, i + 1}, character.size()});
    }
    text = std::move(out);
    return {};
  }
  [[nodiscard]] std::optional<std::size_t> MostShrinking() const override { return 1; }
};

std::unique_ptr<const NormalizerStep> StepWithoutOptions(std::string_view name) {
  if (name == "Lowercase") return std::make_unique<CharactersStep>(AppendLowercase);
  if (name == "Nmt") return std::make_unique<CharactersStep>(CharactersStep::AppendNmt);
  if (name == "ByteLevel") return std::make_unique<ByteLevelNormalStep>();
  constexpr std::pair<std::string_view, NormalForm> kForms[] = {
      {"NFC", NormalForm::kC}, {"NFD", NormalForm::kD}, {"NFKC", NormalForm::kKc}, {"NFKD", NormalForm::kKd}};
  for (const auto& [form_name, form] : kForms) {
    if (name == form_name) return std::make_unique<NormalFormStep>(form);
  }
  return nullptr;
}

Result<std::unique_ptr<const NormalizerStep>> MakeReplace(const JsonNode& node) {
  ROOST_ASSIGN_OR_RETURN(const Pattern pattern, Pattern::FromJson(node));
  ROOST_ASSIGN_OR_RETURN(const std::string_view content, node.Get<std::string_view>("content"));
  if (pattern.kind == Pattern::Kind::kString) {
    if (pattern.text.empty()) return pattern.node.Complain("must not be empty");
    return std::unique_ptr<const NormalizerStep>(std::make_unique<ReplaceStringStep>(pattern.text, content));
  }
  ROOST_ASSIGN_OR_RETURN(Regex regex, pattern.Compile());
  if (regex.CanMatchEmpty()) return pattern.node.Complain("a pattern that matches the empty text is not supported");
  return std::unique_ptr<const NormalizerStep>(std::make_unique<ReplaceRegexStep>(std::move(regex), content));
}

}  // namespace

void Normalizer::Append(const JsonNode& node, std::unique_ptr<const NormalizerStep> step) {
  rules_.push_back({node.path(), std::move(step)});
}

Result<void> Normalizer::AppendStrip(const JsonNode& node) {
  ROOST_ASSIGN_OR_RETURN(const bool left, node.Get<bool>("strip_left"));
  ROOST_ASSIGN_OR_RETURN(const bool right, node.Get<bool>("strip_right"));
  if (right) Append(node, std::make_unique<StripStep>(StripStep::Side::kRight));
  if (left) Append(node, std::make_unique<StripStep>(StripStep::Side::kLeft));
  return {};
}

// A Sequence is flattened: nesting has no meaning. The parser limits its depth.
Result<void> Normalizer::Append(const JsonNode& node) {
  ROOST_ASSIGN_OR_RETURN(const JsonNode type, node.Get("type"));
  ROOST_ASSIGN_OR_RETURN(const std::string_view name, type.AsString());
  if (name == "Sequence") {
    ROOST_ASSIGN_OR_RETURN(const std::vector<JsonNode> parts, node.Get<std::vector<JsonNode>>("normalizers"));
    for (const JsonNode& part : parts) ROOST_RETURN_IF_ERROR(Append(part));
    return {};
  }
  if (name == "Strip") return AppendStrip(node);
  if (name == "Prepend") {
    ROOST_ASSIGN_OR_RETURN(const std::string_view prefix, node.Get<std::string_view>("prepend"));
    Append(node, std::make_unique<PrependStep>(prefix));
    return {};
  }
  if (name == "Replace") {
    ROOST_ASSIGN_OR_RETURN(auto step, MakeReplace(node));
    Append(node, std::move(step));
    return {};
  }
  std::unique_ptr<const NormalizerStep> step = StepWithoutOptions(name);
  if (step == nullptr) return type.Complain(fmt::format("'{}' is not supported", name));
  Append(node, std::move(step));
  return {};
}

Result<Normalizer> Normalizer::FromJson(const std::optional<JsonNode>& node) {
  Normalizer normalizer;
  if (node) ROOST_RETURN_IF_ERROR(normalizer.Append(*node));
  return normalizer;
}

Result<void> Normalizer::Apply(std::string& text, std::size_t limit, RegexScratch& scratch,
                               WrittenMask* written) const {
  Rewrites rewrites;
  for (const auto& [path, step] : rules_) {
    rewrites.clear();
    Result<void> applied = step->Apply(text, limit, scratch, written != nullptr ? &rewrites : nullptr);
    if (applied.ok() && written != nullptr) written->Carry(rewrites);
    if (applied.ok() && !scratch.budget().TrySpend(1 + text.size() / CpuBudget::kBytesPerWork)) {
      applied = scratch.budget().SpentTime();
    }
    if (!applied.ok()) return InvalidArgument("", "{}: {}", path, applied.error().message);
  }
  return {};
}

bool Normalizer::MayDropFront() const {
  return std::any_of(rules_.begin(), rules_.end(), [](const Rule& rule) { return rule.step->MayDropFront(); });
}

std::optional<std::size_t> Normalizer::MostShrinking() const {
  std::size_t most = 1;
  for (const Rule& rule : rules_) {
    const std::optional<std::size_t> own = rule.step->MostShrinking();
    if (!own || *own > kMaxShrinking / most) return std::nullopt;
    most *= *own;
  }
  return most;
}

bool ReplaceAll(std::string_view pattern, std::string_view content, std::size_t limit, std::string& text,
                Rewrites* rewrites) {
  std::size_t found = text.find(pattern);
  if (found == std::string::npos) return true;
  std::string out;
  out.reserve(text.size());
  std::size_t begin = 0;
  for (; found != std::string::npos; found = text.find(pattern, begin)) {
    out.append(text, begin, found - begin).append(content);
    begin = found + pattern.size();
    if (rewrites != nullptr) rewrites->push_back({{found, begin}, content.size()});
    if (out.size() > limit) return false;
  }
  if (out.size() + (text.size() - begin) > limit) return false;
  out.append(text, begin);
  text = std::move(out);
  return true;
}

Result<Pattern> Pattern::FromJson(const JsonNode& parent) {
  ROOST_ASSIGN_OR_RETURN(const JsonNode node, parent.Get("pattern"));
  ROOST_ASSIGN_OR_RETURN(const std::optional<JsonNode> string, node.Find("String"));
  ROOST_ASSIGN_OR_RETURN(const std::optional<JsonNode> regex, node.Find("Regex"));
  if (string.has_value() == regex.has_value()) return node.Complain("must have either 'String' or 'Regex'");
  const JsonNode& member = string ? *string : *regex;
  ROOST_ASSIGN_OR_RETURN(const std::string_view text, member.AsString());
  if (string && text.size() > kMaxStringBytes) {
    return member.Complain(fmt::format("is over the limit of {} bytes", kMaxStringBytes));
  }
  return Pattern{string ? Kind::kString : Kind::kRegex, text, member};
}

Result<Regex> Pattern::Compile() const {
  std::string quoted;
  if (kind == Kind::kString) {
    constexpr std::string_view kMeta = R"(\^$.|?*+()[]{}-&)";
    for (const char c : text) {
      if (kMeta.find(c) != std::string_view::npos) quoted += '\\';
      quoted += c;
    }
  }
  Result<Regex> regex = Regex::Compile(kind == Kind::kString ? std::string_view(quoted) : text);
  if (!regex.ok()) return node.Complain(regex.error().message);
  return regex;
}

}  // namespace roost::text
