#include "common/base/parts_digest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>

#include <array>
#include <cstddef>

#include "common/base/check.h"

namespace roost {

PartsDigest::PartsDigest() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
  ROOST_CHECK(context_ != nullptr && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
}

PartsDigest& PartsDigest::Add(std::string_view part) {
  std::array<unsigned char, 8> length{};
  for (std::size_t i = 0; i < length.size(); ++i) length[i] = static_cast<unsigned char>(part.size() >> (8 * i));
  ROOST_CHECK(EVP_DigestUpdate(context_.get(), length.data(), length.size()) == 1);
  ROOST_CHECK(EVP_DigestUpdate(context_.get(), part.data(), part.size()) == 1);
  return *this;
}

std::string PartsDigest::Hex() {
  std::array<unsigned char, 32> digest{};
  ROOST_CHECK(EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr) == 1);
  return fmt::format("{:02x}", fmt::join(digest, ""));
}

}  // namespace roost
