#include "tests/support/allocation_count.h"

#include <malloc.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

#include "common/base/check.h"

namespace {

std::atomic<std::uint64_t> allocation_count = 0;
std::atomic<std::uint64_t> allocated_bytes = 0;

std::uint64_t SizeOf(void* memory) { return malloc_usable_size(memory) + sizeof(std::size_t); }

void* Allocate(std::size_t size, std::size_t alignment) {
  ++allocation_count;
  void* memory = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  ROOST_CHECK(memory != nullptr);
  allocated_bytes += SizeOf(memory);
  return memory;
}

void Free(void* memory) {
  if (memory != nullptr) allocated_bytes -= SizeOf(memory);
  std::free(memory);
}

}  // namespace

// The other forms call these.
void* operator new(std::size_t size) { return Allocate(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return Allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { Free(memory); }
void operator delete(void* memory, std::size_t /*size*/) noexcept { Free(memory); }
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept { Free(memory); }
void operator delete(void* memory, std::size_t /*size*/, std::align_val_t /*alignment*/) noexcept { Free(memory); }

namespace roost::testing_support {

std::uint64_t AllocationCount() { return allocation_count; }
std::uint64_t AllocatedBytes() { return allocated_bytes; }

}  // namespace roost::testing_support
