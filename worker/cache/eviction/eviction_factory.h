// Eviction policies by name, for configuration, replays and benchmarks.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "common/base/result.h"
#include "worker/cache/eviction/eviction.h"

namespace roost::worker {

inline constexpr std::array<std::string_view, 2> kEvictionPolicyNames = {"class-aware", "lru"};
inline constexpr std::string_view kDefaultEvictionPolicy = "class-aware";

// A policy for blocks 0 … block_count-1. Groups 1, 2, … have these shares of them, and group 0 the rest; at most
// kMaxEvictionGroups in all. `kept_count` is set if no more than that many blocks are ever idle at one time. An error
// for an unknown name lists the known names.
inline constexpr std::uint32_t kMaxEvictionGroups = 1000;
[[nodiscard]] Result<std::unique_ptr<EvictionPolicy>> MakeEvictionPolicy(std::string_view name,
                                                                         std::uint32_t block_count,
                                                                         std::span<const double> group_shares = {},
                                                                         std::optional<std::uint32_t> kept_count = {});

}  // namespace roost::worker
