// Reads a text that may be incomplete. It distinguishes a mismatch from a match that needs more text.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace roost::router {

class PartialText {
 public:
  explicit PartialText(std::string_view text) : text_(text) {}

  void SkipSpace();
  // Moves past `literal`s and white space.
  void SkipAll(std::string_view literal);
  // If `literal` is at the current position, moves past it.
  [[nodiscard]] bool Take(std::string_view literal);
  // True if the next character is `c`. Does not move.
  [[nodiscard]] bool IsAt(char c);
  // The text up to the first of these characters, of which one must come; moves to it.
  [[nodiscard]] std::string_view TakeUntil(std::string_view characters);
  // The text before `mark`; moves past the mark.
  [[nodiscard]] std::optional<std::string_view> Until(std::string_view mark);
  // The value of the string at the current position; moves past it. Strings may have single quotes, as Python's do.
  [[nodiscard]] std::optional<std::string> JsonText();
  // Moves past the JSON value at the current position (lenient_json.h).
  [[nodiscard]] bool SkipJson();

  [[nodiscard]] std::size_t position() const { return position_; }
  [[nodiscard]] std::string_view rest() const { return text_.substr(position_); }
  // True if the text ended before a read could be decided.
  [[nodiscard]] bool cut() const { return cut_; }

 private:
  std::string_view text_;
  std::size_t position_ = 0;
  bool cut_ = false;
};

[[nodiscard]] bool IsSpace(char c);
// `json` without white space between its parts; empty optional when it is not JSON.
[[nodiscard]] std::optional<std::string> CompactJson(std::string_view json);
[[nodiscard]] bool IsJsonObject(std::string_view json);
// The first of `marks` in a text. If several match at one position, the longest.
struct FoundMark {
  std::size_t position;
  std::string_view mark;
};
[[nodiscard]] std::optional<FoundMark> FindMark(std::string_view text, const std::vector<std::string_view>& marks);
// The number of bytes at the end of `text` that may begin one of `marks`.
[[nodiscard]] std::size_t OpenMarkBytes(std::string_view text, const std::vector<std::string_view>& marks);

// Without the white space at its ends.
[[nodiscard]] std::string_view Trimmed(std::string_view text);

}  // namespace roost::router
