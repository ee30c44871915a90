// For tests of what happens when memory runs out.
#pragma once

#include <exception>
#include <new>

namespace roost::testing_support {

// What an allocation does that fails.
[[noreturn]] inline void FailAllocation() { std::rethrow_exception(std::make_exception_ptr(std::bad_alloc())); }

}  // namespace roost::testing_support
