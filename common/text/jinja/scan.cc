#include "common/text/jinja/scan.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "common/base/utf8.h"

namespace roost::jinja {
namespace {

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

}  // namespace

bool IsNameByte(char c) {
  const char lower = static_cast<char>(c | 0x20);
  return (lower >= 'a' && lower <= 'z') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}

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

}  // namespace roost::jinja
