#include "common/text/jinja/python_strings.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>

#include "common/base/utf8.h"

namespace roost::jinja {
namespace {

bool IsContinuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

// `text` is valid UTF-8, and not empty.
CodePoint First(std::string_view text) { return DecodeUtf8(text).value_or(CodePoint{0xFFFD, 1}); }

CodePoint Last(std::string_view text) {
  std::size_t begin = text.size() - 1;
  while (begin > 0 && IsContinuation(text[begin])) --begin;
  return First(text.substr(begin));
}

template <typename Function>
void ForEachCodePoint(std::string_view text, Function function) {
  for (std::size_t i = 0; i < text.size();) {
    const CodePoint point = First(text.substr(i));
    function(point.value, text.substr(i, point.length));
    i += point.length;
  }
}

utf8proc_category_t CategoryOf(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

void AppendUpper(char32_t c, std::string& out) {
  if (c == U'ß') {
    out += "SS";
    return;
  }
  AppendUtf8(static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))), out);
}

void AppendLower(char32_t c, std::string& out) {
  AppendUtf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))), out);
}

bool IsLineEnd(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

template <typename Predicate>
std::string_view Strip(std::string_view text, Side side, Predicate strips) {
  while (side != Side::kRight && !text.empty()) {
    const CodePoint point = First(text);
    if (!strips(point.value)) break;
    text.remove_prefix(point.length);
  }
  while (side != Side::kLeft && !text.empty()) {
    const CodePoint point = Last(text);
    if (!strips(point.value)) break;
    text.remove_suffix(point.length);
  }
  return text;
}

}  // namespace

std::size_t CountCodePoints(std::string_view text) {
  std::size_t count = 0;
  for (const char byte : text) count += IsContinuation(byte) ? 0 : 1;
  return count;
}

std::size_t ByteOffset(std::string_view text, std::size_t index) {
  std::size_t offset = 0;
  for (; offset < text.size(); ++offset) {
    if (IsContinuation(text[offset])) continue;
    if (index == 0) return offset;
    --index;
  }
  return offset;
}

std::vector<std::string_view> SplitCodePoints(std::string_view text) {
  std::vector<std::string_view> points;
  points.reserve(text.size());
  ForEachCodePoint(text, [&](char32_t, std::string_view bytes) { points.push_back(bytes); });
  return points;
}

bool IsSpace(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

bool IsPrintable(char32_t c) {
  if (c < 0x7F) return c >= 0x20;
  switch (CategoryOf(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return false;
    default: return true;
  }
}

bool IsAlphabetic(char32_t c) {
  const utf8proc_category_t category = CategoryOf(c);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool IsDecimal(char32_t c) { return CategoryOf(c) == UTF8PROC_CATEGORY_ND; }

bool IsNumeric(char32_t c) {
  const utf8proc_category_t category = CategoryOf(c);
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

bool IsUpperCase(char32_t c) { return utf8proc_isupper(static_cast<utf8proc_int32_t>(c)) != 0; }
bool IsLowerCase(char32_t c) { return utf8proc_islower(static_cast<utf8proc_int32_t>(c)) != 0; }

std::string ToUpper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  ForEachCodePoint(text, [&](char32_t c, std::string_view) { AppendUpper(c, out); });
  return out;
}

std::string ToLower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  ForEachCodePoint(text, [&](char32_t c, std::string_view) { AppendLower(c, out); });
  return out;
}

std::string Capitalize(std::string_view text) {
  if (text.empty()) return {};
  const CodePoint first = First(text);
  std::string out;
  // Title case, as Python does it: "ß" becomes "Ss".
  if (first.value == U'ß') {
    out += "Ss";
  } else {
    AppendUtf8(static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(first.value))), out);
  }
  return out + ToLower(text.substr(first.length));
}

std::string_view StripSpace(std::string_view text, Side side) { return Strip(text, side, IsSpace); }

std::string_view StripChars(std::string_view text, std::string_view chars, Side side) {
  std::u32string set;
  ForEachCodePoint(chars, [&](char32_t c, std::string_view) { set += c; });
  std::sort(set.begin(), set.end());
  return Strip(text, side, [&](char32_t c) { return std::binary_search(set.begin(), set.end(), c); });
}

std::size_t FindText(std::string_view text, std::string_view wanted, std::size_t begin) {
  if (begin > text.size()) return std::string_view::npos;
  if (wanted.empty()) return begin;
  const void* found = memmem(text.data() + begin, text.size() - begin, wanted.data(), wanted.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

std::vector<std::string_view> SplitLines(std::string_view text, LineEnds ends) {
  std::vector<std::string_view> lines;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size();) {
    const CodePoint point = First(text.substr(i));
    if (!IsLineEnd(point.value)) {
      i += point.length;
      continue;
    }
    const bool is_crlf = text.substr(i, 2) == "\r\n";
    const std::size_t next = i + (is_crlf ? 2 : point.length);
    lines.push_back(text.substr(begin, (ends == LineEnds::kKeep ? next : i) - begin));
    begin = i = next;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

}  // namespace roost::jinja
