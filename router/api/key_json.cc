#include "router/api/key_json.h"

#include <fmt/format.h>

#include <chrono>

#include "common/base/json_writer.h"

namespace roost::router {
namespace {

void AddLimit(const RateLimit::State& state, std::string_view unit, std::vector<HttpHeader>& headers) {
  if (state.limit == kNoLimit) return;
  headers.push_back({fmt::format("x-ratelimit-limit-{}", unit), fmt::to_string(state.limit)});
  headers.push_back({fmt::format("x-ratelimit-remaining-{}", unit), fmt::to_string(state.remaining)});
  headers.push_back({fmt::format("x-ratelimit-reset-{}", unit), ResetText(state.until_full)});
}

}  // namespace

std::string ResetText(Duration duration) {
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(duration).count();
  if (milliseconds == 0) return "0s";
  if (milliseconds < 1000) return fmt::format("{}ms", milliseconds);
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(duration).count();
  return seconds < 60 ? fmt::format("{}s", seconds) : fmt::format("{}m{}s", seconds / 60, seconds % 60);
}

void AddLimitHeaders(const Admission& admission, Instant now, std::vector<HttpHeader>& headers) {
  const LimitsState limits = admission.Look(now);
  AddLimit(limits.requests, "requests", headers);
  AddLimit(limits.tokens, "tokens", headers);
}

std::string UsageBody(std::span<const NamedAccount> accounts) {
  JsonWriter json;
  json.BeginObject().Key("keys").BeginArray();
  for (const NamedAccount& named : accounts) {
    const KeyUsage usage = named.account->usage();
    json.BeginObject().Key("name").String(named.name).Key("tenant").String(named.tenant);
    json.Key("requests").Number(usage.requests);
    json.Key("refused_requests").Number(usage.refused).Key("prompt_tokens").Number(usage.prompt_tokens);
    json.Key("cached_tokens").Number(usage.cached_tokens).Key("output_tokens").Number(usage.output_tokens);
    json.EndObject();
  }
  json.EndArray().EndObject();
  return json.Take();
}

}  // namespace roost::router
