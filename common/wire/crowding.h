// Workers that compute with more threads than they have processors: then threads wait for each other while the kernel
// runs those of another worker.
#pragma once

#include <span>

#include "common/wire/messages.h"

namespace roost::wire {

// The crowding by the workers in `all` that share a quota or set of processors with `one`, or else by those on its
// machine. Zeros when these fit. `all` includes `one`. O(all).
[[nodiscard]] Crowding CrowdingOf(const ComputeShare& one, std::span<const ComputeShare> all);

}  // namespace roost::wire
