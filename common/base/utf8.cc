#include "common/base/utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "common/base/check.h"

namespace roost {
namespace {

// The bytes that may follow a lead byte: the sequence's length, and the range of its second byte. Length 0: no lead
// byte.
struct LeadByte {
  std::size_t length;
  unsigned char second_low;
  unsigned char second_high;
};

constexpr LeadByte Classify(unsigned char byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// The part of a sequence that stands at the front.
struct Front {
  std::size_t good;  // bytes of a well-formed sequence, or of the beginning of one
  std::size_t need;  // bytes of the whole sequence; 0 when the first byte is not a lead byte
};

Front Inspect(std::string_view text) {
  if (text.empty()) return {0, 0};
  const LeadByte lead = Classify(static_cast<unsigned char>(text[0]));
  if (lead.length == 0) return {0, 0};
  std::size_t good = 1;
  for (; good < lead.length && good < text.size(); ++good) {
    const auto byte = static_cast<unsigned char>(text[good]);
    const unsigned char low = good == 1 ? lead.second_low : 0x80;
    const unsigned char high = good == 1 ? lead.second_high : 0xBF;
    if (byte < low || byte > high) break;
  }
  return {good, lead.length};
}

// The number of bytes at the front that are surely ASCII, counted in whole words of eight.
std::size_t AsciiFront(std::string_view text) {
  constexpr std::uint64_t kHighBits = 0x8080808080808080;
  std::size_t length = 0;
  for (std::uint64_t word = 0; length + sizeof(word) <= text.size(); length += sizeof(word)) {
    std::memcpy(&word, text.data() + length, sizeof(word));
    if ((word & kHighBits) != 0) break;
  }
  return length;
}

}  // namespace

std::size_t Utf8SequenceLength(std::string_view text) {
  const Front front = Inspect(text);
  return front.good == front.need ? front.need : 0;
}

bool IsValidUtf8(std::string_view text) {
  std::size_t i = AsciiFront(text);
  while (i < text.size()) {
    const bool is_ascii = static_cast<unsigned char>(text[i]) < 0x80;
    const std::size_t length = is_ascii ? 1 : Utf8SequenceLength(text.substr(i));
    if (length == 0) return false;
    i += length;
    if (!is_ascii) i += AsciiFront(text.substr(i));
  }
  return true;
}

std::size_t IncompleteUtf8Suffix(std::string_view text) {
  const std::size_t longest = std::min<std::size_t>(3, text.size());
  for (std::size_t length = 1; length <= longest; ++length) {
    const std::string_view suffix = text.substr(text.size() - length);
    const Front front = Inspect(suffix);
    if (front.good == length && front.need > length) return length;
  }
  return 0;
}

std::optional<CodePoint> DecodeUtf8(std::string_view text) {
  const std::size_t length = Utf8SequenceLength(text);
  if (length == 0) return std::nullopt;
  constexpr unsigned char kLeadMask[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
  char32_t value = static_cast<unsigned char>(text[0]) & kLeadMask[length];
  for (std::size_t i = 1; i < length; ++i) value = (value << 6U) | (static_cast<unsigned char>(text[i]) & 0x3FU);
  return CodePoint{value, length};
}

namespace {

bool IsControl(char32_t value) { return value < 0x20 || (value >= 0x7F && value < 0xA0); }

// Unicode's general categories Cf, Zl and Zp, and the fillers that are letters by their category.
bool IsInvisible(char32_t value) {
  struct Range {
    char32_t first, last;
  };
  constexpr Range kRanges[] = {
      {0xAD, 0xAD},       {0x34F, 0x34F},     {0x600, 0x605},     {0x61C, 0x61C},     {0x6DD, 0x6DD},
      {0x70F, 0x70F},     {0x890, 0x891},     {0x8E2, 0x8E2},     {0x115F, 0x1160},   {0x17B4, 0x17B5},
      {0x180B, 0x180E},   {0x200B, 0x200F},   {0x2028, 0x202E},   {0x2060, 0x206F},   {0x3164, 0x3164},
      {0xFE00, 0xFE0F},   {0xFEFF, 0xFEFF},   {0xFFA0, 0xFFA0},   {0xFFF9, 0xFFFB},   {0x110BD, 0x110BD},
      {0x110CD, 0x110CD}, {0x13430, 0x1343F}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A}, {0xE0000, 0xE01EF}};
  for (const Range& range : kRanges) {
    if (value >= range.first && value <= range.last) return true;
  }
  return false;
}

template <typename Is>
bool HasCharacter(std::string_view text, const Is& is) {
  while (!text.empty()) {
    const std::optional<CodePoint> point = DecodeUtf8(text);
    if (!point.has_value() || is(point->value)) return true;
    text.remove_prefix(point->length);
  }
  return false;
}

}  // namespace

bool HasControlCharacter(std::string_view text) { return HasCharacter(text, &IsControl); }

bool HasInvisibleCharacter(std::string_view text) {
  return HasCharacter(text, [](char32_t value) { return IsControl(value) || IsInvisible(value); });
}

void AppendUtf8(char32_t value, std::string& out) {
  ROOST_CHECK(value <= 0x10FFFF && (value < 0xD800 || value > 0xDFFF), "U+{:04X}", static_cast<std::uint32_t>(value));
  const auto tail = [&](unsigned shift) { out += static_cast<char>(0x80U | ((value >> shift) & 0x3FU)); };
  if (value < 0x80) {
    out += static_cast<char>(value);
  } else if (value < 0x800) {
    out += static_cast<char>(0xC0U | (value >> 6U));
    tail(0);
  } else if (value < 0x10000) {
    out += static_cast<char>(0xE0U | (value >> 12U));
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xF0U | (value >> 18U));
    tail(12);
    tail(6);
    tail(0);
  }
}

std::string ReplaceInvalidUtf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const Front front = Inspect(text.substr(i));
    if (front.need != 0 && front.good == front.need) {
      out += text.substr(i, front.need);
      i += front.need;
    } else {
      out += "\xEF\xBF\xBD";
      i += std::max<std::size_t>(1, front.good);
    }
  }
  return out;
}

}  // namespace roost
