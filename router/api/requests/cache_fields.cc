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

// ---- lifetimes ----

constexpr std::uint64_t kMinuteMs = 60'000;
constexpr std::uint64_t kHourMs = 60 * kMinuteMs;
constexpr std::uint64_t kUsualOpenAiMs = 30 * kMinuteMs;

struct NamedLifetime {
  std::string_view name;
  std::uint64_t ms;
};
constexpr auto kAnthropicLifetimes = std::to_array<NamedLifetime>({{"5m", 5 * kMinuteMs}, {"1h", kHourMs}});
constexpr auto kOpenAiLifetimes = std::to_array<NamedLifetime>({{"30m", kUsualOpenAiMs}, {"12h", 12 * kHourMs}});

Result<std::optional<std::uint64_t>> ReadTtl(const JsonObject& object, std::span<const NamedLifetime, 2> known) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> ttl, object.String("ttl"));
  if (!ttl) return std::optional<std::uint64_t>();
  for (const NamedLifetime& each : known) {
    if (each.name == *ttl) return std::optional(each.ms);
  }
  return InvalidArgument(object.PathOf("ttl"), "must be \"{}\" or \"{}\"", known[0].name, known[1].name);
}

// Members that are not known are for Anthropic's own servers.
Result<std::uint64_t> CacheControlMs(const JsonObject& control) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> type, control.String("type"));
  if (type != "ephemeral") return InvalidArgument(control.PathOf("type"), "must be \"ephemeral\"");
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::uint64_t> ms, ReadTtl(control, kAnthropicLifetimes));
  return ms.value_or(kAnthropicLifetimes[0].ms);
}

Result<void> ReadRequestControl(JsonElement element, const std::string& path, CacheFields& fields) {
  ROOST_ASSIGN_OR_RETURN(const JsonObject control, JsonObject::From(element, path));
  ROOST_ASSIGN_OR_RETURN(fields.request_lifetime_ms, CacheControlMs(control));
  return {};
}

Result<void> ReadComparison(const JsonObject& object, std::string_view name, CacheFields& fields) {
  ROOST_ASSIGN_OR_RETURN(const auto id, BoundedString(object, name, kMaxAnswerIdBytes));
  if (!id) return {};
  fields.wants_diagnosis = true;
  fields.compare_with = *id;
  return {};
}

Result<void> ReadOptions(JsonElement element, const std::string& path, CacheFields& fields) {
  ROOST_ASSIGN_OR_RETURN(const JsonObject options, JsonObject::From(element, path));
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> mode, options.String("mode"));
  if (mode && mode != "implicit" && mode != "explicit") {
    return InvalidArgument(options.PathOf("mode"), "must be \"implicit\" or \"explicit\"");
  }
  if (mode == "explicit") fields.options.mode = PromptCacheOptions::Mode::kExplicit;
  ROOST_ASSIGN_OR_RETURN(fields.options.ttl_ms, ReadTtl(options, kOpenAiLifetimes));
  ROOST_ASSIGN_OR_RETURN(const std::optional<bool> prewarm, options.Bool("prewarm"));
  fields.options.prewarm = prewarm.value_or(false);
  return ReadComparison(options, "comparison_response_id", fields);
}

// Without an id it only says that the client may name this answer later.
Result<void> ReadDiagnostics(JsonElement element, const std::string& path, CacheFields& fields) {
  ROOST_ASSIGN_OR_RETURN(const JsonObject diagnostics, JsonObject::From(element, path));
  fields.wants_diagnosis = true;
  return ReadComparison(diagnostics, "previous_message_id", fields);
}

// In memory is where blocks are anyway.
Result<void> ReadPromptCacheRetention(JsonElement element, const std::string& path, CacheFields& fields) {
  ROOST_ASSIGN_OR_RETURN(const std::string_view text, StringOf(element, path));
  if (text == "24h") fields.retention_ms = 24 * kHourMs;
  if (text == "24h" || text == "in_memory" || text == "in-memory") return {};
  return InvalidArgument(path, "must be \"in_memory\" or \"24h\"");
}

constexpr std::string_view kCacheControlSchema =
    R"({"type":"object","required":["type"],"properties":{"type":{"const":"ephemeral"},"ttl":{"enum":["5m","1h",null]}}})";
constexpr std::string_view kOptionsSchema =
    R"({"type":"object","properties":{"mode":{"enum":["implicit","explicit",null]},"ttl":{"enum":["30m","12h",null]},)"
    R"("prewarm":{"type":["boolean","null"]},"comparison_response_id":{"type":["string","null"],"minLength":1,"maxLength":64}}})";
constexpr std::string_view kDiagnosticsSchema =
    R"({"type":"object","properties":{"previous_message_id":{"type":["string","null"],"minLength":1,"maxLength":64}}})";
constexpr std::string_view kPromptCacheRetentionSchema = R"({"enum":["in_memory","in-memory","24h"]})";

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
    {"prompt_cache_key", "Requests of one key should meet one cache, where the policy goes by sessions.",
     Text<CacheFields>{0, kMaxPromptCacheKeyBytes, [](CacheFields& f, std::string_view v) { f.prompt_cache_key = v; }}},
    {"cache_control", "Keeps the prompt for a time that each request which finds it begins anew.",
     Own<CacheFields>{kCacheControlSchema, &ReadRequestControl}},
    {"prompt_cache_options", "Where the kept parts of the prompt end, and their time; or prefill alone.",
     Own<CacheFields>{kOptionsSchema, &ReadOptions}},
    {"diagnostics", "What became of the prompt's cache, beside the request of an earlier answer.",
     Own<CacheFields>{kDiagnosticsSchema, &ReadDiagnostics}},
    {"prompt_cache_retention", "24h: keeps the prompt, as long as workers do. See prompt_cache_options.",
     Own<CacheFields>{kPromptCacheRetentionSchema, &ReadPromptCacheRetention}},
    {"expect_return_ms", "The time until the conversation's next request is expected.",
     Whole<CacheFields>{0, kMaxKeepMs,
                        [](CacheFields& f, std::int64_t v) { f.expect_return_ms = static_cast<std::uint64_t>(v); }}},
    {"priority", "Requests with a higher priority leave the queue first (in vLLM, a lower one); the default is 50.",
     Whole<CacheFields>{0, wire::kMaxPriority,
                        [](CacheFields& f, std::int64_t v) { f.priority = static_cast<std::uint32_t>(v); }}},
});

}  // namespace

std::span<const RequestField<CacheFields>> CacheFieldTable() { return kCacheFields; }

Result<std::optional<CacheBreakpoint>> BreakpointOf(const JsonObject& part) {
  using Form = CacheBreakpoint::Form;
  ROOST_ASSIGN_OR_RETURN(const std::optional<JsonObject> control, part.Object("cache_control"));
  if (control) {
    ROOST_ASSIGN_OR_RETURN(const std::uint64_t ms, CacheControlMs(*control));
    return std::optional(CacheBreakpoint{Form::kAnthropic, ms});
  }
  ROOST_ASSIGN_OR_RETURN(const std::optional<JsonObject> mark, part.Object("prompt_cache_breakpoint"));
  if (!mark) return std::optional<CacheBreakpoint>();
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> mode, mark->String("mode"));
  if (mode != "explicit") return InvalidArgument(mark->PathOf("mode"), "must be \"explicit\"");
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::uint64_t> ms, ReadTtl(*mark, kOpenAiLifetimes));
  return std::optional(CacheBreakpoint{Form::kOpenAi, ms});
}

Result<void> CheckCacheControl(const CacheFields& fields, std::span<const CacheBreakpoint> marks) {
  std::vector<std::uint64_t> lifetimes;
  for (const CacheBreakpoint& mark : marks) {
    if (mark.form == CacheBreakpoint::Form::kAnthropic) lifetimes.push_back(mark.lifetime_ms.value_or(0));
  }
  if (fields.request_lifetime_ms) lifetimes.push_back(*fields.request_lifetime_ms);
  if (lifetimes.size() > wire::kMaxLifetimes) {
    return InvalidArgument("cache_control", "a maximum of {} blocks with cache_control may be provided, found {}",
                           wire::kMaxLifetimes, lifetimes.size());
  }
  if (std::is_sorted(lifetimes.rbegin(), lifetimes.rend())) return {};
  return InvalidArgument("cache_control.ttl", "a block with the ttl \"1h\" must not come after one with \"5m\"");
}

std::vector<wire::Lifetime> LifetimesOf(const CacheFields& fields, std::span<const PlacedBreakpoint> explicit_marks,
                                        std::uint32_t prompt_tokens) {
  const std::uint64_t usual = fields.options.ttl_ms.value_or(kUsualOpenAiMs);
  const bool has_openai = std::any_of(explicit_marks.begin(), explicit_marks.end(), [](const PlacedBreakpoint& each) {
    return each.mark.form == CacheBreakpoint::Form::kOpenAi;
  });
  std::uint64_t whole = std::max(fields.request_lifetime_ms.value_or(0), fields.retention_ms.value_or(0));
  const bool is_implicit = fields.options.mode == PromptCacheOptions::Mode::kImplicit;
  if (is_implicit && (fields.options.ttl_ms || has_openai)) whole = std::max(whole, usual);
  const std::size_t most = wire::kMaxLifetimes - (whole > 0 ? 1 : 0);
  if (explicit_marks.size() > most) explicit_marks = explicit_marks.last(most);
  std::vector<wire::Lifetime> lifetimes;
  for (const PlacedBreakpoint& each : explicit_marks) {
    if (each.end_token > 0) lifetimes.push_back({each.end_token, each.mark.lifetime_ms.value_or(usual)});
  }
  if (whole > 0) lifetimes.push_back({prompt_tokens, whole});
  return lifetimes;
}

Result<CacheFields> ParseCacheFields(const JsonObject& body) {
  CacheFields fields;
  ROOST_RETURN_IF_ERROR(ReadFields(body, CacheFieldTable(), fields));
  return fields;
}

}  // namespace roost::router
