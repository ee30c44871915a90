// Block identity: the one implementation of the hash that names KV blocks, used by router and worker alike.
//
//   root = H("roost/1" ‖ fingerprint ‖ adapter ‖ tenant ‖ salt ‖ block_tokens ‖ kv_dtype)
//   h[i] = H(h[i-1] ‖ tokens[i·B .. (i+1)·B)),   h[-1] = root
//
// H is SHA-256 cut to its first 16 bytes. In the root, each part is written as one tag byte, its length as u32
// little-endian, and its bytes, so that different lists of parts have different encodings. Tokens are u32
// little-endian. Only full blocks have a hash. A hash covers every token before its block too, so equal hashes mean
// equal prefixes.
//
// The hash is cryptographic because a collision would let one tenant read another's cached prompt.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/rng.h"

namespace roost {

// 128 bits. `low` is the key in the router's index; all 128 bits travel on the wire.
struct BlockHash {
  std::uint64_t high = 0;  // bytes 0..7 of the digest, big-endian
  std::uint64_t low = 0;   // bytes 8..15 of the digest, big-endian

  auto operator<=>(const BlockHash&) const = default;

  [[nodiscard]] BlockHash operator^(BlockHash other) const { return {high ^ other.high, low ^ other.low}; }
  // 32 hexadecimal digits.
  [[nodiscard]] std::string ToHex() const;
};

// The fields that separate namespaces. Two requests share blocks only if every field is equal.
struct PrefixScope {
  std::string fingerprint;  // of the model: config, tokenizer, weights
  std::string adapter;      // LoRA name; empty for none
  std::string tenant;       // from the authenticated API key; empty when the router has no keys
  std::string salt;         // the request's own cache_salt; it can only separate further
  std::uint32_t block_tokens = 16;
  std::string kv_dtype;  // "bf16", "f32"
};

// The point where a prompt leaves the prefix that all tenants share: its blocks up to there have the hashes of the
// shared scope, and those from `first_block` on have hashes of their own, chained from `root` (OwnRoot).
//
//   shared root ─ h[0] ─ … ─ h[first_block - 1]      own root ─ h[first_block] ─ …
struct OwnScope {
  std::uint32_t first_block = 0;  // at least 1
  BlockHash root;

  bool operator==(const OwnScope&) const = default;
};

inline constexpr std::uint32_t kMinBlockTokens = 4;
inline constexpr std::uint32_t kMaxBlockTokens = 256;

// A power of two from kMinBlockTokens to kMaxBlockTokens?
[[nodiscard]] bool IsValidBlockTokens(std::uint32_t block_tokens);

[[nodiscard]] BlockHash RootHash(const PrefixScope& scope);

// The root of a scope's own blocks behind a shared prefix: H("roost/own/1" ‖ scope's root ‖ the last shared block's
// hash).
[[nodiscard]] BlockHash OwnRoot(BlockHash scope_root, BlockHash last_shared);

// The hash of the block that holds `tokens` (a full block) after `parent` (a block's hash, or the root). About 120 ns
// for 16 tokens with SHA extensions.
[[nodiscard]] BlockHash ChainHash(BlockHash parent, std::span<const TokenId> tokens);

// Hashes of all full blocks of `tokens`, front to back: tokens.size() / block_tokens of them.
[[nodiscard]] std::vector<BlockHash> HashBlocks(BlockHash root, std::span<const TokenId> tokens,
                                                std::uint32_t block_tokens);

// The same with an own scope from one of the blocks on.
[[nodiscard]] std::vector<BlockHash> HashBlocks(BlockHash root, const std::optional<OwnScope>& own,
                                                std::span<const TokenId> tokens, std::uint32_t block_tokens);

// The parent of block `index`, where `before` is the hash of the block before it (of the first one: anything).
[[nodiscard]] BlockHash ParentOf(std::uint32_t index, BlockHash root, const std::optional<OwnScope>& own,
                                 BlockHash before);

// For hash tables in memory. Each process mixes in a random seed, because clients can search for prompts whose public
// hashes collide in a table.
struct BlockHashHasher {
  std::uint64_t seed = ProcessSeed();

  [[nodiscard]] std::size_t operator()(BlockHash hash) const noexcept { return Mix64(hash.low ^ seed); }

  // Constant within one process, different in the next.
  [[nodiscard]] static std::uint64_t ProcessSeed();
};

}  // namespace roost
