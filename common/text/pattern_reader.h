// Reads the characters and escapes of an Oniguruma pattern, for oniguruma.cc: the current place, what an escape there
// means in PCRE2, and the error that names the place. One pass, one thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace roost::text {

// The meaning of an escape: one code point, or a set, as text inside a class and outside of one.
struct Escape {
  std::optional<char32_t> literal;
  std::string outside;
  std::string inside;
  bool has_letters = true;  // of a set: can a case-insensitive match need two letters for one member?
};

[[nodiscard]] bool IsAsciiAlnum(char32_t c);

class PatternReader {
 public:
  explicit PatternReader(std::string_view pattern) : in_(pattern) {}

  [[nodiscard]] Error Refuse(std::string_view what) const {
    return InvalidArgument("", "regular expression '{}' at byte {}: {}", in_, pos_, what);
  }
  [[nodiscard]] bool Next(std::string_view text) const { return in_.substr(pos_).starts_with(text); }
  bool Take(std::string_view text) {
    if (!Next(text)) return false;
    pos_ += text.size();
    return true;
  }

  // Reads the escape at the current backslash, or the current UTF-8 character.
  Result<Escape> ReadEscape();
  Result<char32_t> ReadCharacter();

 protected:
  std::string_view in_;
  std::size_t pos_ = 0;
  bool caseless_ = false;  // at the current place

 private:
  Result<Escape> ReadProperty(std::string_view letter);
  Result<char32_t> ReadHex(std::size_t least, std::size_t most);
};

}  // namespace roost::text
