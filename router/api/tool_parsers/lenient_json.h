// Reads one JSON value that comes in pieces, and forgives what models write instead: Python's True, False and None,
// strings in single quotes, line breaks within strings, escapes that JSON does not have. What it writes is JSON; valid
// JSON stays as it is, byte for byte.
//
//   {'path': 'it\'s', "deep": True}   ─►   {"path": "it's", "deep": true}
//
// How the text is cut into pieces changes nothing. A value that is broken in another way goes on as it stands, up to
// the bracket that closes it or to a `<` outside its strings, which begins a tag: it never becomes valid.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace roost::router {

class LenientJson {
 public:
  // Appends to `out` what is certain. Returns the number of bytes of `text` that belong to the value.
  [[nodiscard]] std::size_t Read(std::string_view text, std::string& out);
  // The text has ended: appends what was held back.
  void Finish(std::string& out);

  [[nodiscard]] bool ended() const { return state_ == State::kEnded; }
  [[nodiscard]] bool is_broken() const { return broken_; }
  // True if the value ended and is JSON.
  [[nodiscard]] bool is_whole() const { return ended() && !broken_; }

 private:
  enum class State : std::uint8_t { kPlain, kString, kEscape, kHex, kWord, kRaw, kEnded };
  enum class Next : std::uint8_t { kValue, kValueOrEnd, kKey, kKeyOrEnd, kColon, kCommaOrEnd };

  // Each returns whether the byte belongs to the value; if not, it may be read again in another state.
  bool Step(char c, std::string& out);
  bool Plain(char c, std::string& out);
  bool Mark(char c, std::string& out);
  bool Raw(char c, std::string& out);
  bool Escape(char c, std::string& out);
  bool Hex(char c, std::string& out);
  [[nodiscard]] std::size_t ReadString(std::string_view text, std::string& out);
  bool Open(char c, std::string& out);
  bool Close(char c, std::string& out);
  void EndWord(std::string& out);
  void EndValue();
  void Break();
  [[nodiscard]] bool wants_value() const { return next_ == Next::kValue || next_ == Next::kValueOrEnd; }
  [[nodiscard]] bool wants_key() const { return next_ == Next::kKey || next_ == Next::kKeyOrEnd; }

  State state_ = State::kPlain;
  Next next_ = Next::kValue;
  bool broken_ = false;
  bool escaped_ = false;    // with kRaw
  bool is_python_ = false;  // of a word: it may become another one, so it is held back
  char quote_ = '\0';
  std::size_t hex_digits_ = 0;
  std::string open_;  // the open brackets
  std::string held_;  // a word, or an escape
};

// A text that is one value as JSON; nothing for any other text.
[[nodiscard]] std::optional<std::string> JsonOfLenient(std::string_view text);
// The arguments that a value means: an object; the object that a string holds; {} for null and for an empty string.
[[nodiscard]] std::optional<std::string> ArgumentsOf(std::string value);

}  // namespace roost::router
