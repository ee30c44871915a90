// The file descriptors that the process may open. Each connection takes one.
#pragma once

#include <cstddef>

#include "common/base/result.h"

namespace roost {

// Fewer do not suffice for a daemon's own sockets, timers and files.
inline constexpr std::size_t kLeastDescriptors = 64;

// Raises the soft limit to the hard one: the soft limit of 1,024 that processes get by default is for programs that
// call select(). Returns the limit; kInvalidArgument if it is below kLeastDescriptors. Call it once, at the start.
[[nodiscard]] Result<std::size_t> RaiseDescriptorLimit();

// The limit in force.
[[nodiscard]] std::size_t DescriptorLimit();

}  // namespace roost
