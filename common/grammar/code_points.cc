#include "common/grammar/code_points.h"

#include <fmt/format.h>

namespace roost::grammar {
namespace {

void AppendUtf8(std::uint32_t character, std::string& out) {
  if (character < 0x800) {
    out += static_cast<char>(0xC0U | character >> 6U);
  } else if (character < 0x10000) {
    out += static_cast<char>(0xE0U | character >> 12U);
    out += static_cast<char>(0x80U | (character >> 6U & 0x3FU));
  } else {
    out += static_cast<char>(0xF0U | character >> 18U);
    out += static_cast<char>(0x80U | (character >> 12U & 0x3FU));
    out += static_cast<char>(0x80U | (character >> 6U & 0x3FU));
  }
  out += static_cast<char>(0x80U | (character & 0x3FU));
}

bool IsHexDigit(std::uint32_t character) {
  return (character >= '0' && character <= '9') || (character >= 'A' && character <= 'F') ||
         (character >= 'a' && character <= 'f');
}

// The library's reader of regular expressions writes some escaped characters anew, as \xHH, for a second reader, which
// takes every hexadecimal digit that follows. So ranges that begin with such a digit come first: what follows an
// escaped character is then a dash, another escape, or no such digit. A caret never comes first: it would negate the
// class.
std::string ClassOf(std::vector<CodePoints::Range> ranges) {
  const auto split = [](CodePoints::Range range) { return range.first == '^' && range.second > '^'; };
  if (const auto found = std::find_if(ranges.begin(), ranges.end(), split); found != ranges.end()) {
    const CodePoints::Range rest{'^' + 1, found->second};
    found->second = '^';
    ranges.push_back(rest);
  }
  const auto rank = [](CodePoints::Range range) { return IsHexDigit(range.first) ? 0 : range.first == '^' ? 2 : 1; };
  std::stable_sort(ranges.begin(), ranges.end(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  std::string text;
  for (const auto& [first, last] : ranges) {
    text += CodePoints::TextOf(first);
    if (last > first + 1) text += '-';
    if (last > first) text += CodePoints::TextOf(last);
  }
  return text;
}

}  // namespace

void CodePoints::Normalise() {
  std::sort(ranges_.begin(), ranges_.end());
  std::vector<Range> merged;
  for (const Range& range : ranges_) {
    if (!merged.empty() && range.first <= merged.back().second + 1) {
      merged.back().second = std::max(merged.back().second, range.second);
    } else {
      merged.push_back(range);
    }
  }
  ranges_ = std::move(merged);
}

void CodePoints::Add(const CodePoints& other) {
  ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
  Normalise();
}

CodePoints CodePoints::Complement() const {
  std::vector<Range> others;
  std::uint32_t next = 0;
  for (const auto& [first, last] : ranges_) {
    if (first > next) others.emplace_back(next, first - 1);
    next = last + 1;
  }
  if (next <= kLast) others.emplace_back(next, kLast);
  return CodePoints(std::move(others));
}

CodePoints CodePoints::And(const CodePoints& other) const {
  CodePoints either = Complement();
  either.Add(other.Complement());
  return either.Complement();
}

std::string CodePoints::TextOf(std::uint32_t character) {
  const bool is_plain = (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
                        (character >= '0' && character <= '9');
  if (is_plain) return std::string(1, static_cast<char>(character));
  if (character < 0x80) return fmt::format("\\u{:04x}", character);
  std::string text;
  AppendUtf8(character, text);
  return text;
}

std::string CodePoints::Text() const {
  if (ranges_.size() == 1 && ranges_.front().first == ranges_.front().second) return TextOf(ranges_.front().first);
  // Surrogates are not characters: the complement of a set of all non-ASCII characters must not list them.
  const bool is_open = ranges_.back().second == kLast;
  if (!is_open) return '[' + ClassOf(ranges_) + ']';
  CodePoints with_surrogates = *this;
  with_surrogates.Add(CodePoints({{0xD800, 0xDFFF}}));
  const CodePoints others = with_surrogates.Complement();
  return others.empty() ? "[^\\u0000]" : "[^" + ClassOf(others.ranges()) + ']';
}

}  // namespace roost::grammar
