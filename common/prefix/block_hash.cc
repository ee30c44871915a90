// OpenSSL 3 marks the low-level SHA-256 calls deprecated. They cost a third of the pre-fetched EVP interface per block,
// and the hash of a long prompt delays its first token.
#define OPENSSL_SUPPRESS_DEPRECATED

#include "common/prefix/block_hash.h"

#include <fmt/format.h>
#include <openssl/sha.h>

#include <bit>

#include "common/base/check.h"
#include "common/base/random_seed.h"

namespace roost {
namespace {

static_assert(std::endian::native == std::endian::little, "tokens are hashed from memory as little-endian");

constexpr std::string_view kDomain = "roost/1";

// Tags of the root's parts. A new part takes a new number; no number is ever used again.
enum class PartTag : std::uint8_t {
  kFingerprint = 1,
  kAdapter = 2,
  kTenant = 3,
  kSalt = 4,
  kBlockTokens = 5,
  kKvDtype = 6,
};

std::uint64_t BigEndian(const unsigned char* bytes) {
  std::uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value = (value << 8U) | bytes[i];
  return value;
}

BlockHash Truncate(const std::array<unsigned char, SHA256_DIGEST_LENGTH>& digest) {
  return {BigEndian(digest.data()), BigEndian(digest.data() + 8)};
}

std::array<unsigned char, 16> ToBytes(BlockHash hash) {
  std::array<unsigned char, 16> bytes;
  for (unsigned i = 0; i < 8; ++i) {
    bytes[i] = static_cast<unsigned char>(hash.high >> (56U - 8U * i));
    bytes[8 + i] = static_cast<unsigned char>(hash.low >> (56U - 8U * i));
  }
  return bytes;
}

void AppendLittleEndian(std::uint32_t value, std::string& out) {
  for (unsigned shift = 0; shift < 32; shift += 8) out += static_cast<char>((value >> shift) & 0xFFU);
}

void AppendPart(PartTag tag, std::string_view bytes, std::string& out) {
  out += static_cast<char>(tag);
  AppendLittleEndian(static_cast<std::uint32_t>(bytes.size()), out);
  out += bytes;
}

BlockHash HashBytes(std::string_view bytes) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256_CTX context;
  SHA256_Init(&context);
  SHA256_Update(&context, bytes.data(), bytes.size());
  SHA256_Final(digest.data(), &context);
  return Truncate(digest);
}

}  // namespace

std::string BlockHash::ToHex() const { return fmt::format("{:016x}{:016x}", high, low); }

bool IsValidBlockTokens(std::uint32_t block_tokens) {
  return std::has_single_bit(block_tokens) && block_tokens >= kMinBlockTokens && block_tokens <= kMaxBlockTokens;
}

BlockHash RootHash(const PrefixScope& scope) {
  std::string bytes(kDomain);
  AppendPart(PartTag::kFingerprint, scope.fingerprint, bytes);
  AppendPart(PartTag::kAdapter, scope.adapter, bytes);
  AppendPart(PartTag::kTenant, scope.tenant, bytes);
  AppendPart(PartTag::kSalt, scope.salt, bytes);
  std::string block_tokens;
  AppendLittleEndian(scope.block_tokens, block_tokens);
  AppendPart(PartTag::kBlockTokens, block_tokens, bytes);
  AppendPart(PartTag::kKvDtype, scope.kv_dtype, bytes);
  return HashBytes(bytes);
}

BlockHash OwnRoot(BlockHash scope_root, BlockHash last_shared) {
  std::string bytes("roost/own/1");
  for (const BlockHash hash : {scope_root, last_shared}) {
    const auto part = ToBytes(hash);
    bytes.append(part.begin(), part.end());
  }
  return HashBytes(bytes);
}

BlockHash ChainHash(BlockHash parent, std::span<const TokenId> tokens) {
  const std::array<unsigned char, 16> parent_bytes = ToBytes(parent);
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256_CTX context;
  SHA256_Init(&context);
  SHA256_Update(&context, parent_bytes.data(), parent_bytes.size());
  SHA256_Update(&context, tokens.data(), tokens.size_bytes());
  SHA256_Final(digest.data(), &context);
  return Truncate(digest);
}

BlockHash ParentOf(std::uint32_t index, BlockHash root, const std::optional<OwnScope>& own, BlockHash before) {
  if (own && own->first_block == index) return own->root;
  return index == 0 ? root : before;
}

std::vector<BlockHash> HashBlocks(BlockHash root, std::span<const TokenId> tokens, std::uint32_t block_tokens) {
  return HashBlocks(root, std::nullopt, tokens, block_tokens);
}

std::vector<BlockHash> HashBlocks(BlockHash root, const std::optional<OwnScope>& own, std::span<const TokenId> tokens,
                                  std::uint32_t block_tokens) {
  ROOST_CHECK(IsValidBlockTokens(block_tokens), "block_tokens {}", block_tokens);
  std::vector<BlockHash> hashes;
  hashes.reserve(tokens.size() / block_tokens);
  BlockHash last = root;
  for (std::uint32_t index = 0; (std::size_t{index} + 1) * block_tokens <= tokens.size(); ++index) {
    const auto block = tokens.subspan(std::size_t{index} * block_tokens, block_tokens);
    last = ChainHash(ParentOf(index, root, own, last), block);
    hashes.push_back(last);
  }
  return hashes;
}

std::uint64_t BlockHashHasher::ProcessSeed() {
  static const std::uint64_t seed = RandomSeed();
  return seed;
}

}  // namespace roost
