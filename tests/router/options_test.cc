#include "router/options.h"

#include <gtest/gtest.h>

#include "common/wire/codec.h"

namespace roost::router {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30U;

TEST(RouterOptionsTest, MemoryIsAQuarterOfThatOfTheMachineEach) {
  const RouterOptions options = DefaultsFor({.memory_bytes = 2 * kGiB, .processor_count = 1});
  EXPECT_EQ(options.input_memory_bytes, kGiB / 2);
  EXPECT_EQ(options.index_memory_bytes, kGiB / 2);
  EXPECT_EQ(options.text_threads, 2U);
}

TEST(RouterOptionsTest, MemoryIsBoundedOnLargeMachines) {
  const RouterOptions options = DefaultsFor({.memory_bytes = 1024 * kGiB, .processor_count = 128});
  EXPECT_EQ(options.input_memory_bytes, 2 * kGiB);
  EXPECT_EQ(options.index_memory_bytes, kGiB);
  EXPECT_EQ(options.text_threads, 4U);
}

TEST(RouterOptionsTest, WorkersHaveAPartOfTheInputMemoryThatTakesTheLargestFrame) {
  EXPECT_EQ(SharesOf(2 * kGiB).clients, 7 * kGiB / 4);
  EXPECT_EQ(SharesOf(2 * kGiB).workers, kGiB / 4);
  EXPECT_EQ(SharesOf(kGiB / 16).workers, wire::WireLimits::kMaxFrameBytes);
}

TEST(RouterOptionsTest, MemoryBeyondTheLimitNamesBothFlags) {
  const Machine machine{.memory_bytes = 2 * kGiB, .processor_count = 2};
  RouterOptions options = DefaultsFor(machine);
  EXPECT_TRUE(CheckMemory(options, machine).ok());
  options.input_memory_bytes = 2 * kGiB - options.index_memory_bytes + 1;
  const Result<void> checked = CheckMemory(options, machine);
  ASSERT_FALSE(checked.ok());
  EXPECT_EQ(checked.error().field, "input-memory-bytes");
  EXPECT_NE(checked.error().message.find("index-memory-bytes"), std::string::npos);
  options.index_memory_bytes = 3 * kGiB;
  EXPECT_FALSE(CheckMemory(options, machine).ok());
}

}  // namespace
}  // namespace roost::router
