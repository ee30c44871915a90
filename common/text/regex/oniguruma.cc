// Translates the regular expressions of tokenizer files, written for Oniguruma with its Ruby syntax, into PCRE2's
// syntax (compiled with UTF, UCP, MULTILINE and newline LF), so that both match the same.
//
// Translated: \s (Unicode's White_Space in Oniguruma), {n,m}+ (greedy repeat of a repeat, not possessive), {,n}, \v,
// \h, scripts. Refused with a message that names it: what differs and is not worth translating (POSIX classes, class
// intersections, nested classes, back-references, \b, \w, case folding that changes a string's length, repeats of what
// may be empty, '.*' behind a look-around, …), because a wrong split would give a wrong prompt. oniguruma_compare_test
// compares random patterns with Oniguruma.
//
// The result contains callouts, with which regex.cc limits the time of a match.
//
// Source: Oniguruma's doc/RE and doc/SYNTAX.md; pcre2pattern(3).
#include "common/text/regex/regex.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/base/utf8.h"
#include "common/text/regex/regex.h"

namespace roost::text {
namespace {

// Reads the characters and escapes of an Oniguruma pattern, for oniguruma.cc: the current place, what an escape there
// means in PCRE2, and the error that names the place. One pass, one thread.

// The meaning of an escape: one code point, or a set, as text inside a class and outside of one.
struct Escape {
  std::optional<char32_t> literal;
  std::string outside;
  std::string inside;
  bool has_letters = true;  // of a set: can a case-insensitive match need two letters for one member?
};

class PatternReader {
 public:
  explicit PatternReader(std::string_view pattern) : in_(pattern) {}

  [[nodiscard]] Error Refuse(std::string_view what) const {
    return InvalidArgument("", "regular expression '{}' at byte {}: {}", in_, pos_, what);
  }
  [[nodiscard]] bool Next(std::string_view text) const { return in_.substr(pos_).starts_with(text); }
  bool Take(std::string_view text) {
    if (!Next(text)) return false;
    pos_ += text.size();
    return true;
  }

  // Reads the escape at the current backslash, or the current UTF-8 character.
  Result<Escape> ReadEscape();
  Result<char32_t> ReadCharacter();

 protected:
  std::string_view in_;
  std::size_t pos_ = 0;
  bool caseless_ = false;  // at the current place

 private:
  Result<Escape> ReadProperty(std::string_view letter);
  Result<char32_t> ReadHex(std::size_t least, std::size_t most);
};

// All code points except kSpaceCharacters.
constexpr std::string_view kNonSpaces =
    R"(\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027})"
    R"(\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{d7ff}\x{e000}-\x{10ffff})";
constexpr std::string_view kHexDigits = "0-9A-Fa-f";

// Properties with the same meaning in both libraries.
constexpr std::array<std::string_view, 34> kProperties = {
    "L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N", "Nd", "Nl", "No", "P",  "Pc",  "Pd",
    "Ps", "Pe", "Pi", "Pf", "Po", "S",  "Sm", "Sc", "Sk", "So", "Z", "Zs", "Zl", "Zp", "Cc", "Han", "Co"};
constexpr std::array<std::string_view, 3> kCasedProperties = {"Lu", "Ll", "Lt"};

std::optional<unsigned> HexValue(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a') + 10U;
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A') + 10U;
  return std::nullopt;
}

[[nodiscard]] bool IsAsciiAlnum(char32_t c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

Result<Escape> PatternReader::ReadEscape() {
  const auto set = [](std::string_view members, bool has_letters) {
    return Escape{{}, fmt::format("[{}]", members), std::string(members), has_letters};
  };
  const auto literal = [](char32_t c) { return Escape{c, {}, {}}; };
  ++pos_;
  if (pos_ >= in_.size()) return Refuse("it ends within an escape");
  ROOST_ASSIGN_OR_RETURN(char32_t c, ReadCharacter());
  switch (c) {
    case 's': return set(kSpaceCharacters, false);
    case 'S': return set(kNonSpaces, true);
    case 'd': return Escape{{}, "\\p{Nd}", "\\p{Nd}", false};
    case 'D': return Escape{{}, "\\P{Nd}", "\\P{Nd}"};
    case 'h': return set(kHexDigits, false);
    case 'p': return ReadProperty("\\p");
    case 'P': return ReadProperty("\\P");
    case 'n': return literal('\n');
    case 'r': return literal('\r');
    case 't': return literal('\t');
    case 'f': return literal('\f');
    case 'v': return literal('\v');
    case 'a': return literal('\a');
    case 'e': return literal(0x1B);
    case 'x':
    case 'u': {
      ROOST_ASSIGN_OR_RETURN(char32_t value, c == 'u' ? ReadHex(4, 4) : ReadHex(1, 2));
      return literal(value);
    }
    default: break;
  }
  if (IsAsciiAlnum(c)) return Refuse("this escape is not supported");
  return literal(c);
}

Result<Escape> PatternReader::ReadProperty(std::string_view letter) {
  const std::size_t close = in_.find('}', pos_);
  if (!Next("{") || close == std::string_view::npos) return Refuse("a property needs braces");
  const std::string_view name = in_.substr(pos_ + 1, close - pos_ - 1);
  if (std::find(kProperties.begin(), kProperties.end(), name) == kProperties.end()) {
    return Refuse(fmt::format("property '{}' is not supported", name));
  }
  if (caseless_ && std::find(kCasedProperties.begin(), kCasedProperties.end(), name) != kCasedProperties.end()) {
    return Refuse(fmt::format("property '{}' is not supported where case is ignored", name));
  }
  pos_ = close + 1;
  // In PCRE2, plain "Han" would mean script extensions.
  const std::string text = fmt::format("{}{{{}{}}}", letter, name == "Han" ? "sc:" : "", name);
  const bool has_letters = letter == "\\P" || name[0] == 'L' || name[0] == 'M';
  return Escape{{}, text, text, has_letters};
}

Result<char32_t> PatternReader::ReadHex(std::size_t least, std::size_t most) {
  const bool braces = most == 2 && Take("{");
  if (braces) most = 6;
  std::uint32_t value = 0;
  std::size_t count = 0;
  for (; count < most && pos_ < in_.size(); ++count, ++pos_) {
    const std::optional<unsigned> digit = HexValue(in_[pos_]);
    if (!digit) break;
    value = value * 16 + *digit;
  }
  if (count < least || (braces && !Take("}"))) return Refuse("a code point in hexadecimal is incomplete");
  if (most == 2 && value > 0x7F) return Refuse("a lone byte is not supported");
  if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) return Refuse("there is no such code point");
  return static_cast<char32_t>(value);
}

Result<char32_t> PatternReader::ReadCharacter() {
  const std::optional<CodePoint> point = DecodeUtf8(in_.substr(pos_));
  if (!point) return Refuse("it is not valid UTF-8");
  pos_ += point->length;
  return point->value;
}

// Placed behind every repeat and group. A match that tries alternatives passes one each time, so the work between two
// callouts is at most the pattern's length plus one run of characters.
constexpr std::string_view kCallout = "(?C)";

// Letter pairs that fold together with one other character ("ss" with "ß"): Oniguruma matches those, PCRE2 does not.
constexpr std::array<std::string_view, 5> kFoldingPairs = {"ss", "ff", "fi", "fl", "st"};

// One pass from left to right. out_ is the translation so far.
class Translator : private PatternReader {
 public:
  explicit Translator(std::string_view pattern) : PatternReader(pattern) {}

  Result<std::string> Run() {
    while (pos_ < in_.size()) ROOST_RETURN_IF_ERROR(Step());
    if (!groups_.empty()) return Refuse("a group is not closed");
    return std::move(out_);
  }

 private:
  // Can the pattern so far match the empty string?
  struct Emptiness {
    bool alternative = true;  // the current one
    bool earlier = false;     // one of those before it
  };
  struct Group {
    std::size_t start;  // place of its parenthesis in out_
    bool caseless;      // the setting outside the group
    bool quantifiable;  // false for look-arounds
    Emptiness outside;
  };

  Result<void> Step();
  Result<void> OpenGroup();
  Result<void> CloseGroup();
  Result<void> Repeat();
  Result<void> RepeatInterval(std::string_view interval);
  Result<void> Class();
  Result<void> ClassItem(std::string& out);
  Result<char32_t> ClassRangeEnd();
  Result<void> Literal(char32_t c);
  Result<void> CheckCaseless(char32_t c);
  [[nodiscard]] std::string_view IntervalAhead() const;
  [[nodiscard]] bool IsRepeatAhead() const { return Next("*") || Next("+") || Next("?") || !IntervalAhead().empty(); }

  void BeginAtom() {
    atom_ = out_.size();
    last_literal_ = 0;
    atom_is_any_ = false;
    SetAtomEmptiness(false);
  }
  void SetAtomEmptiness(bool may_be_empty) {
    atom_may_be_empty_ = may_be_empty;
    empty_before_atom_ = emptiness_.alternative;
    emptiness_.alternative = emptiness_.alternative && may_be_empty;
  }
  void Anchor(std::string_view text) {
    out_ += text;
    atom_.reset();
    last_literal_ = 0;
  }

  std::string out_;
  std::vector<Group> groups_;
  Emptiness emptiness_;              // of the current group
  std::optional<std::size_t> atom_;  // place in out_ of the atom that a quantifier would repeat
  bool atom_is_any_ = false;         // the atom is '.'
  bool atom_may_be_empty_ = false;
  bool empty_before_atom_ = true;  // emptiness_.alternative before the atom
  bool group_begins_ = true;       // nothing of this group was read yet
  bool found_look_around_ = false;
  char last_literal_ = 0;
};

std::string EscapeCharacter(char32_t c) {
  if (IsAsciiAlnum(c)) return {static_cast<char>(c)};
  return fmt::format("\\x{{{:x}}}", static_cast<std::uint32_t>(c));
}

Result<void> Translator::Step() {
  const bool first = std::exchange(group_begins_, false);
  switch (in_[pos_]) {
    case '(':
      if (Next("(?i)") && !first) return Refuse("(?i) is supported at the beginning of a group only");
      return OpenGroup();
    case ')': return CloseGroup();
    case '[': return Class();
    case '*':
    case '+':
    case '?': return Repeat();
    case '{':
      if (!IntervalAhead().empty()) return Repeat();
      break;
    case '|':
      emptiness_ = {true, emptiness_.earlier || emptiness_.alternative};
      Anchor(in_.substr(pos_++, 1));
      return {};
    case '$': found_look_around_ = true; [[fallthrough]];
    case '^': Anchor(in_.substr(pos_++, 1)); return {};
    case '.':
      BeginAtom();
      atom_is_any_ = true;
      out_ += in_[pos_++];
      return {};
    case '\\': {
      if (Next("\\A") || Next("\\z") || Next("\\Z")) {
        found_look_around_ |= !Next("\\A");
        Anchor(in_.substr(pos_, 2));
        pos_ += 2;
        return {};
      }
      ROOST_ASSIGN_OR_RETURN(Escape escape, ReadEscape());
      if (escape.literal) return Literal(*escape.literal);
      BeginAtom();
      out_ += escape.outside;
      return {};
    }
    default: break;
  }
  ROOST_ASSIGN_OR_RETURN(char32_t c, ReadCharacter());
  return Literal(c);
}

Result<void> Translator::OpenGroup() {
  struct Opening {
    std::string_view in;
    std::string_view out;
    bool quantifiable;
  };
  // Captures are not used, so a capturing group becomes a plain one.
  static constexpr Opening kOpenings[] = {{"(?:", "(?:", true},    {"(?i:", "(?i:", true},  {"(?-i:", "(?-i:", true},
                                          {"(?>", "(?>", true},    {"(?=", "(?=", false},   {"(?!", "(?!", false},
                                          {"(?<=", "(?<=", false}, {"(?<!", "(?<!", false}, {"(", "(?:", true}};
  if (Take("(?i)")) {
    caseless_ = true;
    group_begins_ = true;
    Anchor("(?i)");
    return {};
  }
  const auto* opening = std::find_if(std::begin(kOpenings), std::end(kOpenings),
                                     [&](const Opening& candidate) { return Next(candidate.in); });
  if (opening->in == "(" && Next("(?")) return Refuse("this kind of group is not supported");
  groups_.push_back({out_.size(), caseless_, opening->quantifiable, std::exchange(emptiness_, {})});
  if (!opening->quantifiable) found_look_around_ = true;
  if (opening->in == "(?i:") caseless_ = true;
  if (opening->in == "(?-i:") caseless_ = false;
  pos_ += opening->in.size();
  Anchor(opening->out);
  group_begins_ = true;
  return {};
}

Result<void> Translator::CloseGroup() {
  if (groups_.empty()) return Refuse("a group is closed that was not opened");
  const Group group = groups_.back();
  groups_.pop_back();
  ++pos_;
  out_ += ')';
  caseless_ = group.caseless;
  last_literal_ = 0;
  atom_.reset();
  const bool may_be_empty = emptiness_.alternative || emptiness_.earlier;
  emptiness_ = group.outside;
  if (!group.quantifiable) return {};
  atom_is_any_ = false;
  SetAtomEmptiness(may_be_empty);
  if (IsRepeatAhead()) {  // one callout per round
    out_.insert(group.start, "(?:");
    out_.append(kCallout).append(")");
    atom_ = group.start;
  } else {
    out_ += kCallout;
  }
  return {};
}

// "{n}", "{n,}", "{n,m}" or "{,m}" if one stands here; else empty, and the brace is a literal character.
std::string_view Translator::IntervalAhead() const {
  const std::string_view rest = in_.substr(pos_);
  const std::size_t close = rest.find('}');
  if (close == std::string_view::npos || close < 2) return {};
  const std::string_view body = rest.substr(1, close - 1);
  const auto is_digit_or_comma = [](char c) { return (c >= '0' && c <= '9') || c == ','; };
  const bool is_interval = std::all_of(body.begin(), body.end(), is_digit_or_comma) &&
                           std::count(body.begin(), body.end(), ',') <= 1 && body != ",";
  return is_interval ? rest.substr(0, close + 1) : std::string_view();
}

Result<void> Translator::Repeat() {
  if (!atom_) return Refuse("there is nothing to repeat");
  if (atom_may_be_empty_) return Refuse("a repeat of something that can be empty is not supported");
  // Oniguruma tries such a pattern only at the beginnings of lines.
  if (atom_is_any_ && found_look_around_ && !Next("?")) {
    return Refuse("a repeat of '.' behind a look-around or an end of line is not supported");
  }
  if (Next("*") || Next("?") || Next("{,") || Next("{0")) emptiness_.alternative = empty_before_atom_;
  if (in_[pos_] == '{') {
    ROOST_RETURN_IF_ERROR(RepeatInterval(IntervalAhead()));
  } else {
    out_ += in_[pos_++];
    if (Next("?") || Next("+")) out_ += in_[pos_++];
  }
  out_ += kCallout;
  atom_.reset();
  last_literal_ = 0;
  if (IsRepeatAhead()) return Refuse("a repeat of a repeat is not supported");
  return {};
}

Result<void> Translator::RepeatInterval(std::string_view interval) {
  pos_ += interval.size();
  const bool has_comma = interval.find(',') != std::string_view::npos;
  out_ += interval.starts_with("{,") ? fmt::format("{{0{}", interval.substr(1)) : std::string(interval);
  if (Next("?")) {
    if (!has_comma) return Refuse("'{n}?' is not supported");
    out_ += in_[pos_++];
  } else if (Next("+")) {
    out_.insert(*atom_, "(?:");
    out_ += ")+";
    ++pos_;
  }
  return {};
}

Result<void> Translator::Class() {
  BeginAtom();
  std::string out(1, in_[pos_++]);
  if (Take("^")) out += '^';
  if (Next("]")) return Refuse("']' at the beginning of a class is not supported");
  if (Take("-")) out += EscapeCharacter('-');
  while (!Take("]")) {
    if (pos_ >= in_.size()) return Refuse("a class is not closed");
    ROOST_RETURN_IF_ERROR(ClassItem(out));
  }
  out_ += out;
  out_ += ']';
  return {};
}

Result<void> Translator::ClassItem(std::string& out) {
  if (Next("[")) return Refuse("a class within a class is not supported");
  if (Next("&&")) return Refuse("the intersection of classes is not supported");
  if (Next("-") && !Next("-]")) return Refuse("'-' inside a class must be escaped");
  char32_t first = 0;
  if (Next("\\")) {
    ROOST_ASSIGN_OR_RETURN(Escape escape, ReadEscape());
    if (!escape.literal) {
      if (caseless_ && escape.has_letters) {
        return Refuse("a class with a set of letters is not supported where case is ignored");
      }
      out += escape.inside;
      return {};
    }
    first = *escape.literal;
  } else {
    ROOST_ASSIGN_OR_RETURN(first, ReadCharacter());
  }
  ROOST_RETURN_IF_ERROR(CheckCaseless(first));
  out += EscapeCharacter(first);
  if (!Next("-") || Next("-]")) return {};
  ++pos_;
  ROOST_ASSIGN_OR_RETURN(char32_t last, ClassRangeEnd());
  if (last < first) return Refuse("the range is empty");
  out += '-';
  out += EscapeCharacter(last);
  return {};
}

Result<char32_t> Translator::ClassRangeEnd() {
  if (Next("[")) return Refuse("'[' must be escaped");
  if (!Next("\\")) {
    ROOST_ASSIGN_OR_RETURN(char32_t c, ReadCharacter());
    ROOST_RETURN_IF_ERROR(CheckCaseless(c));
    return c;
  }
  ROOST_ASSIGN_OR_RETURN(Escape escape, ReadEscape());
  if (!escape.literal) return Refuse("a range must end with a character");
  return *escape.literal;
}

Result<void> Translator::CheckCaseless(char32_t c) {
  if (caseless_ && c > 0x7F) return Refuse("only ASCII is supported where case is ignored");
  return {};
}

Result<void> Translator::Literal(char32_t c) {
  ROOST_RETURN_IF_ERROR(CheckCaseless(c));
  const char lower = c < 0x80 ? static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c) : '\0';
  const std::array<char, 2> pair = {last_literal_, lower};
  if (caseless_ &&
      std::find(kFoldingPairs.begin(), kFoldingPairs.end(), std::string_view(pair.data(), 2)) != kFoldingPairs.end()) {
    return Refuse("two letters that fold into one are not supported where case is ignored");
  }
  BeginAtom();
  last_literal_ = lower;
  out_ += EscapeCharacter(c);
  return {};
}

}  // namespace

Result<std::string> TranslateOniguruma(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes) {
    return InvalidArgument("", "a regular expression of {} bytes is over the limit of {}", pattern.size(),
                           kMaxPatternBytes);
  }
  return Translator(pattern).Run();
}

}  // namespace roost::text
