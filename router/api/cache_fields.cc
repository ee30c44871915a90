#include "router/api/cache_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>

namespace roost::router {
namespace {

constexpr auto kMaxKeepMs = static_cast<std::int64_t>(wire::kMaxKeepMs);

Result<void> CheckMembers(const JsonObject& object, std::initializer_list<std::string_view> known) {
  for (const auto& [name, element] : object.members()) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    return InvalidArgument(object.PathOf(name), "is not a known field; the known fields are {}",
                           fmt::join(known, ", "));
  }
  return {};
}

Result<std::optional<std::string_view>> BoundedString(const JsonObject& object, std::string_view name,
                                                      std::size_t max_bytes) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> text, object.String(name));
  if (text && (text->empty() || text->size() > max_bytes)) {
    return InvalidArgument(object.PathOf(name), "must be 1 to {} bytes long, not {}", max_bytes, text->size());
  }
  return text;
}

Result<std::optional<std::uint32_t>> Priority(const JsonObject& object, std::string_view name) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::int64_t> value, object.Integer(name, 0, wire::kMaxPriority));
  if (!value) return std::optional<std::uint32_t>();
  return std::optional<std::uint32_t>(static_cast<std::uint32_t>(*value));
}

// One priority and its duration.
struct HintNames {
  std::string_view priority;
  std::string_view duration;
};
struct Hint {
  std::uint32_t priority = wire::Retention().prompt_priority;
  std::uint64_t duration_ms = 0;
};

Result<Hint> ParseHint(const JsonObject& object, HintNames names) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::uint32_t> priority, Priority(object, names.priority));
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::int64_t> duration, object.Integer(names.duration, 1, kMaxKeepMs));
  // A priority for no time would be without effect.
  if (priority && !duration) {
    return InvalidArgument(object.PathOf(names.duration), "is required beside {}: the time for which it holds",
                           names.priority);
  }
  Hint hint;
  hint.priority = priority.value_or(hint.priority);
  hint.duration_ms = static_cast<std::uint64_t>(duration.value_or(0));
  return hint;
}

Result<std::optional<wire::Retention>> ParseRetention(const JsonObject& cache) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<JsonObject> object, cache.Object("retention"));
  if (!object) return std::optional<wire::Retention>();
  ROOST_RETURN_IF_ERROR(CheckMembers(*object, {"priority", "duration_ms", "decode_priority", "decode_duration_ms"}));
  ROOST_ASSIGN_OR_RETURN(const Hint prompt, ParseHint(*object, {"priority", "duration_ms"}));
  ROOST_ASSIGN_OR_RETURN(const Hint decode, ParseHint(*object, {"decode_priority", "decode_duration_ms"}));
  return std::optional<wire::Retention>({prompt.priority, prompt.duration_ms, decode.priority, decode.duration_ms});
}

Result<wire::CacheMode> ModeOf(std::string_view text, const std::string& path) {
  if (text == "on") return wire::CacheMode::kOn;
  if (text == "off") return wire::CacheMode::kOff;
  return InvalidArgument(path, "must be \"on\" or \"off\"");
}

Result<void> ParseCacheObject(const JsonObject& cache, CacheFields& fields) {
  ROOST_RETURN_IF_ERROR(CheckMembers(cache, {"mode", "salt", "retention"}));
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> mode, cache.String("mode"));
  if (mode) {
    ROOST_ASSIGN_OR_RETURN(fields.mode, ModeOf(*mode, cache.PathOf("mode")));
  }
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> salt, BoundedString(cache, "salt", kMaxCacheSaltBytes));
  if (salt && !fields.salt.empty() && fields.salt != *salt) {
    return InvalidArgument(cache.PathOf("salt"), "differs from cache_salt: leave one of them out");
  }
  if (salt) fields.salt = *salt;
  ROOST_ASSIGN_OR_RETURN(fields.retention, ParseRetention(cache));
  return {};
}

}  // namespace

Result<CacheFields> ParseCacheFields(const JsonObject& body) {
  CacheFields fields;
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> salt,
                         BoundedString(body, "cache_salt", kMaxCacheSaltBytes));
  fields.salt = salt.value_or("");
  if (const std::optional<JsonElement> cache = body.Find("cache"); cache && cache->is_string()) {
    ROOST_ASSIGN_OR_RETURN(const std::string_view mode, StringOf(*cache, "cache"));
    ROOST_ASSIGN_OR_RETURN(fields.mode, ModeOf(mode, "cache"));
  } else {
    ROOST_ASSIGN_OR_RETURN(const std::optional<JsonObject> object, body.Object("cache"));
    if (object) ROOST_RETURN_IF_ERROR(ParseCacheObject(*object, fields));
  }
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> session,
                         BoundedString(body, "session_id", kMaxSessionIdBytes));
  fields.session_id = session.value_or("");
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::int64_t> return_ms, body.Integer("expect_return_ms", 0, kMaxKeepMs));
  fields.expect_return_ms = static_cast<std::uint64_t>(return_ms.value_or(0));
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::uint32_t> priority, Priority(body, "priority"));
  fields.priority = priority.value_or(fields.priority);
  return fields;
}

}  // namespace roost::router
