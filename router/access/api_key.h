// API keys: who may call, as whom, and how much. A key's secret is shown once, when it is made (`roostctl key new`);
// the file that the router reads has its SHA-256 alone. Secrets are 256 random bits, so their hashes need no salt.
//
// The file has one JSON object per line; blank lines and lines that begin with # are skipped:
//
//   {"name": "chat-app", "sha256": "9f…", "tenant": "acme", "max_priority": 70, "max_retention_seconds": 3600,
//   "models": ["qwen*"],
//    "model_aliases": {"gpt-4o": "qwen3-8b"}, "requests_per_minute": 600, "tokens_per_minute": 100000,
//    "cached_token_weight": 0.1, "max_concurrent_requests": 32}
//
// `name` and `sha256` must be there. Two keys of one tenant share its cache and its turn in the queue, but no limits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/wire/messages.h"
#include "router/access/model_alias.h"

namespace roost::router {

// SHA-256 of a key's secret.
using KeyDigest = std::array<std::uint8_t, 32>;

// No limit, per minute or at one time: the largest number.
inline constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

struct KeyLimits {
  std::uint64_t requests_per_minute = kNoLimit;
  std::uint64_t tokens_per_minute = kNoLimit;  // of prompts, cached ones by their weight, and of answers
  std::uint64_t concurrent_requests = kNoLimit;
  double cached_token_weight = 1;  // of a prompt's token that was cached, 0 to 1

  // The tokens that a prompt takes from tokens_per_minute.
  [[nodiscard]] std::uint64_t ChargeOf(std::uint64_t prompt_tokens, std::uint64_t cached_tokens) const;

  bool operator==(const KeyLimits&) const = default;
};

struct ApiKey {
  std::string name;  // for metrics, logs and `roostctl usage`: 1 to 64 of [A-Za-z0-9._-]
  KeyDigest digest{};
  std::string tenant;               // the key's name unless the file says otherwise; 1 to kMaxTenantBytes of UTF-8
  std::uint32_t max_priority = 50;  // a request that asks for a higher one is refused
  std::uint64_t max_retention_ms = wire::kMaxKeepMs;  // longer times for which blocks should stay become this
  std::vector<std::string> models;  // that it may use; empty: all. A * at the end stands for any ending
  ModelAliases model_aliases;       // beside the router's; it may use what they mean
  KeyLimits limits;

  [[nodiscard]] bool MayUse(std::string_view model) const;
};

inline constexpr std::size_t kMaxKeys = 10'000;
inline constexpr std::size_t kMaxKeyFileBytes = std::size_t{8} << 20U;
// A longer secret is no key of ours.
inline constexpr std::size_t kMaxSecretBytes = 256;

[[nodiscard]] KeyDigest DigestOfSecret(std::string_view secret);

// The digest's 64 hexadecimal digits.
[[nodiscard]] std::string HexOf(const KeyDigest& digest);

// 1 to 64 of [A-Za-z0-9._-]?
[[nodiscard]] bool IsKeyName(std::string_view name);

// A new secret: "sk-roost-" and 64 hexadecimal digits, from the system's generator.
[[nodiscard]] std::string NewKeySecret();

}  // namespace roost::router
