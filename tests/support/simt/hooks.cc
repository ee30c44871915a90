// The hooks that compilers call before each access to memory in code built with -fsanitize=thread. The kernels and
// their tests are built so, but linked with these hooks in place of ThreadSanitizer's run time: they pass the accesses
// of a running block on to its Races. The Linux kernel's KCSAN uses the same hooks.
#include <cstddef>
#include <cstdint>

#include "tests/support/simt/block.h"

namespace {

using roost::simt::Access;
using roost::simt::Block;

}  // namespace

#define ROOST_ACCESS_HOOKS(bytes)                                                                       \
  void __tsan_read##bytes(void* address) { Block::NotePlain(address, bytes, Access::kRead); }           \
  void __tsan_write##bytes(void* address) { Block::NotePlain(address, bytes, Access::kWrite); }         \
  void __tsan_unaligned_read##bytes(void* address) { Block::NotePlain(address, bytes, Access::kRead); } \
  void __tsan_unaligned_write##bytes(void* address) { Block::NotePlain(address, bytes, Access::kWrite); }

extern "C" {
ROOST_ACCESS_HOOKS(1)
ROOST_ACCESS_HOOKS(2)
ROOST_ACCESS_HOOKS(4)
ROOST_ACCESS_HOOKS(8)
ROOST_ACCESS_HOOKS(16)
void __tsan_read_range(void* address, std::size_t bytes) { Block::NotePlain(address, bytes, Access::kRead); }
void __tsan_write_range(void* address, std::size_t bytes) { Block::NotePlain(address, bytes, Access::kWrite); }
// The host code of tests has shared pointers, whose counts must stay atomic.
std::uint32_t __tsan_atomic32_fetch_add(volatile std::uint32_t* count, std::uint32_t value, int /*order*/) {
  return __atomic_fetch_add(count, value, __ATOMIC_SEQ_CST);
}
std::uint32_t __tsan_atomic32_fetch_sub(volatile std::uint32_t* count, std::uint32_t value, int /*order*/) {
  return __atomic_fetch_sub(count, value, __ATOMIC_SEQ_CST);
}
// Not needed here.
void __tsan_init() {}
void __tsan_func_entry(void* /*caller*/) {}
void __tsan_func_exit() {}
void __tsan_vptr_read(void** /*address*/) {}
void __tsan_vptr_update(void** /*address*/, void* /*value*/) {}
}
