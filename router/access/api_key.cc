#include "router/access/api_key.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <algorithm>
#include <span>

#include "common/base/check.h"

namespace roost::router {
namespace {

std::string Hex(std::span<const std::uint8_t> bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::uint8_t byte : bytes) fmt::format_to(std::back_inserter(text), "{:02x}", byte);
  return text;
}

}  // namespace

bool ApiKey::MayUse(std::string_view model) const {
  if (models.empty()) return true;
  return std::any_of(models.begin(), models.end(), [model](std::string_view allowed) {
    if (!allowed.ends_with('*')) return allowed == model;
    return model.starts_with(allowed.substr(0, allowed.size() - 1));
  });
}

KeyDigest DigestOfSecret(std::string_view secret) {
  KeyDigest digest{};
  const int ok = EVP_Digest(secret.data(), secret.size(), digest.data(), nullptr, EVP_sha256(), nullptr);
  ROOST_CHECK(ok == 1, "SHA-256");
  return digest;
}

std::string HexOf(const KeyDigest& digest) { return Hex(digest); }

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
  return "sk-roost-" + Hex(random);
}

}  // namespace roost::router
