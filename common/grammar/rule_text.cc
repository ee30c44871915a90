#include "common/grammar/rule_text.h"

#include <fmt/format.h>

#include <vector>

#include "common/base/utf8.h"

namespace roost::grammar {
namespace {

// Beyond so many of a set, control characters without a short escape are left out of it.
constexpr std::size_t kMaxLongEscapes = 8;

CodePoints Plain(RulePlace place) {
  return place == RulePlace::kText ? CodePoints({{1, 0xD7FF}, {0xE000, CodePoints::kLast}})
                                   : CodePoints({{' ', '!'}, {'#', '['}, {']', 0xD7FF}, {0xE000, CodePoints::kLast}});
}

// As JSON escapes the character; empty if it has no short escape.
std::string ShortEscape(std::uint32_t character) {
  constexpr std::string_view kCharacters = "\"\\\b\f\n\r\t";
  constexpr std::string_view kLetters = "\"\\bfnrt";
  if (character >= 0x80) return "";
  const std::size_t at = kCharacters.find(static_cast<char>(character));
  return at == std::string_view::npos ? "" : std::string("\\") + kLetters[at];
}

std::string LongEscape(std::uint32_t character) { return fmt::format("\\u{:04x}", character); }

// The characters between the quotes of a string of EBNF.
std::string Quotable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    byte < 0x80 ? void(out += CodePoints::TextOf(byte)) : void(out += c);
  }
  return out;
}

std::string Quoted(std::string_view text) { return '"' + Quotable(text) + '"'; }

std::string Class(const CodePoints& set) {
  const auto [first, last] = set.ranges().front();
  if (set.ranges().size() > 1 || first != last) return set.Text();
  return '"' + CodePoints::TextOf(first) + '"';
}

}  // namespace

std::string RuleOfSet(const CodePoints& set, RulePlace place) {
  const CodePoints plain = set.And(Plain(place));
  std::vector<std::string> ways;
  if (!plain.empty()) ways.push_back(Class(plain));
  if (place == RulePlace::kJsonString) {
    std::vector<std::string> long_ones;
    const CodePoints escaped = set.And(CodePoints({{1, '\\'}}));
    for (const auto& [first, last] : escaped.ranges()) {
      for (std::uint32_t each = first; each <= last; ++each) {
        const std::string escape = ShortEscape(each);
        if (!escape.empty()) ways.push_back(Quoted(escape));
        if (escape.empty() && each < ' ') long_ones.push_back(Quoted(LongEscape(each)));
      }
    }
    if (long_ones.size() <= kMaxLongEscapes) ways.insert(ways.end(), long_ones.begin(), long_ones.end());
  }
  if (ways.size() <= 1) return ways.empty() ? "" : ways.front();
  return fmt::format("({})", fmt::join(ways, " | "));
}

std::string RuleOfText(std::string_view text, RulePlace place) {
  if (place == RulePlace::kText) return Quoted(text);
  std::string escaped;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const std::string escape = ShortEscape(byte);
    if (!escape.empty()) {
      escaped += escape;
    } else if (byte < ' ') {
      escaped += LongEscape(byte);
    } else {
      escaped += c;
    }
  }
  return Quoted(escaped);
}

}  // namespace roost::grammar
