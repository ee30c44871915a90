#include "common/text/jinja/parse/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/result.h"
#include "common/base/utf8.h"
#include "common/text/jinja/python_strings.h"
#include "common/text/jinja/value.h"

namespace roost::jinja {
namespace {

// The small languages inside a template's tags: numbers, string escapes, names.
struct NumberToken {
  std::size_t length;          // bytes of the number at the front
  std::optional<Value> value;  // Int or Float; nothing when it is malformed or out of range
};

bool IsDigitOf(char c, int base) {
  if (c >= '0' && c <= '9') return c - '0' < base;
  const char lower = static_cast<char>(c | 0x20);
  return base == 16 && lower >= 'a' && lower <= 'f';
}

// Length of the digits at the front, including single underscores between them.
std::size_t DigitsLength(std::string_view text, int base) {
  std::size_t length = 0;
  while (length < text.size()) {
    const bool is_separated = length > 0 && text[length] == '_' && length + 1 < text.size();
    const std::size_t digit = length + (is_separated ? 1 : 0);
    if (!IsDigitOf(text[digit], base)) break;
    length = digit + 1;
  }
  return length;
}

std::string WithoutUnderscores(std::string_view text) {
  std::string out(text);
  out.erase(std::remove(out.begin(), out.end(), '_'), out.end());
  return out;
}

std::optional<Value> ParseInteger(std::string_view text, int base) {
  const std::string digits = WithoutUnderscores(text);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc() || end != digits.data() + digits.size() || digits.empty()) return std::nullopt;
  return Value::Int(value);
}

std::optional<Value> ParseFloat(std::string_view text) {
  const std::string digits = WithoutUnderscores(text);
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return Value::Float(value);
}

int BaseOf(std::string_view text) {
  if (text.size() < 3 || text[0] != '0') return 10;
  switch (text[1] | 0x20) {
    case 'x': return 16;
    case 'o': return 8;
    case 'b': return 2;
    default: return 10;
  }
}

// Length of ".digits" and of an exponent at the front, if present.
std::size_t FractionLength(std::string_view text) {
  std::size_t length = 0;
  if (!text.empty() && text[0] == '.') {
    const std::size_t digits = DigitsLength(text.substr(1), 10);
    if (digits > 0) length = digits + 1;
  }
  if (length < text.size() && (text[length] | 0x20) == 'e') {
    const std::size_t sign = length + 1 < text.size() && (text[length + 1] == '+' || text[length + 1] == '-') ? 1 : 0;
    const std::size_t digits = DigitsLength(text.substr(std::min(text.size(), length + 1 + sign)), 10);
    if (digits > 0) length += 1 + sign + digits;
  }
  return length;
}

// Value of `count` digits of `base` at the front; nothing when there are fewer.
std::optional<std::uint32_t> ParseCode(std::string_view text, std::size_t count, int base) {
  if (text.size() < count) return std::nullopt;
  std::uint32_t code = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + count, code, base);
  if (error != std::errc() || end != text.data() + count) return std::nullopt;
  return code;
}

std::optional<char> SimpleEscape(char c) {
  switch (c) {
    case 'n': return '\n';
    case 't': return '\t';
    case 'r': return '\r';
    case 'a': return '\a';
    case 'b': return '\b';
    case 'f': return '\f';
    case 'v': return '\v';
    case '\\':
    case '\'':
    case '"': return c;
    default: return std::nullopt;
  }
}

// The number of digits of a \x, \u or \U escape; 0 for another letter.
std::size_t HexDigits(char c) {
  switch (c) {
    case 'x': return 2;
    case 'u': return 4;
    case 'U': return 8;
    default: return 0;
  }
}

Result<std::size_t> AppendCode(std::optional<std::uint32_t> code, std::size_t length, std::string& out) {
  if (!code || *code > 0x10FFFF || (*code >= 0xD800 && *code < 0xE000)) {
    return InvalidArgument("", "a string has an escape that is not a character");
  }
  AppendUtf8(static_cast<char32_t>(*code), out);
  return length;
}

// `text` begins behind a backslash. Returns the length of the escape.
Result<std::size_t> DecodeEscape(std::string_view text, std::string& out) {
  const char c = text.empty() ? '\\' : text[0];
  if (c == '\n') return std::size_t{1};  // the line continues
  if (const auto simple = SimpleEscape(c)) {
    out += *simple;
    return std::size_t{1};
  }
  if (const std::size_t digits = HexDigits(c); digits > 0) {
    return AppendCode(ParseCode(text.substr(1), digits, 16), digits + 1, out);
  }
  std::size_t octal = 0;
  while (octal < 3 && octal < text.size() && IsDigitOf(text[octal], 8)) ++octal;
  if (octal > 0) return AppendCode(ParseCode(text, octal, 8), octal, out);
  if (c == 'N') return InvalidArgument("", "a string names a character by \\N, which is not supported");
  out += '\\';  // an unknown escape stands for itself
  return std::size_t{0};
}

// May `c` begin a name? Letters, the underscore, and every byte of a code point outside ASCII.
[[nodiscard]] bool IsNameByte(char c) {
  const char lower = static_cast<char>(c | 0x20);
  return (lower >= 'a' && lower <= 'z') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}

// The number at the front of `text`, which begins with a digit: decimal, 0x, 0o, 0b, with underscores; or a float.
NumberToken ScanNumber(std::string_view text) {
  if (const int base = BaseOf(text); base != 10) {
    const std::string_view digits = text.substr(2, DigitsLength(text.substr(2), base));
    if (!digits.empty()) return {digits.size() + 2, ParseInteger(digits, base)};
  }
  const std::size_t whole = DigitsLength(text, 10);
  const std::size_t fraction = FractionLength(text.substr(whole));
  if (fraction > 0) return {whole + fraction, ParseFloat(text.substr(0, whole + fraction))};
  const bool has_leading_zero =
      whole > 1 && text[0] == '0' && text.substr(0, whole).find_first_not_of("0_") != text.npos;
  if (has_leading_zero) return {whole, std::nullopt};
  return {whole, ParseInteger(text.substr(0, whole), 10)};
}

// `quoted` is the text between the quotes. Escapes as in Python's string literals.
Result<std::string> DecodeString(std::string_view quoted) {
  std::string out;
  out.reserve(quoted.size());
  for (std::size_t i = 0; i < quoted.size();) {
    if (quoted[i] != '\\') {
      out += quoted[i++];
      continue;
    }
    ROOST_ASSIGN_OR_RETURN(const std::size_t taken, DecodeEscape(quoted.substr(i + 1), out));
    i += 1 + taken;
  }
  return out;
}

// Turns all line ends into "\n", and drops the last one.
std::string NormalizeLines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

// The tag that two opening characters begin.
enum class Tag { kPrint, kBlock, kComment };

constexpr std::string_view kOneCharacterOperators = "+-*/%~[](){}=<>.:|,;";

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  Result<std::vector<Token>> Run() {
    while (place_ < source_.size()) {
      const std::size_t tag_begin = FindTag();
      if (tag_begin == std::string::npos) {
        EmitText(place_, source_.size());
        place_ = source_.size();
        break;
      }
      ROOST_RETURN_IF_ERROR(LexTag(tag_begin));
    }
    Emit(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[nodiscard]] std::string_view Rest() const { return std::string_view(source_).substr(place_); }
  [[nodiscard]] bool StartsWith(std::string_view wanted) const { return Rest().substr(0, wanted.size()) == wanted; }
  [[nodiscard]] char At(std::size_t place) const { return place < source_.size() ? source_[place] : '\0'; }

  void Emit(TokenKind kind, std::string text, Value value = {}) {
    tokens_.push_back(Token{kind, line_, std::move(text), std::move(value)});
  }

  Error Fail(std::string_view what) const { return InvalidArgument("", "line {}: {}", line_, what); }

  // Moves to `place`, counting lines.
  void AdvanceTo(std::size_t place) {
    for (; place_ < place; ++place_) line_ += source_[place_] == '\n' ? 1 : 0;
  }

  [[nodiscard]] std::size_t FindTag() const {
    for (std::size_t i = source_.find('{', place_); i != std::string::npos; i = source_.find('{', i + 1)) {
      const char next = At(i + 1);
      if (next == '{' || next == '%' || next == '#') return i;
    }
    return std::string::npos;
  }

  void EmitText(std::size_t begin, std::size_t end) {
    if (begin < end) Emit(TokenKind::kText, source_.substr(begin, end - begin));
  }

  // [begin, end) is the text before a tag; `sign` is the character behind the tag's opening. Returns the end of the
  // text to keep.
  [[nodiscard]] std::size_t StripBefore(std::size_t begin, std::size_t end, char sign, Tag tag) const {
    const std::string_view text = std::string_view(source_).substr(begin, end - begin);
    if (sign == '-') return begin + StripSpace(text, Side::kRight).size();
    if (sign == '+' || tag == Tag::kPrint) return end;
    const std::size_t newline = text.rfind('\n');
    const std::size_t line_begin = newline == std::string_view::npos ? 0 : newline + 1;
    const bool is_line_start = line_begin > 0 || begin == 0 || source_[begin - 1] == '\n';
    const bool is_blank = StripSpace(text.substr(line_begin), Side::kLeft).empty();
    return is_line_start && is_blank ? begin + line_begin : end;
  }

  // The length of a tag's closing at `place`, including its sign and the white space that it drops. Nothing when the
  // tag does not close here.
  [[nodiscard]] std::optional<std::size_t> MatchEnd(std::size_t place, std::string_view closing, Tag tag) const {
    const char sign = At(place);
    const bool has_sign = sign == '-' || (sign == '+' && tag != Tag::kPrint);
    const std::size_t begin = place + (has_sign ? 1 : 0);
    if (std::string_view(source_).substr(begin, 2) != closing) return std::nullopt;
    std::size_t end = begin + 2;
    if (has_sign && sign == '-') {
      const std::string_view rest = std::string_view(source_).substr(end);
      end += rest.size() - StripSpace(rest, Side::kLeft).size();
    } else if (!has_sign && tag != Tag::kPrint && At(end) == '\n') {
      ++end;
    }
    return end - place;
  }

  Result<void> LexTag(std::size_t begin) {
    const char opener = At(begin + 1);
    const Tag tag = opener == '{' ? Tag::kPrint : opener == '%' ? Tag::kBlock : Tag::kComment;
    const char sign = At(begin + 2);
    const bool has_sign = sign == '-' || sign == '+';
    const std::size_t text_begin = place_;
    const std::size_t text_end = StripBefore(text_begin, begin, sign, tag);
    EmitText(text_begin, text_end);
    AdvanceTo(begin);
    if (tag == Tag::kBlock) {
      if (const auto raw = MatchRawBegin(begin)) return LexRaw(*raw);
    }
    AdvanceTo(begin + (has_sign ? 3 : 2));
    if (tag == Tag::kComment) return SkipComment();
    return LexInside(tag);
  }

  Result<void> SkipComment() {
    for (std::size_t i = source_.find('#', place_); i != std::string::npos; i = source_.find('#', i + 1)) {
      if (At(i + 1) != '}') continue;
      const bool has_sign = i > place_ && (At(i - 1) == '-' || At(i - 1) == '+');
      const std::size_t begin = has_sign ? i - 1 : i;
      AdvanceTo(begin + MatchEnd(begin, "#}", Tag::kComment).value_or(2));
      return {};
    }
    return Fail("a comment does not end");
  }

  // The end of "{% raw %}" if it stands at `begin`; its `-` drops the white space behind it.
  [[nodiscard]] std::optional<std::size_t> MatchRawBegin(std::size_t begin) const {
    return MatchWordTag(begin, "raw", Tag::kPrint);
  }

  // "{%", sign, white space, `word`, white space, "%}". `tag` decides whether the closing drops a newline.
  [[nodiscard]] std::optional<std::size_t> MatchWordTag(std::size_t begin, std::string_view word, Tag tag) const {
    const std::string_view source = source_;
    std::size_t i = begin + 2;
    if (At(i) == '-' || At(i) == '+') ++i;
    const auto skip_space = [&] { i = source.size() - StripSpace(source.substr(i), Side::kLeft).size(); };
    skip_space();
    if (source.substr(i, word.size()) != word) return std::nullopt;
    i += word.size();
    skip_space();
    const auto length = MatchEnd(i, "%}", tag);
    return length ? std::optional(i + *length) : std::nullopt;
  }

  Result<void> LexRaw(std::size_t raw_end) {
    AdvanceTo(raw_end);
    for (std::size_t i = source_.find("{%", place_); i != std::string::npos; i = source_.find("{%", i + 1)) {
      const auto end = MatchWordTag(i, "endraw", Tag::kBlock);
      if (!end) continue;
      EmitText(place_, StripBefore(place_, i, At(i + 2), Tag::kBlock));
      AdvanceTo(*end);
      return {};
    }
    return Fail("a raw block does not end");
  }

  Result<void> LexInside(Tag tag) {
    const bool is_print = tag == Tag::kPrint;
    const std::string_view closing = is_print ? "}}" : "%}";
    Emit(is_print ? TokenKind::kPrintBegin : TokenKind::kBlockBegin, "");
    std::string open_brackets;
    while (true) {
      AdvanceTo(source_.size() - StripSpace(Rest(), Side::kLeft).size());
      if (place_ >= source_.size()) return Fail("a tag does not end");
      if (open_brackets.empty()) {
        if (const auto length = MatchEnd(place_, closing, tag)) {
          Emit(is_print ? TokenKind::kPrintEnd : TokenKind::kBlockEnd, "");
          AdvanceTo(place_ + *length);
          return {};
        }
      }
      ROOST_RETURN_IF_ERROR(LexToken(open_brackets));
    }
  }

  Result<void> LexToken(std::string& open_brackets) {
    const char c = source_[place_];
    if (c >= '0' && c <= '9') return LexNumber();
    if (IsNameByte(c)) return LexName();
    if (c == '"' || c == '\'') return LexString();
    return LexOperator(open_brackets);
  }

  Result<void> LexNumber() {
    // Behind a point, a number is an item, not a fraction: x.0.1 is item 1 of item 0.
    const bool is_item = place_ > 0 && source_[place_ - 1] == '.';
    const NumberToken number = ScanNumber(is_item ? Rest().substr(0, Rest().find('.')) : Rest());
    if (!number.value) return Fail(fmt::format("the number '{}' is not valid", Rest().substr(0, number.length)));
    Emit(TokenKind::kNumber, "", *number.value);
    AdvanceTo(place_ + number.length);
    return {};
  }

  Result<void> LexName() {
    std::size_t end = place_;
    while (end < source_.size() && (IsNameByte(source_[end]) || (source_[end] >= '0' && source_[end] <= '9'))) ++end;
    Emit(TokenKind::kName, source_.substr(place_, end - place_));
    AdvanceTo(end);
    return {};
  }

  Result<void> LexString() {
    const char quote = source_[place_];
    std::size_t end = place_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) return Fail("a string does not end");
    Result<std::string> text = DecodeString(std::string_view(source_).substr(place_ + 1, end - place_ - 1));
    if (!text.ok()) return Fail(text.error().message);
    Emit(TokenKind::kString, "", Value::WrittenString(std::move(text).value()));
    AdvanceTo(end + 1);
    return {};
  }

  [[nodiscard]] std::size_t OperatorLength() const {
    const char next = At(place_ + 1);
    switch (source_[place_]) {
      case '/': return next == '/' ? 2 : 1;
      case '*': return next == '*' ? 2 : 1;
      case '=':
      case '<':
      case '>': return next == '=' ? 2 : 1;
      case '!': return next == '=' ? 2 : 0;
      default: return kOneCharacterOperators.find(source_[place_]) == std::string_view::npos ? 0 : 1;
    }
  }

  Result<void> LexOperator(std::string& open_brackets) {
    const std::size_t length = OperatorLength();
    if (length == 0) {
      const std::string_view rest = Rest();
      return Fail(fmt::format("unexpected character '{}'", rest.substr(0, ByteOffset(rest, 1))));
    }
    ROOST_RETURN_IF_ERROR(Balance(source_[place_], open_brackets));
    Emit(TokenKind::kOperator, source_.substr(place_, length));
    AdvanceTo(place_ + length);
    return {};
  }

  // `open` holds the closing brackets that are still expected.
  Result<void> Balance(char c, std::string& open) const {
    if (c == '(') open += ')';
    if (c == '[') open += ']';
    if (c == '{') open += '}';
    if (c != ')' && c != ']' && c != '}') return {};
    if (open.empty()) return Fail(fmt::format("unexpected '{}'", c));
    if (open.back() != c) return Fail(fmt::format("unexpected '{}', expected '{}'", c, open.back()));
    open.pop_back();
    return {};
  }

  std::string source_;
  std::size_t place_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

Result<std::vector<Token>> Tokenize(std::string_view source) { return Lexer(NormalizeLines(source)).Run(); }

}  // namespace roost::jinja
