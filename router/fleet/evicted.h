// Matches an order to evict with a router's own memory, and with a worker's cache. Pure functions.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "common/prefix/block_hash.h"
#include "common/wire/messages.h"
#include "router/fleet/dispatcher.h"

namespace roost::router {

// Is the request one of the tenant, or does its prompt continue the one, or the block, that is named?
[[nodiscard]] bool IsNamed(const EvictOrder& order, const GenerateSpec& spec);

// May the blocks be named, whichever tenant owns them? All may be a tenant's.
[[nodiscard]] bool MayBeNamed(const EvictOrder& order, std::span<const BlockHash> chain);

// The message to a worker of this revision; nothing when the order does not have its prompt.
[[nodiscard]] std::optional<wire::Evict> MessageFor(const EvictOrder& order, std::string_view revision);

}  // namespace roost::router
