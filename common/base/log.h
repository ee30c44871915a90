// Logging of both daemons: one line per event on stderr, as text for people or JSON for machines. Never log a prompt,
// a key or a salt.
//
//   LogInfo("worker joined", {{"worker", id}, {"blocks", fmt::to_string(block_count)}});
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/result.h"

namespace roost {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
enum class LogFormat { kText, kJson };

// A named value beside the message. Control characters are escaped, so a value can not forge a line.
using LogField = std::pair<std::string_view, std::string>;

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
