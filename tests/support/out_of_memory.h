// For tests that run out of memory.
#pragma once

#include <exception>
#include <new>

namespace roost::testing_support {

// Does what a failing allocation does.
[[noreturn]] inline void FailAllocation() { std::rethrow_exception(std::make_exception_ptr(std::bad_alloc())); }

}  // namespace roost::testing_support
