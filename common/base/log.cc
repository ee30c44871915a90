#include "common/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <memory>

#include "common/base/json_writer.h"

namespace roost {
namespace {

std::atomic<LogFormat>& ActiveFormat() {
  static std::atomic<LogFormat> format{LogFormat::kText};
  return format;
}

// spdlog writes the line as it is: its own pattern does not escape values, so the line is built here.
spdlog::logger& Logger() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    auto made = std::make_shared<spdlog::logger>("roost", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%v");
    made->flush_on(spdlog::level::trace);
    return made;
  }();
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
  for (const auto& [name, value] : fields) json.Key(name).String(value);
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
    AppendTextValue(value, line);
  }
  return line;
}

}  // namespace

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
  if (name == "text") return LogFormat::kText;
  if (name == "json") return LogFormat::kJson;
  return InvalidArgument("log-format", "'{}' is not one of text, json", name);
}

void Log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  const auto spdlog_level = ToSpdlog(level);
  if (!Logger().should_log(spdlog_level)) return;
  Logger().log(spdlog_level, ActiveFormat() == LogFormat::kJson ? JsonLine(level, message, fields)
                                                                : TextLine(level, message, fields));
}

}  // namespace roost
