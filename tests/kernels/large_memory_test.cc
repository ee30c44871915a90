// Memory that asks for large pages.
#include "kernels/cpu/large_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

#include "kernels/ops.h"
#include "tests/kernels/kernels_testing.h"

namespace roost::kernels {
namespace {

std::uintptr_t AddressOf(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

// The system's flags for the mapping that holds `address`: two letters for each property.
std::optional<std::string> MappingFlags(std::uintptr_t address) {
  std::ifstream maps("/proc/self/smaps");
  bool is_inside = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) is_inside = begin <= address && address < end;
    if (is_inside && line.starts_with("VmFlags:")) return line + " ";
  }
  return std::nullopt;
}

TEST(LargeMemoryTest, WholeLargePagesAreAskedFor) {
  OpenDevice device(CpuOps(), 1);
  void* memory = CpuOps().allocate(device, 3 * kLargePageBytes + 100);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(AddressOf(memory) % kLargePageBytes, 0U);
  const std::optional<std::string> flags = MappingFlags(AddressOf(memory) + 2 * kLargePageBytes);
  const bool has_large_pages = std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled").good();
  if (flags && has_large_pages) {
    EXPECT_NE(flags->find(" hg "), std::string::npos) << *flags;
  }
  CpuOps().release(device, memory);
}

TEST(LargeMemoryTest, LittleMemoryStaysLittle) {
  const LargeArray<std::byte> memory(static_cast<std::byte*>(AllocateLarge(100)));
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(AddressOf(memory.get()) % 64, 0U);
}

TEST(LargeMemoryTest, TooMuchIsNull) { EXPECT_EQ(AllocateLarge(PTRDIFF_MAX), nullptr); }

}  // namespace
}  // namespace roost::kernels
