#include "common/base/log.h"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <ctime>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "common/base/json_writer.h"
#include "common/base/log_queue.h"

namespace roost {
namespace {

std::atomic<LogFormat>& ActiveFormat() {
  static std::atomic<LogFormat> format{LogFormat::kText};
  return format;
}

// The destination of lines while a LogThread lives. Never freed: a thread may log until the process is gone.
struct Output {
  std::shared_mutex mutex;
  std::unique_ptr<LogQueue> queue;  // guarded by mutex
};
Output& ActiveOutput() {
  static Output* const output = new Output;
  return *output;
}

// Lines are short. A reader that takes longer than a minute gets no more of them.
constexpr std::chrono::milliseconds kWriteTime{60'000};

// spdlog's own asynchronous logger does not fit: its flush has no timeout, and its sinks hold the lock of stdio while
// they wait for the reader.
class OutputSink final : public spdlog::sinks::base_sink<std::mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    std::string line(message.payload.data(), message.payload.size());
    line += '\n';
    Output& output = ActiveOutput();
    const std::shared_lock lock(output.mutex);
    if (output.queue) return output.queue->Put(std::move(line));
    WriteWithin(STDERR_FILENO, line, kWriteTime);
  }
  void flush_() override {}
};

// spdlog passes the line on unchanged. The line is built here because spdlog's pattern does not escape values.
spdlog::logger& Logger() {
  static const std::shared_ptr<spdlog::logger> logger =
      std::make_shared<spdlog::logger>("roost", std::make_shared<OutputSink>());
  return *logger;
}

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarning: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
  }
  return spdlog::level::info;
}

std::string_view NameOf(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return "debug";
    case LogLevel::kInfo: return "info";
    case LogLevel::kWarning: return "warning";
    case LogLevel::kError: return "error";
  }
  return "info";
}

std::string Timestamp() {
  const auto now = std::chrono::system_clock::now();
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count() % 1000000;
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                     utc.tm_hour, utc.tm_min, utc.tm_sec, micros);
}

std::string JsonLine(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  JsonWriter json;
  json.BeginObject().Key("ts").String(Timestamp()).Key("level").String(NameOf(level)).Key("msg").String(message);
  for (const auto& [name, value] : fields) {
    json.Key(name);
    value.is_text() ? json.String(value.text()) : json.Raw(value.text().empty() ? "null" : value.text());
  }
  return json.EndObject().Take();
}

// Quoted only where a bare word would be unclear, so that the usual line stays easy to read.
void AppendTextValue(std::string_view value, std::string& line) {
  const bool plain =
      !value.empty() && value.find_first_of(" \"\\\n\r\t=") == std::string_view::npos &&
      std::all_of(value.begin(), value.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x20; });
  if (plain) {
    line += value;
  } else {
    AppendJsonString(value, line);
  }
}

std::string TextLine(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  std::string line = fmt::format("{} {:<7} ", Timestamp(), NameOf(level));
  for (const char c : message) line += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  for (const auto& [name, value] : fields) {
    line += ' ';
    line += name;
    line += '=';
    AppendTextValue(value.text(), line);
  }
  return line;
}

std::string Line(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  return ActiveFormat() == LogFormat::kJson ? JsonLine(level, message, fields) : TextLine(level, message, fields);
}

}  // namespace

LogValue::LogValue(double value) : text_(std::isfinite(value) ? fmt::format("{:.6g}", value) : ""), is_text_(false) {}

LogThread::LogThread() {
  auto queue = std::make_unique<LogQueue>(STDERR_FILENO, [](std::uint64_t count) {
    return Line(LogLevel::kWarning, "log lines were dropped", {{"count", count}}) + "\n";
  });
  const std::lock_guard lock(ActiveOutput().mutex);
  ActiveOutput().queue = std::move(queue);
}

LogThread::~LogThread() {
  std::unique_ptr<LogQueue> queue;
  {
    const std::lock_guard lock(ActiveOutput().mutex);
    queue = std::move(ActiveOutput().queue);
  }
}

void FlushLog() {
  const std::shared_lock lock(ActiveOutput().mutex);
  if (ActiveOutput().queue) ActiveOutput().queue->Flush(LogQueue::kFlushTime);
}

void SetUpLogging(LogLevel level, LogFormat format) {
  Logger().set_level(ToSpdlog(level));
  ActiveFormat() = format;
}

Result<LogLevel> ParseLogLevel(std::string_view name) {
  for (const LogLevel level : {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError}) {
    if (NameOf(level) == name) return level;
  }
  return InvalidArgument("log-level", "'{}' is not one of debug, info, warning, error", name);
}

Result<LogFormat> ParseLogFormat(std::string_view name) {
  if (name == "auto") return isatty(STDERR_FILENO) == 1 ? LogFormat::kText : LogFormat::kJson;
  if (name == "text") return LogFormat::kText;
  if (name == "json") return LogFormat::kJson;
  return InvalidArgument("log-format", "'{}' is not one of auto, text, json", name);
}

void Log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  const auto spdlog_level = ToSpdlog(level);
  if (!Logger().should_log(spdlog_level)) return;
  Logger().log(spdlog_level, Line(level, message, fields));
}

}  // namespace roost
