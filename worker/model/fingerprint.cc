#include "worker/model/fingerprint.h"

#include <fmt/core.h>
#include <openssl/evp.h>

#include <array>
#include <memory>

#include "common/base/check.h"

namespace roost::worker {
namespace {

// SHA-256 over parts, each after its length, so that no two lists of parts are alike.
class Digest {
 public:
  Digest() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    ROOST_CHECK(context_ != nullptr && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
  }

  Digest& Add(std::string_view part) {
    std::array<unsigned char, 8> length{};
    for (std::size_t i = 0; i < length.size(); ++i) length[i] = static_cast<unsigned char>(part.size() >> (8 * i));
    ROOST_CHECK(EVP_DigestUpdate(context_.get(), length.data(), length.size()) == 1);
    ROOST_CHECK(EVP_DigestUpdate(context_.get(), part.data(), part.size()) == 1);
    return *this;
  }

  // Once, at the end.
  [[nodiscard]] std::string Hex() {
    std::array<unsigned char, 32> digest{};
    ROOST_CHECK(EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr) == 1);
    std::string hex;
    for (const unsigned char byte : digest) hex += fmt::format("{:02x}", byte);
    return hex;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context_;
};

std::string_view BytesOf(const TensorHash& hash) { return {reinterpret_cast<const char*>(hash.data()), hash.size()}; }

}  // namespace

std::string ModelFingerprint(const ModelFiles& files, std::span<const TensorRecord> tensors) {
  Digest digest;
  digest.Add("config").Add(files.config).Add("tokenizer").Add(files.tokenizer);
  for (const TensorRecord& tensor : tensors) {
    digest.Add("tensor").Add(tensor.name).Add(tensor.dtype).Add(tensor.shape).Add(BytesOf(tensor.hash));
  }
  return digest.Hex();
}

std::string SyntheticFingerprint(const HfConfig& config, std::uint64_t seed) {
  Digest digest;
  digest.Add("synthetic").Add(config.architecture).Add("bf16").Add(fmt::format("{}", seed));
  for (const std::uint32_t size : {config.vocab_size, config.hidden_size, config.intermediate_size, config.layer_count,
                                   config.query_head_count, config.kv_head_count, config.head_dim}) {
    digest.Add(fmt::format("{}", size));
  }
  return digest.Add(fmt::format("{}", config.rope.theta)).Hex();
}

}  // namespace roost::worker
