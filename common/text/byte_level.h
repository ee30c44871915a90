// The byte-level alphabet of GPT-2 writes each byte as one printable character, so that a vocabulary of text can hold
// every byte sequence. Printable Latin-1 bytes stand for themselves, the 68 others for U+0100 and on.
// Source: encoder.py of github.com/openai/gpt-2 (bytes_to_unicode).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace roost::text {

// Appends the characters of `bytes`: one or two bytes of UTF-8 each.
void AppendByteLevel(std::string_view bytes, std::string& out);

// The bytes that `text` stands for; nothing when it has a character outside the alphabet.
[[nodiscard]] std::optional<std::string> DecodeByteLevel(std::string_view text);

}  // namespace roost::text
