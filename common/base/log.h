// Logging of both daemons: one line per event on stderr, as text for people or JSON for machines. Never log a prompt,
// a key or a salt.
//
//   LogInfo("worker joined", {{"worker", id}, {"blocks", block_count}});
#pragma once

#include <concepts>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/result.h"

namespace roost {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
enum class LogFormat { kText, kJson };

// A text, a number or a truth value; a line in JSON keeps the type. Give counts, sizes and times as numbers, so that
// programs can compare them; give an id as text, because programs that read JSON numbers as doubles would change its
// last digits. A fraction has six digits. An absent or infinite number is null, and empty in a line for people.
class LogValue {
 public:
  // NOLINTBEGIN(google-explicit-constructor): a field names its value as it is
  LogValue(std::string text) : text_(std::move(text)) {}
  LogValue(std::string_view text) : text_(text) {}
  LogValue(const char* text) : text_(text) {}
  LogValue(double value);
  LogValue(std::same_as<bool> auto value) : text_(value ? "true" : "false"), is_text_(false) {}
  template <std::integral Integer>
  requires(!std::same_as<Integer, bool>) LogValue(Integer value) : text_(std::to_string(value)), is_text_(false) {}
  template <typename Number>
  LogValue(const std::optional<Number>& value) : is_text_(false) {
    if (value) *this = LogValue(*value);
  }
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] const std::string& text() const { return text_; }
  // Otherwise `text` is JSON, or empty for null.
  [[nodiscard]] bool is_text() const { return is_text_; }

 private:
  std::string text_;
  bool is_text_ = true;
};

// A named value beside the message. Control characters are escaped, so a value can not forge a line.
struct LogField {
  std::string_view name;
  LogValue value;
};

// Call once at start, before other threads. Until then the level is info and the format text.
void SetUpLogging(LogLevel level, LogFormat format);

[[nodiscard]] Result<LogLevel> ParseLogLevel(std::string_view name);
// "auto" is text for people at a terminal, JSON elsewhere.
[[nodiscard]] Result<LogFormat> ParseLogFormat(std::string_view name);

// While it exists, its own thread writes the lines, and logging never waits for a slow reader: when the queue is full,
// the oldest lines are dropped, and a later line says how many. Before and after it, Log writes by itself, so that no
// line of the program's start or end is lost. Only one at a time. Make it after Termination, so that its thread ignores
// the same signals.
class LogThread {
 public:
  LogThread();
  ~LogThread();
  LogThread(const LogThread&) = delete;
  LogThread& operator=(const LogThread&) = delete;
};

// Waits until all lines are written, at most a second. For code that ends the process by itself.
void FlushLog();

// Thread-safe. A line is written whole.
void Log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields = {});

inline void LogDebug(std::string_view message, std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kDebug, message, fields);
}
inline void LogInfo(std::string_view message, std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kInfo, message, fields);
}
inline void LogWarning(std::string_view message, std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kWarning, message, fields);
}
inline void LogError(std::string_view message, std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kError, message, fields);
}

}  // namespace roost
