#include "worker/model/packed_arrays.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace roost::worker {
namespace {

TEST(PackedArraysTest, EachArrayIsWhereItsPlaceSaysAndAligned) {
  const kernels::Backend backend = kernels::Backend::Open(kernels::CpuOps(), {}).value();
  PackedArrays arrays(backend);
  for (std::size_t length = 1; length < 4000; length *= 3) {
    const std::vector<std::uint8_t> bytes(length, 7);
    const std::vector<std::uint64_t> numbers(length, 1234567890123);
    arrays.Clear();
    const auto first = arrays.Add(bytes);
    const auto second = arrays.Add(numbers);
    const auto empty = arrays.Add(std::vector<std::uint32_t>());
    const auto last = arrays.Add(bytes);
    ASSERT_TRUE(arrays.TryReserve(arrays.bytes()));
    arrays.Upload();
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), arrays.At(first)));
    EXPECT_TRUE(std::equal(numbers.begin(), numbers.end(), arrays.At(second)));
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), arrays.At(last)));
    EXPECT_EQ(static_cast<const void*>(arrays.At(empty)), static_cast<const void*>(arrays.At(last)));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arrays.At(last)) % 16, 0U);
  }
}

TEST(PackedArraysTest, MemoryThatWasReservedDoesNotMove) {
  const kernels::Backend backend = kernels::Backend::Open(kernels::CpuOps(), {}).value();
  PackedArrays arrays(backend);
  ASSERT_TRUE(arrays.TryReserve(std::size_t{1} << 16U));
  const std::uint8_t* begin = nullptr;
  for (std::size_t length = 1; length <= std::size_t{1} << 16U; length *= 2) {
    const std::vector<std::uint8_t> bytes(length, 7);
    arrays.Clear();
    const auto array = arrays.Add(bytes);
    EXPECT_EQ(arrays.bytes(), length);
    ASSERT_TRUE(arrays.TryReserve(arrays.bytes()));
    arrays.Upload();
    ASSERT_TRUE(std::equal(bytes.begin(), bytes.end(), arrays.At(array)));
    if (begin == nullptr) begin = arrays.At(array);
    EXPECT_EQ(arrays.At(array), begin);
  }
}

}  // namespace
}  // namespace roost::worker
