#include "router/api/key_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "common/base/json_writer.h"
#include "common/base/utf8.h"
#include "common/wire/codec.h"
#include "common/wire/messages.h"
#include "router/api/json_lines.h"

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

namespace {

constexpr std::size_t kMaxModels = 1024;
constexpr auto kMaxPerMinute = std::int64_t{1} << 50;

Result<KeyDigest> DigestOf(const JsonObject& object) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> hex, object.String("sha256"));
  KeyDigest digest{};
  if (hex.value_or("").size() != 2 * digest.size()) {
    return InvalidArgument("sha256", "must be 64 hexadecimal digits: the SHA-256 of the key");
  }
  for (std::size_t i = 0; i < digest.size(); ++i) {
    const char* const begin = hex->data() + 2 * i;
    const auto [end, error] = std::from_chars(begin, begin + 2, digest[i], 16);
    if (error != std::errc() || end != begin + 2) {
      return InvalidArgument("sha256", "must be 64 hexadecimal digits: the SHA-256 of the key");
    }
  }
  return digest;
}

Result<std::vector<std::string>> ModelsOf(const JsonObject& object) {
  ROOST_ASSIGN_OR_RETURN(const auto elements, object.Array("models"));
  std::vector<std::string> models;
  if (!elements) return models;
  if (elements->empty() || elements->size() > kMaxModels) {
    return InvalidArgument("models", "must name 1 to {} models; leave it out for all", kMaxModels);
  }
  for (const JsonElement element : *elements) {
    ROOST_ASSIGN_OR_RETURN(const std::string_view model, StringOf(element, "models"));
    if (model.empty()) return InvalidArgument("models", "holds an empty name");
    if (model == "*") return std::vector<std::string>();
    models.emplace_back(model);
  }
  return models;
}

Result<ModelAliases> AliasesOf(const JsonObject& object) {
  ModelAliases aliases;
  ROOST_ASSIGN_OR_RETURN(const std::optional<JsonObject> members, object.Object("model_aliases"));
  if (!members) return aliases;
  for (const auto& [alias, value] : members->members()) {
    ROOST_ASSIGN_OR_RETURN(const std::string_view model, StringOf(value, "model_aliases"));
    ROOST_RETURN_IF_ERROR(AddModelAlias("model_aliases", alias, model, aliases));
  }
  return aliases;
}

Result<std::uint64_t> LimitOf(const JsonObject& object, std::string_view name) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::int64_t> limit, object.Integer(name, 0, kMaxPerMinute));
  return limit ? static_cast<std::uint64_t>(*limit) : kNoLimit;
}

Result<void> CheckMembers(const JsonObject& object) {
  constexpr std::array<std::string_view, 11> kKnown{"name",
                                                    "sha256",
                                                    "tenant",
                                                    "max_priority",
                                                    "max_retention_seconds",
                                                    "models",
                                                    "model_aliases",
                                                    "requests_per_minute",
                                                    "tokens_per_minute",
                                                    "cached_token_weight",
                                                    "max_concurrent_requests"};
  for (const auto& [name, value] : object.members()) {
    if (std::find(kKnown.begin(), kKnown.end(), name) != kKnown.end()) continue;
    return InvalidArgument(std::string(name), "is no member of a key: {}", fmt::join(kKnown, ", "));
  }
  return {};
}

Result<ApiKey> KeyOf(const JsonObject& object) {
  ROOST_RETURN_IF_ERROR(CheckMembers(object));
  ApiKey key;
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> name, object.String("name"));
  if (!IsKeyName(name.value_or(""))) return InvalidArgument("name", "must be 1 to 64 of [A-Za-z0-9._-]");
  key.name = *name;
  ROOST_ASSIGN_OR_RETURN(key.digest, DigestOf(object));
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> tenant, object.String("tenant"));
  key.tenant = tenant.value_or(*name);
  if (key.tenant.empty() || key.tenant.size() > wire::WireLimits::kMaxTenantBytes ||
      HasInvisibleCharacter(key.tenant)) {
    return InvalidArgument("tenant", "must be 1 to {} bytes without control characters",
                           wire::WireLimits::kMaxTenantBytes);
  }
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::int64_t> priority,
                         object.Integer("max_priority", 0, wire::kMaxPriority));
  if (priority) key.max_priority = static_cast<std::uint32_t>(*priority);
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::int64_t> seconds,
                         object.Integer("max_retention_seconds", 0, wire::kMaxKeepMs / 1000));
  if (seconds) key.max_retention_ms = static_cast<std::uint64_t>(*seconds) * 1000;
  ROOST_ASSIGN_OR_RETURN(key.models, ModelsOf(object));
  ROOST_ASSIGN_OR_RETURN(key.model_aliases, AliasesOf(object));
  ROOST_ASSIGN_OR_RETURN(key.limits.requests_per_minute, LimitOf(object, "requests_per_minute"));
  ROOST_ASSIGN_OR_RETURN(key.limits.tokens_per_minute, LimitOf(object, "tokens_per_minute"));
  ROOST_ASSIGN_OR_RETURN(const std::optional<double> weight, object.Number("cached_token_weight"));
  key.limits.cached_token_weight = weight.value_or(1);
  if (!(key.limits.cached_token_weight >= 0 && key.limits.cached_token_weight <= 1)) {
    return InvalidArgument("cached_token_weight", "must be at least 0 and at most 1");
  }
  ROOST_ASSIGN_OR_RETURN(key.limits.concurrent_requests, LimitOf(object, "max_concurrent_requests"));
  return key;
}

// Each name stands for one account, and each secret for one key.
class Uniqueness {
 public:
  Result<void> Add(const ApiKey& key) {
    if (!names_.insert(key.name).second) return InvalidArgument("name", "'{}' is given twice", key.name);
    if (!digests_.insert(key.digest).second) return InvalidArgument("sha256", "another key has it too");
    return {};
  }

 private:
  std::set<std::string> names_;
  std::set<KeyDigest> digests_;
};

}  // namespace

Result<std::vector<ApiKey>> ParseKeyFile(std::string_view text, const std::string& path) {
  std::vector<ApiKey> keys;
  Uniqueness unique;
  const Result<void> read = ForEachJsonLine(text, path, [&](const JsonObject& object) -> Result<void> {
    if (keys.size() == kMaxKeys) return InvalidArgument("", "more than {} keys", kMaxKeys);
    ROOST_ASSIGN_OR_RETURN(ApiKey key, KeyOf(object));
    ROOST_RETURN_IF_ERROR(unique.Add(key));
    keys.push_back(std::move(key));
    return {};
  });
  if (!read.ok()) return read.error();
  if (keys.empty() && text.find('#') == std::string_view::npos) {
    return InvalidArgument(path,
                           "holds no key; a file that shall let nobody in has a comment, a line that begins with #");
  }
  return keys;
}

Result<std::vector<ApiKey>> ReadKeyFile(const std::string& path) {
  ROOST_ASSIGN_OR_RETURN(const std::string text, ReadOperatorsFile(path, kMaxKeyFileBytes));
  return ParseKeyFile(text, path);
}

std::string KeyLine(const ApiKey& key) {
  JsonWriter json;
  json.BeginObject().Key("name").String(key.name).Key("sha256").String(HexOf(key.digest));
  json.Key("tenant").String(key.tenant).Key("max_priority").Number(key.max_priority);
  if (key.max_retention_ms < wire::kMaxKeepMs) json.Key("max_retention_seconds").Number(key.max_retention_ms / 1000);
  if (!key.models.empty()) {
    json.Key("models").BeginArray();
    for (const std::string& model : key.models) json.String(model);
    json.EndArray();
  }
  if (!key.model_aliases.empty()) {
    json.Key("model_aliases").BeginObject();
    for (const auto& [alias, model] : key.model_aliases) json.Key(alias).String(model);
    json.EndObject();
  }
  const auto limit = [&json](std::string_view name, std::uint64_t value) {
    if (value != kNoLimit) json.Key(name).Number(value);
  };
  limit("requests_per_minute", key.limits.requests_per_minute);
  limit("tokens_per_minute", key.limits.tokens_per_minute);
  if (key.limits.cached_token_weight != 1) json.Key("cached_token_weight").Number(key.limits.cached_token_weight);
  limit("max_concurrent_requests", key.limits.concurrent_requests);
  json.EndObject();
  return json.Take();
}

}  // namespace roost::router
