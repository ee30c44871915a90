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
  // If `literal` is at the current position, moves past it.
  [[nodiscard]] bool Take(std::string_view literal);
  // True if the next character is `c`. Does not move.
  [[nodiscard]] bool IsAt(char c);
  // The text before `mark`; moves past the mark.
  [[nodiscard]] std::optional<std::string_view> Until(std::string_view mark);
  // The value of the JSON string at the current position; moves past it.
  [[nodiscard]] std::optional<std::string> JsonText();

  [[nodiscard]] std::size_t position() const { return position_; }
  // True if the text ended before a read could be decided.
  [[nodiscard]] bool cut() const { return cut_; }

 private:
  [[nodiscard]] std::string_view rest() const { return text_.substr(position_); }

  std::string_view text_;
  std::size_t position_ = 0;
  bool cut_ = false;
};

// Finds the end of an object or array that comes in pieces. A closing bracket that does not match ends it too.
class JsonSpan {
 public:
  // The number of bytes of `text` that belong to the value.
  [[nodiscard]] std::size_t Read(std::string_view text);
  [[nodiscard]] bool done() const { return done_; }

 private:
  // True if `c` belongs to the value.
  bool Step(char c);
  bool Close(char open);

  std::string open_;  // the open brackets
  bool in_string_ = false;
  bool escaped_ = false;
  bool done_ = false;
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
