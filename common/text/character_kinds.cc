#include "common/text/character_kinds.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>
#include <span>

#include "common/base/utf8.h"

namespace roost::text {
namespace {

// Both ends included.
struct Range {
  char32_t begin;
  char32_t end;
};

// Punctuation in utf8proc, but not in the reference library, whose table is older.
constexpr Range kNewPunctuation[] = {{0x61D, 0x61D},     {0x9FD, 0x9FD},     {0xA76, 0xA76},     {0xC77, 0xC77},
                                     {0xC84, 0xC84},     {0x1B7D, 0x1B7E},   {0x2E43, 0x2E4F},   {0x2E52, 0x2E5D},
                                     {0x10EAD, 0x10EAD}, {0x10F55, 0x10F59}, {0x10F86, 0x10F89}, {0x1144B, 0x1144F},
                                     {0x1145A, 0x1145B}, {0x1145D, 0x1145D}, {0x11660, 0x1166C}, {0x116B9, 0x116B9},
                                     {0x1183B, 0x1183B}, {0x11944, 0x11946}, {0x119E2, 0x119E2}, {0x11A3F, 0x11A46},
                                     {0x11A9A, 0x11A9C}, {0x11A9E, 0x11AA2}, {0x11B00, 0x11B09}, {0x11C41, 0x11C45},
                                     {0x11C70, 0x11C71}, {0x11EF7, 0x11EF8}, {0x11F43, 0x11F4F}, {0x11FFF, 0x11FFF},
                                     {0x12FF1, 0x12FF2}, {0x16E97, 0x16E9A}, {0x16FE2, 0x16FE2}, {0x1E95E, 0x1E95F}};
// Punctuation in the reference library, but not in utf8proc: their category was changed.
constexpr Range kFormerPunctuation[] = {{0x166D, 0x166D}, {0x111C9, 0x111C9}};
// Numbers that are new in Unicode 16 and 17.
constexpr Range kNewNumbers[] = {{0x10D40, 0x10D49}, {0x116D0, 0x116E3}, {0x11BF0, 0x11BF9},
                                 {0x11DE0, 0x11DE9}, {0x16130, 0x16139}, {0x16D70, 0x16D79},
                                 {0x16FF4, 0x16FF6}, {0x1CCF0, 0x1CCF9}, {0x1E5F1, 0x1E5FA}};

// Capitals that are new in Unicode 16 and 17: every `step`th of a range, and the distance to their small letters.
struct NewCapitals {
  char32_t begin;
  char32_t end;
  char32_t step;
  std::int32_t to_lower;
};
constexpr NewCapitals kNewCapitals[] = {
    {0x1C89, 0x1C89, 1, 1},      {0xA7CB, 0xA7CB, 1, 0x264 - 0xA7CB},
    {0xA7CC, 0xA7CE, 2, 1},      {0xA7D2, 0xA7D4, 2, 1},
    {0xA7DA, 0xA7DA, 1, 1},      {0xA7DC, 0xA7DC, 1, 0x19B - 0xA7DC},
    {0x10D50, 0x10D65, 1, 0x20}, {0x16EA0, 0x16EB8, 1, 0x1B},
};
constexpr char32_t kCapitalIWithDot = 0x130;

bool IsIn(std::span<const Range> ranges, char32_t c) {
  const auto found = std::lower_bound(ranges.begin(), ranges.end(), c,
                                      [](const Range& range, char32_t value) { return range.end < value; });
  return found != ranges.end() && found->begin <= c;
}

// The first letter of the general category.
char MajorCategory(char32_t c) { return utf8proc_category_string(static_cast<utf8proc_int32_t>(c))[0]; }

bool IsAsciiPunctuation(char32_t c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

}  // namespace

bool IsPunctuation(char32_t c) {
  if (c < 0x80) return IsAsciiPunctuation(c);
  return (MajorCategory(c) == 'P' && !IsIn(kNewPunctuation, c)) || IsIn(kFormerPunctuation, c);
}

bool IsNumeric(char32_t c) { return MajorCategory(c) == 'N' || IsIn(kNewNumbers, c); }

void AppendLowercase(char32_t c, std::string& out) {
  if (c == kCapitalIWithDot) {
    out += "i\u0307";
    return;
  }
  for (const NewCapitals& capitals : kNewCapitals) {
    if (c < capitals.begin || c > capitals.end || (c - capitals.begin) % capitals.step != 0) continue;
    return AppendUtf8(static_cast<char32_t>(static_cast<std::int32_t>(c) + capitals.to_lower), out);
  }
  AppendUtf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))), out);
}

}  // namespace roost::text
