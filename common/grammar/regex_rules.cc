#include "common/grammar/regex_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/utf8.h"
#include "common/grammar/code_points.h"

namespace roost::grammar {
namespace {

constexpr std::uint32_t kMaxCount = 65'536;

struct Part {
  std::string text;
  std::size_t elements = 0;
  CompileCost cost = 0;
  bool is_group = false;  // or a class, or one character: something that a repetition can apply to
};

CodePoints Digits() { return CodePoints({{'0', '9'}}); }
CodePoints WordCharacters() { return CodePoints({{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}); }
CodePoints Spaces() {
  return CodePoints({{'\t', '\r'},
                     {' ', ' '},
                     {0xA0, 0xA0},
                     {0x1680, 0x1680},
                     {0x2000, 0x200A},
                     {0x2028, 0x2029},
                     {0x202F, 0x202F},
                     {0x205F, 0x205F},
                     {0x3000, 0x3000},
                     {0xFEFF, 0xFEFF}});
}
// White space that both Python and Rust take; wide: all that one of them takes.
CodePoints SpacesOf(bool is_wide) {
  if (!is_wide) return Spaces().And(CodePoints({{0xFEFF, 0xFEFF}}).Complement());
  CodePoints all = Spaces();
  all.Add(CodePoints({{0x1C, 0x1F}, {0x85, 0x85}}));
  return all;
}
CodePoints Ascii() { return CodePoints({{0, 0x7F}}); }
// Characters beyond ASCII that are the same as a letter of ASCII where case is ignored.
CodePoints CaseKin() { return CodePoints({{0x130, 0x131}, {0x17F, 0x17F}, {0x212A, 0x212A}}); }
CodePoints WithBothCases(CodePoints set) {
  constexpr std::uint32_t kStep = 'a' - 'A';
  const CodePoints capitals = set.And(CodePoints({{'A', 'Z'}}));
  const CodePoints small = set.And(CodePoints({{'a', 'z'}}));
  for (const auto& [first, last] : capitals.ranges()) set.Add(CodePoints({{first + kStep, last + kStep}}));
  for (const auto& [first, last] : small.ranges()) set.Add(CodePoints({{first - kStep, last - kStep}}));
  return set;
}
CodePoints LineEnds() { return CodePoints({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}); }

class Translator {
 public:
  Translator(std::string_view regex, RegexUse use, const std::string& field)
      : regex_(regex), use_(use), field_(field) {}

  // Writes a rule.
  Translator(std::string_view regex, RuleOptions options, const std::string& field)
      : regex_(regex), field_(field), rule_(options) {}

  Result<CostedText> Run() {
    if (regex_.empty() || regex_.size() > kMaxRegexBytes) {
      return Complain(fmt::format("has {} bytes, not 1 to {}", regex_.size(), kMaxRegexBytes));
    }
    if (!IsValidUtf8(regex_)) return Complain("is not UTF-8");
    if (rule_) TakeFlags();
    ROOST_ASSIGN_OR_RETURN(Part whole, Alternatives(0));
    if (at_ < regex_.size()) return Complain("closes a group that was not opened");
    if (whole.text.empty()) return Complain("matches only the empty text");
    return CostedText{std::move(whole.text), whole.cost};
  }

 private:
  Error Complain(std::string_view what) const {
    return InvalidArgument(field_, "the regular expression {} (byte {})", what, at_);
  }
  [[nodiscard]] bool AtEnd() const { return at_ == regex_.size(); }
  [[nodiscard]] char Now() const { return regex_[at_]; }
  bool Take(std::string_view text) {
    if (!regex_.substr(at_).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }

  // (?i), (?s) or both, in front.
  void TakeFlags() {
    const std::size_t end = regex_.find(')');
    if (!regex_.starts_with("(?") || end == std::string_view::npos || end == 2) return;
    const std::string_view flags = regex_.substr(2, end - 2);
    if (flags.find_first_not_of("is") != std::string_view::npos) return;
    rule_->ignores_case = rule_->ignores_case || flags.find('i') != std::string_view::npos;
    rule_->dot_is_any = rule_->dot_is_any || flags.find('s') != std::string_view::npos;
    at_ = end + 1;
  }

  [[nodiscard]] CodePoints Allowed() const {
    return use_ == RegexUse::kWholeText
               ? CodePoints({{1, 0xD7FF}, {0xE000, CodePoints::kLast}})
               : CodePoints({{' ', '!'}, {'#', '['}, {']', 0xD7FF}, {0xE000, CodePoints::kLast}});
  }

  // Reads up to the end, or the parenthesis that closes the group. An empty alternative makes the whole optional.
  Result<Part> Alternatives(std::size_t depth) {
    if (depth > kMaxRegexDepth) return Complain(fmt::format("has groups more than {} deep", kMaxRegexDepth));
    Part whole;
    bool has_empty = false;
    while (true) {
      ROOST_ASSIGN_OR_RETURN(const Part one, Alternative(depth));
      has_empty = has_empty || one.text.empty();
      if (!one.text.empty()) {
        if (!whole.text.empty()) whole.text += rule_ ? " | " : "|";
        whole.text += one.text;
      }
      ROOST_RETURN_IF_ERROR(Add(one, whole));
      if (!Take("|")) break;
    }
    if (has_empty && !whole.text.empty()) whole.text = '(' + whole.text + ")?";
    return whole;
  }

  Result<Part> Alternative(std::size_t depth) {
    const bool is_search = use_ == RegexUse::kJsonPattern && depth == 0;
    const bool may_anchor = depth == 0 && (!rule_ || rule_->anchors == RegexAnchors::kMayStand);
    const bool begins = may_anchor && Take("^");
    Part sequence;
    bool ends = false;
    while (!AtEnd() && Now() != '|' && Now() != ')') {
      if (ends) return Complain("has $ before the end of an alternative");
      if (may_anchor && Take("$")) {
        ends = true;
        continue;
      }
      ROOST_ASSIGN_OR_RETURN(Part part, Repeated(depth));
      if (rule_ && !sequence.text.empty() && !part.text.empty()) sequence.text += ' ';
      sequence.text += part.text;
      ROOST_RETURN_IF_ERROR(Add(part, sequence));
    }
    if (is_search && !begins) sequence.text.insert(0, Allowed().Text() + '*');
    if (is_search && !ends) sequence.text += Allowed().Text() + '*';
    if (is_search && !(begins && ends)) sequence.cost += 2 * CostOf(Allowed());
    return sequence;
  }

  Result<void> Add(const Part& part, Part& whole) const {
    whole.elements += part.elements;
    whole.cost += part.cost;
    if (whole.elements > kMaxRegexElements) return Complain("is too large with its repetitions written out");
    if (whole.cost > kMaxCompileCost) return Complain("has too many classes and repetitions to be compiled in time");
    return {};
  }

  // More characters allow more tokens.
  static CompileCost CostOf(const CodePoints& set) {
    std::uint64_t size = 0;
    for (const auto& [first, last] : set.ranges()) size += last - first + 1;
    return size <= 1 ? 1 : size <= 16 ? 4 : size <= 128 ? 8 : 16;
  }

  Result<Part> Repeated(std::size_t depth) {
    ROOST_ASSIGN_OR_RETURN(Part part, Atom(depth));
    if (AtEnd()) return part;
    std::size_t factor = 1;
    if (Take("*") || Take("+") || Take("?")) {
      part.text += regex_[at_ - 1];
      factor = 2;
      part.cost *= 2;
    } else if (Now() == '{') {
      ROOST_ASSIGN_OR_RETURN(factor, Counts(part));
      part.cost *= factor > kWrittenOut ? 2 * kWrittenOut : factor;
    } else {
      return part;
    }
    Take("?");  // lazy or greedy makes no difference for a full match
    if (!AtEnd() && (Now() == '*' || Now() == '+' || Now() == '?' || Now() == '{')) {
      return Complain("repeats a repetition");
    }
    part.elements *= factor;
    return part;
  }

  Result<std::size_t> Counts(Part& part) {
    ++at_;
    const std::optional<std::uint32_t> low = Number();
    std::optional<std::uint32_t> high = low;
    bool is_open = false;
    if (Take(",")) {
      high = Number();
      is_open = !high;
    }
    if (!low || !Take("}")) return Complain("has a { that is not a repetition; write \\{");
    if (*low > kMaxCount || high.value_or(0) > kMaxCount)
      return Complain(fmt::format("repeats more than {} times", kMaxCount));
    if (!is_open && *high < *low) return Complain("has a repetition whose bounds are in the wrong order");
    if (!is_open && *high == 0) {
      part.text.clear();
    } else {
      part.text += is_open ? fmt::format("{{{},}}", *low) : fmt::format("{{{},{}}}", *low, *high);
    }
    return std::size_t{is_open ? *low + 1 : *high};
  }

  std::optional<std::uint32_t> Number() {
    std::optional<std::uint32_t> number;
    while (!AtEnd() && Now() >= '0' && Now() <= '9') {
      number =
          std::min<std::uint32_t>(number.value_or(0) * 10 + static_cast<std::uint32_t>(Now() - '0'), kMaxCount + 1);
      ++at_;
    }
    return number;
  }

  Result<Part> Atom(std::size_t depth) {
    switch (Now()) {
      case '(': return Group(depth);
      case '[': return Class();
      case '.': ++at_; return Of(Dot());
      case '^':
      case '$': return Complain(AnchorComplaint());
      case '*':
      case '+':
      case '?':
      case '{': return Complain("repeats nothing");
      case ']':
      case '}':
        if (rule_) return OfCharacter(NextCharacter());
        return Complain(fmt::format("has a {} that closes nothing; write \\{}", Now(), Now()));
      case '\\': return Escaped();
      default: return OfCharacter(NextCharacter());
    }
  }

  [[nodiscard]] CodePoints Dot() const {
    if (!rule_) return LineEnds().Complement();
    return rule_->dot_is_any ? CodePoints({{0, CodePoints::kLast}}) : CodePoints({{'\n', '\n'}}).Complement();
  }
  [[nodiscard]] std::string_view AnchorComplaint() const {
    return rule_ && rule_->anchors == RegexAnchors::kRefused ? "has an anchor, which is not supported here"
                                                             : "has an anchor inside a group or an alternative";
  }

  Result<Part> Group(std::size_t depth) {
    ++at_;
    if (Take("?")) {
      if (Take("<") || Take("P<")) {
        if (!AtEnd() && (Now() == '=' || Now() == '!')) return Complain("looks behind, which is not supported");
        while (!AtEnd() && Now() != '>') ++at_;
        if (!Take(">")) return Complain("has a group whose name does not end");
      } else if (!Take(":")) {
        return Complain("looks around or sets a flag, which is not supported");
      }
    }
    ROOST_ASSIGN_OR_RETURN(Part inner, Alternatives(depth + 1));
    if (!Take(")")) return Complain("has a group that does not end");
    if (inner.text.empty()) return Complain("has a group that matches only the empty text");
    return Part{'(' + inner.text + ')', inner.elements, inner.cost, true};
  }

  Result<Part> Class() {
    ++at_;
    const bool is_negated = Take("^");
    std::vector<CodePoints::Range> ranges;
    const auto add = [&ranges](const CodePoints& set) {
      ranges.insert(ranges.end(), set.ranges().begin(), set.ranges().end());
    };
    names_words_ = false;
    in_negated_ = is_negated;
    // Python and Rust take a bracket in front for a character.
    if (rule_ && Take("]")) add(CodePoints({{']', ']'}}));
    while (!AtEnd() && Now() != ']') {
      ROOST_RETURN_IF_ERROR(CheckClass());
      ROOST_ASSIGN_OR_RETURN(const ClassItem first, Item());
      if (!first.single || at_ + 1 >= regex_.size() || Now() != '-' || regex_[at_ + 1] == ']') {
        add(first.set);
        continue;
      }
      ++at_;
      ROOST_ASSIGN_OR_RETURN(const ClassItem last, Item());
      if (!last.single || *last.single < *first.single) return Complain("has a class with a range that is not valid");
      add(CodePoints({{*first.single, *last.single}}));
    }
    in_negated_ = false;
    if (!Take("]")) return Complain("has a class that does not end");
    CodePoints all(std::move(ranges));
    if (rule_ && rule_->ignores_case) all = WithBothCases(std::move(all));
    if (!is_negated) return Of(all);
    CodePoints others = all.Complement();
    if (rule_ && rule_->ignores_case) others = others.And(CaseKin().Complement());
    return Of(rule_ && names_words_ ? others.And(Ascii()) : others);
  }

  // Refuses what Python and Rust read differently: Rust has classes in classes, and operators between them.
  Result<void> CheckClass() const {
    if (!rule_) return {};
    if (Now() == '[') return Complain("has a [ in a class; write \\[");
    const std::string_view two = regex_.substr(at_, 2);
    if (two == "&&" || two == "--" || two == "~~") return Complain(fmt::format("has {} in a class", two));
    return {};
  }

  struct ClassItem {
    std::optional<std::uint32_t> single;
    CodePoints set;
  };
  Result<ClassItem> Item() {
    if (Now() != '\\') {
      const std::uint32_t character = NextCharacter();
      ROOST_RETURN_IF_ERROR(CheckCase(character));
      return ClassItem{character, CodePoints({{character, character}})};
    }
    if (std::optional<CodePoints> set = Named()) return ClassItem{std::nullopt, *std::move(set)};
    if (regex_.substr(at_).starts_with("\\b")) {
      at_ += 2;
      return ClassItem{8, CodePoints({{8, 8}})};
    }
    ROOST_ASSIGN_OR_RETURN(const std::uint32_t character, EscapedCharacter());
    ROOST_RETURN_IF_ERROR(CheckCase(character));
    return ClassItem{character, CodePoints({{character, character}})};
  }

  Result<void> CheckCase(std::uint32_t character) const {
    if (!rule_ || !rule_->ignores_case || character < 0x80) return {};
    return Complain("ignores the case of a character beyond ASCII, which is not supported");
  }

  Result<Part> Escaped() {
    if (const std::optional<CodePoints> set = Named()) return Of(*set);
    ROOST_ASSIGN_OR_RETURN(const std::uint32_t character, EscapedCharacter());
    return OfCharacter(character);
  }

  // \d and similar.
  std::optional<CodePoints> Named() {
    if (at_ + 1 >= regex_.size()) return std::nullopt;
    std::optional<CodePoints> set;
    const char name = regex_[at_ + 1];
    switch (name) {
      case 'd': set = Digits(); break;
      case 'D': set = Digits().Complement(); break;
      case 'w': set = WordCharacters(); break;
      case 'W': set = WordCharacters().Complement(); break;
      case 's': set = rule_ ? SpacesOf(in_negated_) : Spaces(); break;
      case 'S': set = (rule_ ? SpacesOf(!in_negated_) : Spaces()).Complement(); break;
      default: return std::nullopt;
    }
    at_ += 2;
    const bool is_opposite = name == 'D' || name == 'W';
    names_words_ = names_words_ || is_opposite || name == 'd' || name == 'w';
    // The digits and letters beyond ASCII are not listed here: their opposites are those of ASCII.
    if (rule_ && is_opposite) set = set->And(Ascii());
    return set;
  }

  Result<std::uint32_t> EscapedCharacter() {
    ++at_;
    if (AtEnd()) return Complain("ends with a backslash");
    const char kind = Now();
    constexpr std::string_view kNames = "tnvfr";
    constexpr std::string_view kMeant = "\t\n\v\f\r";
    if (const std::size_t name = kNames.find(kind); name != std::string_view::npos) {
      ++at_;
      return static_cast<std::uint32_t>(kMeant[name]);
    }
    if (kind == 'x') return Hex(2);
    if (kind == 'u') return Hex(4);
    const bool is_letter = (kind >= 'a' && kind <= 'z') || (kind >= 'A' && kind <= 'Z') || (kind >= '0' && kind <= '9');
    if (is_letter) return Complain(fmt::format("has \\{}, which is not supported", kind));
    return NextCharacter();
  }

  Result<std::uint32_t> Hex(std::size_t digits) {
    ++at_;
    std::uint32_t value = 0;
    for (; digits > 0; --digits, ++at_) {
      if (AtEnd()) return Complain("has an escape that does not end");
      const auto lower = static_cast<unsigned char>(Now() | 0x20);
      const bool is_digit = Now() >= '0' && Now() <= '9';
      if (!is_digit && (lower < 'a' || lower > 'f')) return Complain("has an escape that is not hexadecimal");
      value = value * 16 + (is_digit ? static_cast<std::uint32_t>(Now() - '0') : lower - 'a' + 10U);
    }
    return value;
  }

  std::uint32_t NextCharacter() {
    const std::size_t length = Utf8SequenceLength(regex_.substr(at_));
    std::uint32_t character = static_cast<unsigned char>(regex_[at_]);
    if (length > 1) character &= 0xFFU >> (length + 1);
    for (std::size_t i = 1; i < length; ++i) {
      character = character << 6U | (static_cast<unsigned char>(regex_[at_ + i]) & 0x3FU);
    }
    at_ += length;
    return character;
  }

  Result<Part> OfCharacter(std::uint32_t character) const {
    if (rule_) {
      ROOST_RETURN_IF_ERROR(CheckCase(character));
      const CodePoints set({{character, character}});
      return Of(rule_->ignores_case ? WithBothCases(set) : set);
    }
    const CodePoints set({{character, character}});
    if (set.And(Allowed()).empty()) {
      return Complain(
          "wants a character that can not be written without an escape: a quote, a backslash, a control "
          "character");
    }
    return Part{CodePoints::TextOf(character), 1, 1, true};
  }
  Result<Part> Of(const CodePoints& set) const {
    if (rule_) {
      std::string text = RuleOfSet(set, rule_->place);
      if (text.empty()) return Complain("has a class without a character that can be written");
      return Part{std::move(text), 1, CostOf(set), true};
    }
    const CodePoints left = set.And(Allowed());
    if (left.empty()) return Complain("has a class without a character that can be written");
    return Part{left.Text(), 1, CostOf(left), true};
  }

  const std::string_view regex_;
  const RegexUse use_ = RegexUse::kWholeText;
  const std::string& field_;
  std::optional<RuleOptions> rule_;  // of a rule
  std::size_t at_ = 0;
  bool names_words_ = false;  // the class at hand has \w, \d or their opposites
  bool in_negated_ = false;
};

}  // namespace

Result<CostedText> LibraryRegex(std::string_view regex, RegexUse use, const std::string& field) {
  return Translator(regex, use, field).Run();
}

Result<CostedText> RuleOfRegex(std::string_view regex, RuleOptions options, const std::string& field) {
  return Translator(regex, options, field).Run();
}

}  // namespace roost::grammar
