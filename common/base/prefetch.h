// Starts to load memory that will be read soon. An unmapped address does no harm.
#pragma once

namespace roost {

[[gnu::always_inline]] inline void Prefetch(const void* address) {
  __builtin_prefetch(address);
  // Without this line, GCC takes a function that only prefetches for one without effect, and drops its calls.
  asm volatile("" : : "r"(address));
}

}  // namespace roost
