// Counts what a program takes from the heap. allocation_count.cc replaces the global operator new of whatever links it,
// so it has no place under sanitizers, which bring their own.
#pragma once

#include <cstdint>

namespace roost::testing_support {

// Allocations since the start, of all threads.
[[nodiscard]] std::uint64_t AllocationCount();

}  // namespace roost::testing_support
