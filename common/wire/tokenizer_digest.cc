#include "common/wire/tokenizer_digest.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string_view>

#include "common/base/check.h"

namespace roost::wire {

std::string DigestOf(const Tokenizer& bundle) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  ROOST_CHECK(context != nullptr && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1);
  for (const std::string_view part : std::initializer_list<std::string_view>{
           bundle.tokenizer_json, bundle.chat_template, bundle.bos_token, bundle.eos_token}) {
    const std::uint64_t length = part.size();
    ROOST_CHECK(EVP_DigestUpdate(context.get(), &length, sizeof(length)) == 1);
    ROOST_CHECK(EVP_DigestUpdate(context.get(), part.data(), part.size()) == 1);
  }
  ROOST_CHECK(EVP_DigestFinal_ex(context.get(), digest.data(), &size) == 1);
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

}  // namespace roost::wire
