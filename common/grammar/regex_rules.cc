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
CodePoints LineEnds() { return CodePoints({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}); }

class Translator {
 public:
  Translator(std::string_view regex, RegexUse use, const std::string& field)
      : regex_(regex), use_(use), field_(field) {}

  Result<CostedText> Run() {
    if (regex_.empty() || regex_.size() > kMaxRegexBytes) {
      return Complain(fmt::format("has {} bytes, not 1 to {}", regex_.size(), kMaxRegexBytes));
    }
    if (!IsValidUtf8(regex_)) return Complain("is not UTF-8");
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
        if (!whole.text.empty()) whole.text += '|';
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
    const bool begins = depth == 0 && Take("^");
    Part sequence;
    bool ends = false;
    while (!AtEnd() && Now() != '|' && Now() != ')') {
      if (ends) return Complain("has $ before the end of an alternative");
      if (depth == 0 && Take("$")) {
        ends = true;
        continue;
      }
      ROOST_ASSIGN_OR_RETURN(Part part, Repeated(depth));
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
      case '.': ++at_; return Of(LineEnds().Complement());
      case '^':
      case '$': return Complain("has an anchor inside a group or an alternative");
      case '*':
      case '+':
      case '?':
      case '{': return Complain("repeats nothing");
      case ']':
      case '}': return Complain(fmt::format("has a {} that closes nothing; write \\{}", Now(), Now()));
      case '\\': return Escaped();
      default: return OfCharacter(NextCharacter());
    }
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
    CodePoints all({});
    while (!AtEnd() && Now() != ']') {
      ROOST_ASSIGN_OR_RETURN(const ClassItem first, Item());
      if (!first.single || at_ + 1 >= regex_.size() || Now() != '-' || regex_[at_ + 1] == ']') {
        all.Add(first.set);
        continue;
      }
      ++at_;
      ROOST_ASSIGN_OR_RETURN(const ClassItem last, Item());
      if (!last.single || *last.single < *first.single) return Complain("has a class with a range that is not valid");
      all.Add(CodePoints({{*first.single, *last.single}}));
    }
    if (!Take("]")) return Complain("has a class that does not end");
    return Of(is_negated ? all.Complement() : all);
  }

  struct ClassItem {
    std::optional<std::uint32_t> single;
    CodePoints set;
  };
  Result<ClassItem> Item() {
    if (Now() != '\\') {
      const std::uint32_t character = NextCharacter();
      return ClassItem{character, CodePoints({{character, character}})};
    }
    if (std::optional<CodePoints> set = Named()) return ClassItem{std::nullopt, *std::move(set)};
    if (regex_.substr(at_).starts_with("\\b")) {
      at_ += 2;
      return ClassItem{8, CodePoints({{8, 8}})};
    }
    ROOST_ASSIGN_OR_RETURN(const std::uint32_t character, EscapedCharacter());
    return ClassItem{character, CodePoints({{character, character}})};
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
    switch (regex_[at_ + 1]) {
      case 'd': set = Digits(); break;
      case 'D': set = Digits().Complement(); break;
      case 'w': set = WordCharacters(); break;
      case 'W': set = WordCharacters().Complement(); break;
      case 's': set = Spaces(); break;
      case 'S': set = Spaces().Complement(); break;
      default: return std::nullopt;
    }
    at_ += 2;
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
    const CodePoints set({{character, character}});
    if (set.And(Allowed()).empty()) {
      return Complain(
          "wants a character that can not be written without an escape: a quote, a backslash, a control "
          "character");
    }
    return Part{CodePoints::TextOf(character), 1, 1, true};
  }
  Result<Part> Of(const CodePoints& set) const {
    const CodePoints left = set.And(Allowed());
    if (left.empty()) return Complain("has a class without a character that can be written");
    return Part{left.Text(), 1, CostOf(left), true};
  }

  const std::string_view regex_;
  const RegexUse use_;
  const std::string& field_;
  std::size_t at_ = 0;
};

}  // namespace

Result<CostedText> LibraryRegex(std::string_view regex, RegexUse use, const std::string& field) {
  return Translator(regex, use, field).Run();
}

}  // namespace roost::grammar
