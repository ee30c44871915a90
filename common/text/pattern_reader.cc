#include "common/text/pattern_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "common/base/utf8.h"
#include "common/text/regex.h"

namespace roost::text {
namespace {

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

}  // namespace

bool IsAsciiAlnum(char32_t c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

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

}  // namespace roost::text
