// The salt that a request to vLLM or SGLang carries, so that the engine's events tell which of our roots its blocks
// have:
//
//   ""                           the default root of the request's adapter, which requests of other clients have too
//   "roost:ROOT"                 another root
//   "roost:ROOT:FIRST:OWNROOT"   the same with an own scope (OwnScope) from block FIRST on
//
// Roots are 32 lowercase hexadecimal digits, FIRST is a decimal number from 1 on. The engine takes a salt into the hash
// of the first block, so requests share blocks in the engine only if their salts are equal. A prefix that tenants share
// in our own engine is therefore computed once per tenant there.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/prefix/block_hash.h"

namespace roost::worker::adapters {

struct SaltedRoots {
  BlockHash root;
  std::optional<OwnScope> own;

  bool operator==(const SaltedRoots&) const = default;
};

// `default_root` is the root of requests without tenant and salt for the same adapter.
[[nodiscard]] std::string SaltOf(BlockHash root, const std::optional<OwnScope>& own, BlockHash default_root);

// Nothing unless SaltOf could have written exactly this text (the empty one excepted).
[[nodiscard]] std::optional<SaltedRoots> ParseSalt(std::string_view text);

}  // namespace roost::worker::adapters
