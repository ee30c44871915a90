// The policies by name: the default (router/route) and those of other routers (baselines.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "common/base/result.h"
#include "router/route/policy.h"

namespace roost::router {

// The default first.
[[nodiscard]] std::span<const std::string_view> PolicyNames();

// For an unknown name, kInvalidArgument lists the known ones.
[[nodiscard]] Result<std::unique_ptr<Policy>> MakePolicy(std::string_view name, std::uint64_t seed);

}  // namespace roost::router
