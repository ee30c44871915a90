// Counts a program's heap allocations. allocation_count.cc replaces the global operator new of every program that links
// it, so it can not be used with sanitizers, which have their own.
#pragma once

#include <cstdint>

namespace roost::testing_support {

// Allocations since the start, of all threads.
[[nodiscard]] std::uint64_t AllocationCount();
// Bytes that are allocated now, by all threads, with those that the allocator adds.
[[nodiscard]] std::uint64_t AllocatedBytes();

}  // namespace roost::testing_support
