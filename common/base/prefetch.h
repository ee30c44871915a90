// Starts to read memory that will be wanted soon. An address that is not mapped does no harm.
#pragma once

namespace roost {

[[gnu::always_inline]] inline void Prefetch(const void* address) {
  __builtin_prefetch(address);
  // GCC takes a function that does nothing but prefetch for one without effect, and leaves out its calls.
  asm volatile("" : : "r"(address));
}

}  // namespace roost
