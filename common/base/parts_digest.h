// SHA-256 over a list of parts. Each part follows its length in 8 bytes, least significant first, so that different
// lists never hash the same bytes.
#pragma once

#include <memory>
#include <string>
#include <string_view>

// OpenSSL's.
struct evp_md_ctx_st;

namespace roost {

class PartsDigest {
 public:
  PartsDigest();

  PartsDigest& Add(std::string_view part);

  // 64 lower-case digits. Call it once, at the end.
  [[nodiscard]] std::string Hex();

 private:
  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> context_;
};

}  // namespace roost
