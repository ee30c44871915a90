#include "router/ledger/ledger_row.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <array>
#include <ctime>
#include <string_view>
#include <utility>

#include "common/base/json_writer.h"

namespace roost::router {
namespace {

using Count = std::uint64_t LedgerCounts::*;
using Seconds = double LedgerCounts::*;
constexpr std::array<std::pair<std::string_view, Count>, 7> kCounts{{
    {"requests", &LedgerCounts::requests},
    {"prompt_tokens", &LedgerCounts::prompt_tokens},
    {"cached_tokens", &LedgerCounts::cached_tokens},
    {"best_worker_tokens", &LedgerCounts::best_worker_tokens},
    {"round_robin_tokens", &LedgerCounts::round_robin_tokens},
    {"written_tokens", &LedgerCounts::written_tokens},
    {"output_tokens", &LedgerCounts::output_tokens},
}};
constexpr std::array<std::pair<std::string_view, Seconds>, 2> kSeconds{{
    {"saved_seconds", &LedgerCounts::saved_seconds},
    {"round_robin_saved_seconds", &LedgerCounts::round_robin_saved_seconds},
}};

std::optional<std::int64_t> HourIn(std::string_view text) {
  std::tm parsed{};
  const std::string copy(text);
  const char* const end = strptime(copy.c_str(), "%Y-%m-%dT%H:00:00Z", &parsed);
  if (end == nullptr || *end != '\0') return std::nullopt;
  return timegm(&parsed) / kHourSeconds;
}

}  // namespace

LedgerCounts& LedgerCounts::operator+=(const LedgerCounts& other) {
  for (const auto& [name, count] : kCounts) this->*count += other.*count;
  for (const auto& [name, seconds] : kSeconds) this->*seconds += other.*seconds;
  return *this;
}

std::string HourText(std::int64_t hour) {
  return fmt::format("{:%Y-%m-%dT%H:00:00Z}", fmt::gmtime(static_cast<std::time_t>(hour * kHourSeconds)));
}

std::string LineOf(const LedgerRow& row) {
  JsonWriter json;
  json.BeginObject().Key("hour").String(HourText(row.hour)).Key("tenant").String(row.tenant);
  json.Key("key").String(row.key).Key("model").String(row.model);
  for (const auto& [name, count] : kCounts) json.Key(name).Number(row.counts.*count);
  for (const auto& [name, seconds] : kSeconds) json.Key(name).Number(row.counts.*seconds);
  return json.EndObject().Take();
}

std::optional<LedgerRow> LedgerRowIn(json::Element object) {
  LedgerRow row;
  const auto hour = json::At<std::string_view>(object, "hour");
  const std::optional<std::int64_t> hours = hour ? HourIn(*hour) : std::nullopt;
  if (!hours) return std::nullopt;
  row.hour = *hours;
  constexpr std::array<std::pair<std::string_view, std::string LedgerRow::*>, 3> kNames{
      {{"tenant", &LedgerRow::tenant}, {"key", &LedgerRow::key}, {"model", &LedgerRow::model}}};
  for (const auto& [name, member] : kNames) {
    const auto text = json::At<std::string_view>(object, name);
    if (!text) return std::nullopt;
    row.*member = *text;
  }
  for (const auto& [name, count] : kCounts) {
    const auto value = json::At<std::uint64_t>(object, name);
    if (!value) return std::nullopt;
    row.counts.*count = *value;
  }
  for (const auto& [name, seconds] : kSeconds) {
    const auto value = json::At<double>(object, name);
    if (!value) return std::nullopt;
    row.counts.*seconds = *value;
  }
  return row;
}

}  // namespace roost::router
