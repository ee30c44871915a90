#include "common/text/byte_level.h"

#include <array>
#include <cstdint>

#include "common/base/utf8.h"

namespace roost::text {
namespace {

constexpr std::size_t kAlphabetEnd = 0x100 + 68;

constexpr bool IsPrintable(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<char16_t, 256> character_of{};
  std::array<std::int16_t, kAlphabetEnd> byte_of{};  // negative for a character outside the alphabet
};

constexpr Alphabet MakeAlphabet() {
  Alphabet alphabet;
  alphabet.byte_of.fill(-1);
  char16_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char16_t character = IsPrintable(byte) ? static_cast<char16_t>(byte) : next++;
    alphabet.character_of[byte] = character;
    alphabet.byte_of[character] = static_cast<std::int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = MakeAlphabet();

}  // namespace

void AppendByteLevel(std::string_view bytes, std::string& out) {
  for (const char byte : bytes) {
    const char16_t c = kAlphabet.character_of[static_cast<unsigned char>(byte)];
    if (c < 0x80) {
      out += static_cast<char>(c);
    } else {
      out += static_cast<char>(0xC0U | (c >> 6U));
      out += static_cast<char>(0x80U | (c & 0x3FU));
    }
  }
}

std::optional<std::string> DecodeByteLevel(std::string_view text) {
  std::string bytes(text.size(), '\0');
  std::size_t count = 0;
  for (std::size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);  // nearly all characters are ASCII
    const auto point = first < 0x80 ? std::optional(CodePoint{first, 1}) : DecodeUtf8(text.substr(i));
    if (!point || point->value >= kAlphabetEnd) return std::nullopt;
    const std::int16_t byte = kAlphabet.byte_of[point->value];
    if (byte < 0) return std::nullopt;
    bytes[count++] = static_cast<char>(byte);
    i += point->length;
  }
  bytes.resize(count);
  return bytes;
}

}  // namespace roost::text
