#include "router/api/requests/cache_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
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

// The names of a priority and its duration.
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
  // A priority without a duration would have no effect.
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

Result<void> ReadCache(JsonElement element, const std::string& path, CacheFields& fields) {
  if (IsString(element)) {
    ROOST_ASSIGN_OR_RETURN(const std::string_view mode, StringOf(element, path));
    ROOST_ASSIGN_OR_RETURN(fields.mode, ModeOf(mode, path));
    return {};
  }
  ROOST_ASSIGN_OR_RETURN(const JsonObject cache, JsonObject::From(element, path));
  return ParseCacheObject(cache, fields);
}

constexpr std::string_view kCacheSchema =
    R"({"oneOf":[{"enum":["on","off"]},{"type":"object","additionalProperties":false,"properties":{)"
    R"("mode":{"enum":["on","off"]},"salt":{"type":"string","minLength":1},"retention":{"type":"object",)"
    R"("additionalProperties":false,"dependentRequired":{"priority":["duration_ms"],)"
    R"("decode_priority":["decode_duration_ms"]},"properties":{)"
    R"("priority":{"type":"integer","minimum":0,"maximum":100},"duration_ms":{"type":"integer","minimum":1},)"
    R"("decode_priority":{"type":"integer","minimum":0,"maximum":100},)"
    R"("decode_duration_ms":{"type":"integer","minimum":1}}}}}]})";

constexpr auto kCacheFields = std::to_array<RequestField<CacheFields>>({
    {"cache_salt", "Prompts with different salts share no cached blocks. The same as cache.salt.",
     Text<CacheFields>{1, kMaxCacheSaltBytes, [](CacheFields& f, std::string_view v) { f.salt = v; }}},
    {"cache", "How the request uses the prefix cache, and how long its blocks should stay in it.",
     Own<CacheFields>{kCacheSchema, &ReadCache}},
    {"session_id", "The conversation's name.",
     Text<CacheFields>{1, kMaxSessionIdBytes, [](CacheFields& f, std::string_view v) { f.session_id = v; }}},
    {"expect_return_ms", "The time until the conversation's next request is expected.",
     Whole<CacheFields>{0, kMaxKeepMs,
                        [](CacheFields& f, std::int64_t v) { f.expect_return_ms = static_cast<std::uint64_t>(v); }}},
    {"priority", "Requests with a higher priority leave the queue first (in vLLM, a lower one); the default is 50.",
     Whole<CacheFields>{0, wire::kMaxPriority,
                        [](CacheFields& f, std::int64_t v) { f.priority = static_cast<std::uint32_t>(v); }}},
});

}  // namespace

std::span<const RequestField<CacheFields>> CacheFieldTable() { return kCacheFields; }

Result<CacheFields> ParseCacheFields(const JsonObject& body) {
  CacheFields fields;
  ROOST_RETURN_IF_ERROR(ReadFields(body, CacheFieldTable(), fields));
  return fields;
}

}  // namespace roost::router
