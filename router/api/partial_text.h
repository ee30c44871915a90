// Reads a text that may go on. It tells a mismatch from a match that needs more text.
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
  // Moves behind `literal` if it stands here.
  [[nodiscard]] bool Take(std::string_view literal);
  // Whether the next character is `c`. Does not move.
  [[nodiscard]] bool IsAt(char c);
  // The text before `mark`; moves behind the mark.
  [[nodiscard]] std::optional<std::string_view> Until(std::string_view mark);
  // A JSON string's value.
  [[nodiscard]] std::optional<std::string> JsonText();

  [[nodiscard]] std::size_t position() const { return position_; }
  // The text ended within what was read.
  [[nodiscard]] bool cut() const { return cut_; }

 private:
  [[nodiscard]] std::string_view rest() const { return text_.substr(position_); }

  std::string_view text_;
  std::size_t position_ = 0;
  bool cut_ = false;
};

// Finds the end of an object or array that comes in pieces. Text that closes what is not open ends it.
class JsonSpan {
 public:
  // The bytes of `text` that belong to the value.
  [[nodiscard]] std::size_t Read(std::string_view text);
  [[nodiscard]] bool done() const { return done_; }

 private:
  // Whether `c` belongs to the value.
  bool Step(char c);
  bool Close(char open);

  std::string open_;  // brackets
  bool in_string_ = false;
  bool escaped_ = false;
  bool done_ = false;
};

[[nodiscard]] bool IsSpace(char c);
// The value in `json` without space around its parts; nothing when it is no JSON.
[[nodiscard]] std::optional<std::string> CompactJson(std::string_view json);
[[nodiscard]] bool IsJsonObject(std::string_view json);
// Where the first of `marks` stands, and which; the longest of those that stand at one place.
struct FoundMark {
  std::size_t position;
  std::string_view mark;
};
[[nodiscard]] std::optional<FoundMark> FindMark(std::string_view text, const std::vector<std::string_view>& marks);
// How many bytes at the end of `text` may begin one of `marks`.
[[nodiscard]] std::size_t OpenMarkBytes(std::string_view text, const std::vector<std::string_view>& marks);

}  // namespace roost::router
