#include "router/access/api_key.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cmath>

#include "common/base/check.h"
#include "common/base/name_pattern.h"

namespace roost::router {
std::uint64_t KeyLimits::ChargeOf(std::uint64_t prompt_tokens, std::uint64_t cached_tokens) const {
  const std::uint64_t cached = std::min(cached_tokens, prompt_tokens);
  const double weighted = cached_token_weight * static_cast<double>(cached);
  return prompt_tokens - cached + static_cast<std::uint64_t>(std::llround(weighted));
}

bool ApiKey::MayUse(std::string_view model) const { return models.empty() || MatchesAny(models, model); }

KeyDigest DigestOfSecret(std::string_view secret) {
  KeyDigest digest{};
  const int ok = EVP_Digest(secret.data(), secret.size(), digest.data(), nullptr, EVP_sha256(), nullptr);
  ROOST_CHECK(ok == 1, "SHA-256");
  return digest;
}

std::string HexOf(const KeyDigest& digest) { return fmt::format("{:02x}", fmt::join(digest, "")); }

bool IsKeyName(std::string_view name) {
  constexpr std::size_t kMaxBytes = 64;
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  };
  return !name.empty() && name.size() <= kMaxBytes && std::all_of(name.begin(), name.end(), allowed);
}

std::string NewKeySecret() {
  KeyDigest random{};
  ROOST_CHECK(RAND_bytes(random.data(), static_cast<int>(random.size())) == 1, "no random numbers");
  return "sk-roost-" + HexOf(random);
}

}  // namespace roost::router
