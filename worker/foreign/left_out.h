// Why blocks of a foreign engine are left out of the router's view.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace roost::worker::foreign {

enum class LeftOut : std::uint8_t {
  kRank,           // another data-parallel rank than the first that stored a block
  kGroup,          // another group of layers than the first of full attention
  kMedium,         // host memory, disk, or another machine
  kAttention,      // a sliding window, or layers that are no attention
  kBlockTokens,    // blocks of another size than the worker has announced
  kAdapter,        // a LoRA adapter
  kForeignSalt,    // a salt that SaltOf did not write
  kExtraKeys,      // the hash covers images, embeddings, or more than a salt
  kLookahead,      // the hash covers tokens behind the block
  kTokens,         // the tokens do not match the blocks one by one
  kUnknownParent,  // the block before was never stored, as far as is known
  kConflict,       // the engine gave this hash before, to another block
  kUnknownEvent,   // counts events, not blocks: of a kind that is not known
};

// For metrics.
inline constexpr std::array<std::string_view, 13> kLeftOutNames{
    "rank",       "group",     "medium", "attention",      "block_tokens", "adapter",      "foreign_salt",
    "extra_keys", "lookahead", "tokens", "unknown_parent", "conflict",     "unknown_event"};

// Stored blocks that were left out, by reason.
using LeftOutCounts = std::array<std::uint64_t, kLeftOutNames.size()>;

[[nodiscard]] constexpr std::size_t IndexOf(LeftOut reason) { return static_cast<std::size_t>(reason); }

}  // namespace roost::worker::foreign
