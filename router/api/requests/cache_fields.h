// The request fields for the cache and the queue. All are optional. They are Roost's own: other servers ignore them.
//
//   "cache": "off"                                          or, with more members:
//   "cache": {"mode": "on", "salt": "s", "retention": {"priority": 80, "duration_ms": 600000,
//                                                      "decode_priority": 20, "decode_duration_ms": 60000}}
//   "session_id": "c-17", "expect_return_ms": 30000, "priority": 70
//
// `cache_salt` beside the object means the same as `cache.salt`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "common/base/result.h"
#include "common/wire/messages.h"
#include "router/api/json_object.h"
#include "router/api/requests/request_field.h"

namespace roost::router {

inline constexpr std::size_t kMaxCacheSaltBytes = 256;
inline constexpr std::size_t kMaxSessionIdBytes = 256;

struct CacheFields {
  wire::CacheMode mode = wire::CacheMode::kOn;
  std::string salt;  // empty: none
  std::optional<wire::Retention> retention;
  std::string session_id;              // empty: none
  std::uint64_t expect_return_ms = 0;  // 0: not given
  std::uint32_t priority = 50;
};

// The error names the field. An unknown member of `cache` is an error, because a misspelt hint would silently do
// nothing.
[[nodiscard]] Result<CacheFields> ParseCacheFields(const JsonObject& body);

// The table of these fields.
[[nodiscard]] std::span<const RequestField<CacheFields>> CacheFieldTable();

}  // namespace roost::router
