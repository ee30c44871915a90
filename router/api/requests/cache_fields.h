// The request fields for the cache and the queue. All are optional. Roost's own, which other servers ignore:
//
//   "cache": "off"                                          or, with more members:
//   "cache": {"mode": "on", "salt": "s", "retention": {"priority": 80, "duration_ms": 600000,
//                                                      "decode_priority": 20, "decode_duration_ms": 60000}}
//   "session_id": "c-17", "expect_return_ms": 30000, "priority": 70
//
// and those of OpenAI's and Anthropic's prompt caches, which ask for lifetimes of a prompt's front:
//
//   "prompt_cache_options": {"mode": "explicit", "ttl": "30m", "prewarm": true}, "prompt_cache_retention": "24h"
//   {"type": "text", "text": "…", "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"}}
//   {"type": "text", "text": "…", "cache_control": {"type": "ephemeral", "ttl": "1h"}}
//
// `cache_salt` beside the object means the same as `cache.salt`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/wire/messages.h"
#include "router/api/json_object.h"
#include "router/api/requests/request_field.h"

namespace roost::router {

inline constexpr std::size_t kMaxCacheSaltBytes = 256;
inline constexpr std::size_t kMaxSessionIdBytes = 256;
inline constexpr std::size_t kMaxPromptCacheKeyBytes = 1024;
inline constexpr std::size_t kMaxAnswerIdBytes = 256;

// A mark in the request: what is before it should stay for a while.
struct CacheBreakpoint {
  enum class Form : std::uint8_t { kAnthropic, kOpenAi } form = Form::kOpenAi;
  std::optional<std::uint64_t> lifetime_ms;  // none: that of the request
};

struct PromptCacheOptions {
  enum class Mode : std::uint8_t {
    kImplicit,  // the prompt's end is a breakpoint too, if anything asks for a lifetime
    kExplicit,  // the request's breakpoints alone
  } mode = Mode::kImplicit;
  std::optional<std::uint64_t> ttl_ms;
  bool prewarm = false;  // compute the prompt, and answer nothing
};

struct CacheFields {
  wire::CacheMode mode = wire::CacheMode::kOn;
  std::string salt;  // empty: none
  std::optional<wire::Retention> retention;
  std::string session_id;                                 // empty: none
  std::string prompt_cache_key;                           // the same; a hint for routing alone
  std::uint64_t expect_return_ms = 0;                     // 0: not given
  std::uint64_t longest_retention_ms = wire::kMaxKeepMs;  // the bound of the client's key
  std::uint32_t priority = 50;
  PromptCacheOptions options;
  // For the whole prompt: of the request's own cache_control, and of prompt_cache_retention.
  std::optional<std::uint64_t> request_lifetime_ms;
  std::optional<std::uint64_t> retention_ms;
  bool wants_diagnosis = false;  // the answer says what became of the prompt's cache
  std::string compare_with;      // the id of an earlier answer; empty: none is named
  // The result of the fields above and the prompt's breakpoints, once the prompt has been read.
  std::vector<wire::Lifetime> lifetimes;
};

// A breakpoint among the prompt's tokens.
struct PlacedBreakpoint {
  CacheBreakpoint mark;
  std::uint32_t end_token = 0;
};

// The lifetimes that the request asks for: at most kMaxLifetimes, by their ends. Of more breakpoints the last ones
// count, as OpenAI has it; Anthropic's are bounded by CheckCacheControl. `explicit_marks`: in the order of the prompt.
[[nodiscard]] std::vector<wire::Lifetime> LifetimesOf(const CacheFields& fields,
                                                      std::span<const PlacedBreakpoint> explicit_marks,
                                                      std::uint32_t prompt_tokens);

// The mark on a part, message or tool; nothing without one. Errors name its member.
[[nodiscard]] Result<std::optional<CacheBreakpoint>> BreakpointOf(const JsonObject& part);

// As Anthropic's API has it: at most four, and no longer lifetime behind a shorter one.
[[nodiscard]] Result<void> CheckCacheControl(const CacheFields& fields, std::span<const CacheBreakpoint> marks);

// The error names the field. An unknown member of `cache` is an error, because a misspelt hint would silently do
// nothing.
[[nodiscard]] Result<CacheFields> ParseCacheFields(const JsonObject& body);

// The table of these fields.
[[nodiscard]] std::span<const RequestField<CacheFields>> CacheFieldTable();

}  // namespace roost::router
