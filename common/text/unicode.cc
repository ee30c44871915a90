#include "common/text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <optional>
#include <vector>

#include "common/base/check.h"
#include "common/base/utf8.h"

namespace roost::text {
namespace {

// Code points begin … end (both included) were assigned after Unicode 14, up to 16; `like` is an older one of their
// kind: the nearest with equal general category, White_Space, Alphabetic, script Han or not, and length in UTF-8.
struct NewCodePoints {
  char32_t begin;
  char32_t end;
  char32_t like;
};
constexpr NewCodePoints kNewCodePoints[] = {
    {0x897, 0x897, 0x898},       {0xCF3, 0xCF3, 0xD02},       {0xECE, 0xECE, 0xECD},       {0x1B4E, 0x1B4F, 0x1B5A},
    {0x1B7F, 0x1B7F, 0x1B7E},    {0x1C89, 0x1C89, 0x1C90},    {0x1C8A, 0x1C8A, 0x1C88},    {0x2427, 0x2429, 0x2426},
    {0x2FFC, 0x2FFF, 0x2FFB},    {0x31E4, 0x31E5, 0x31E3},    {0x31EF, 0x31EF, 0x31E3},    {0xA7CB, 0xA7CC, 0xA7C9},
    {0xA7CD, 0xA7CD, 0xA7CA},    {0xA7DA, 0xA7DA, 0xA7D8},    {0xA7DB, 0xA7DB, 0xA7D9},    {0xA7DC, 0xA7DC, 0xA7D8},
    {0x105C0, 0x105F3, 0x10600}, {0x10D40, 0x10D49, 0x10D39}, {0x10D4A, 0x10D4D, 0x10D23}, {0x10D4E, 0x10D4E, 0x107BA},
    {0x10D4F, 0x10D4F, 0x10D23}, {0x10D50, 0x10D65, 0x10CB2}, {0x10D69, 0x10D6D, 0x10D27}, {0x10D6E, 0x10D6E, 0x10EAD},
    {0x10D6F, 0x10D6F, 0x107BA}, {0x10D70, 0x10D85, 0x10CF2}, {0x10D8E, 0x10D8F, 0x1D6C1}, {0x10EC2, 0x10EC4, 0x10EB1},
    {0x10EFC, 0x10EFF, 0x10F46}, {0x1123F, 0x11240, 0x1122B}, {0x11241, 0x11241, 0x1123E}, {0x11380, 0x11389, 0x11361},
    {0x1138B, 0x1138B, 0x11361}, {0x1138E, 0x1138E, 0x11361}, {0x11390, 0x113B5, 0x11361}, {0x113B7, 0x113B7, 0x11400},
    {0x113B8, 0x113BA, 0x11363}, {0x113BB, 0x113C0, 0x11374}, {0x113C2, 0x113C2, 0x11363}, {0x113C5, 0x113C5, 0x11363},
    {0x113C7, 0x113CA, 0x11363}, {0x113CC, 0x113CD, 0x11363}, {0x113CE, 0x113CE, 0x11374}, {0x113CF, 0x113CF, 0x11435},
    {0x113D0, 0x113D0, 0x11374}, {0x113D1, 0x113D1, 0x11400}, {0x113D2, 0x113D2, 0x11374}, {0x113D3, 0x113D3, 0x11400},
    {0x113D4, 0x113D5, 0x1144B}, {0x113D7, 0x113D8, 0x1144B}, {0x113E1, 0x113E2, 0x11438}, {0x116D0, 0x116E3, 0x116C9},
    {0x11B00, 0x11B09, 0x11AA2}, {0x11BC0, 0x11BE0, 0x11C00}, {0x11BE1, 0x11BE1, 0x11C41}, {0x11BF0, 0x11BF9, 0x11C50},
    {0x11F00, 0x11F01, 0x11EF4}, {0x11F02, 0x11F02, 0x11EF2}, {0x11F03, 0x11F03, 0x11EF6}, {0x11F04, 0x11F10, 0x11EF2},
    {0x11F12, 0x11F33, 0x11EF2}, {0x11F34, 0x11F35, 0x11EF6}, {0x11F36, 0x11F3A, 0x11EF4}, {0x11F3E, 0x11F3F, 0x11EF6},
    {0x11F40, 0x11F40, 0x11EF4}, {0x11F41, 0x11F41, 0x11EF6}, {0x11F42, 0x11F42, 0x11EF4}, {0x11F43, 0x11F4F, 0x11EF8},
    {0x11F50, 0x11F59, 0x11DA9}, {0x11F5A, 0x11F5A, 0x11EF4}, {0x1342F, 0x1342F, 0x1342E}, {0x13440, 0x13440, 0x11EF4},
    {0x13441, 0x13446, 0x1342E}, {0x13447, 0x13455, 0x11EF4}, {0x13460, 0x143FA, 0x1342E}, {0x16100, 0x1611D, 0x16800},
    {0x1611E, 0x16129, 0x16AF0}, {0x1612A, 0x1612C, 0x16F51}, {0x1612D, 0x1612F, 0x16AF0}, {0x16130, 0x16139, 0x16A60},
    {0x16D40, 0x16D42, 0x16B43}, {0x16D43, 0x16D6A, 0x16B8F}, {0x16D6B, 0x16D6C, 0x16B43}, {0x16D6D, 0x16D6F, 0x16E97},
    {0x16D70, 0x16D79, 0x16B59}, {0x18CFF, 0x18CFF, 0x18D00}, {0x1B132, 0x1B132, 0x1B122}, {0x1B155, 0x1B155, 0x1B152},
    {0x1CC00, 0x1CCEF, 0x1CF50}, {0x1CCF0, 0x1CCF9, 0x1D7CE}, {0x1CD00, 0x1CEB3, 0x1CF50}, {0x1D2C0, 0x1D2D3, 0x1D2E0},
    {0x1DF25, 0x1DF2A, 0x1DF1E}, {0x1E030, 0x1E06D, 0x1E137}, {0x1E08F, 0x1E08F, 0x1E02A}, {0x1E4D0, 0x1E4EA, 0x1E2EB},
    {0x1E4EB, 0x1E4EB, 0x1E13D}, {0x1E4EC, 0x1E4EF, 0x1E2EF}, {0x1E4F0, 0x1E4F9, 0x1E2F9}, {0x1E5D0, 0x1E5ED, 0x1E7E0},
    {0x1E5EE, 0x1E5EF, 0x1E8D0}, {0x1E5F0, 0x1E5F0, 0x1E7E0}, {0x1E5F1, 0x1E5FA, 0x1E2F9}, {0x1E5FF, 0x1E5FF, 0x1E95E},
    {0x1F6DC, 0x1F6DC, 0x1F6DD}, {0x1F774, 0x1F776, 0x1F773}, {0x1F77B, 0x1F77F, 0x1F780}, {0x1F7D9, 0x1F7D9, 0x1F7D8},
    {0x1F8B2, 0x1F8BB, 0x1F8B1}, {0x1F8C0, 0x1F8C1, 0x1F8B1}, {0x1FA75, 0x1FA77, 0x1FA74}, {0x1FA87, 0x1FA89, 0x1FA86},
    {0x1FA8F, 0x1FA8F, 0x1FA90}, {0x1FAAD, 0x1FAAF, 0x1FAAC}, {0x1FABB, 0x1FABF, 0x1FABA}, {0x1FAC6, 0x1FAC6, 0x1FAC5},
    {0x1FACE, 0x1FACF, 0x1FAD0}, {0x1FADA, 0x1FADC, 0x1FAD9}, {0x1FADF, 0x1FADF, 0x1FAE0}, {0x1FAE8, 0x1FAE9, 0x1FAE7},
    {0x1FAF7, 0x1FAF8, 0x1FAF6}, {0x1FBCB, 0x1FBEF, 0x1FBCA}, {0x2B739, 0x2B739, 0x2B738}, {0x2EBF0, 0x2EE5D, 0x2EBE0},
    {0x31350, 0x323AF, 0x3134A},
};

utf8proc_option_t OptionsOf(NormalForm form) {
  unsigned options = UTF8PROC_STABLE;
  options |= form == NormalForm::kC || form == NormalForm::kKc ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == NormalForm::kKc || form == NormalForm::kKd) options |= UTF8PROC_COMPAT;
  return static_cast<utf8proc_option_t>(options);
}

// True only where the bytes alone show it: no form changes ASCII, and NFC changes nothing below U+0300, which is 0xCC
// 0x80.
bool IsSurelyUnchangedBy(NormalForm form, std::string_view text) {
  const unsigned char limit = form == NormalForm::kC ? 0xCC : 0x80;
  return std::all_of(text.begin(), text.end(), [&](char c) { return static_cast<unsigned char>(c) < limit; });
}

// Nothing when there are more than `limit`.
std::optional<std::vector<utf8proc_int32_t>> Decompose(std::string_view text, std::size_t limit,
                                                       utf8proc_option_t options) {
  constexpr utf8proc_ssize_t kLongestDecomposition = 18;  // U+FDFA
  std::array<utf8proc_int32_t, kLongestDecomposition> parts{};
  std::vector<utf8proc_int32_t> points;
  points.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const CodePoint point = *DecodeUtf8(text.substr(i));
    i += point.length;
    int boundary = 0;
    const utf8proc_ssize_t count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(point.value), parts.data(),
                                                           kLongestDecomposition, options, &boundary);
    ROOST_CHECK(count >= 0 && count <= kLongestDecomposition, "{}", count);
    points.insert(points.end(), parts.begin(), parts.begin() + count);
    if (points.size() > limit) return std::nullopt;
  }
  return points;
}

// The canonical ordering: sorts each run of marks by combining class, stable.
void Reorder(std::vector<utf8proc_int32_t>& points) {
  const auto class_of = [](utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; };
  const auto is_mark = [&](utf8proc_int32_t c) { return class_of(c) != 0; };
  for (auto begin = points.begin(); begin != points.end();) {
    begin = std::find_if(begin, points.end(), is_mark);
    const auto end = std::find_if_not(begin, points.end(), is_mark);
    std::stable_sort(begin, end, [&](auto left, auto right) { return class_of(left) < class_of(right); });
    begin = end;
  }
}

}  // namespace

bool IsWhitespace(char32_t c) {
  return (c >= 0x9 && c <= 0xD) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

std::size_t TrailingWhitespaceBegin(std::string_view text) {
  std::size_t begin = text.size();
  while (begin > 0) {
    std::size_t previous = begin - 1;
    while (previous > 0 && (static_cast<unsigned char>(text[previous]) & 0xC0U) == 0x80U) --previous;
    if (!IsWhitespace(DecodeUtf8(text.substr(previous))->value)) break;
    begin = previous;
  }
  return begin;
}

std::size_t LeadingWhitespaceEnd(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size()) {
    const CodePoint point = *DecodeUtf8(text.substr(end));
    if (!IsWhitespace(point.value)) break;
    end += point.length;
  }
  return end;
}

bool Normalize(NormalForm form, std::size_t limit, std::string& text) {
  if (IsSurelyUnchangedBy(form, text)) return true;
  const utf8proc_option_t options = OptionsOf(form);
  std::optional<std::vector<utf8proc_int32_t>> decomposed = Decompose(text, limit, options);
  if (!decomposed) return false;
  std::vector<utf8proc_int32_t>& points = *decomposed;
  Reorder(points);
  auto count = static_cast<utf8proc_ssize_t>(points.size());
  if (form == NormalForm::kC || form == NormalForm::kKc) {
    count = utf8proc_normalize_utf32(points.data(), count, options);
    ROOST_CHECK(count >= 0, "{}", utf8proc_errmsg(count));
  }
  text.clear();
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    AppendUtf8(static_cast<char32_t>(points[static_cast<std::size_t>(i)]), text);
  }
  return text.size() <= limit;
}

char32_t StandInOf(char32_t c) {
  const auto* found = std::lower_bound(std::begin(kNewCodePoints), std::end(kNewCodePoints), c,
                                       [](const NewCodePoints& range, char32_t value) { return range.end < value; });
  return found != std::end(kNewCodePoints) && found->begin <= c ? found->like : c;
}

bool ReplaceNewCodePoints(std::string_view text, std::string& stand_in) {
  bool replaced = false;
  for (std::size_t i = 0; i < text.size();) {
    // New code points are all above U+0800, and most characters of most texts are below.
    if (static_cast<unsigned char>(text[i]) < 0xE0) {
      ++i;
      continue;
    }
    const CodePoint point = *DecodeUtf8(text.substr(i));
    if (const char32_t stand_in_point = StandInOf(point.value); stand_in_point != point.value) {
      if (!replaced) stand_in = text;
      replaced = true;
      std::string like;
      AppendUtf8(stand_in_point, like);
      stand_in.replace(i, point.length, like);
    }
    i += point.length;
  }
  return replaced;
}

}  // namespace roost::text
