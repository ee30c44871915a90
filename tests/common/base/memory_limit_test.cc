#include "common/base/memory_limit.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "tests/common/base/fake_machine.h"

namespace roost {
namespace {

class MemoryLimitTest : public FakeMachineTest {
 protected:
  [[nodiscard]] MemoryLimits Read() const { return ReadMemoryLimits(root_); }
};

TEST_F(MemoryLimitTest, NothingIsKnownWhereThereAreNoFiles) {
  EXPECT_EQ(Read(), MemoryLimits());
  EXPECT_EQ(LeastOf(Read()), std::numeric_limits<std::uint64_t>::max());
}

TEST_F(MemoryLimitTest, ReadsTheMachinesMemoryAndTheSoftLimitOfTheAddressSpace) {
  Write("proc/meminfo", "MemTotal:       24682416 kB\nMemFree:        1024 kB\n");
  Write("proc/self/limits",
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max data size             7                    unlimited            bytes     \n"
        "Max address space         8589934592           9589934592           bytes     \n");
  EXPECT_EQ(Read().physical, 24682416ULL * 1024);
  EXPECT_EQ(Read().address_space, 8589934592ULL);
  EXPECT_EQ(LeastOf(Read()), 8589934592ULL);
}

TEST_F(MemoryLimitTest, AnUnlimitedAddressSpaceIsNoLimit) {
  Write("proc/self/limits", "Max address space         unlimited            unlimited            bytes     \n");
  EXPECT_EQ(Read().address_space, std::nullopt);
}

TEST_F(MemoryLimitTest, TheLeastOfACgroupAndThoseAboveItCounts) {
  Write("proc/self/cgroup", "0::/slice/service\n");
  Write("sys/fs/cgroup/slice/memory.max", "2000\n");
  Write("sys/fs/cgroup/slice/service/memory.max", "max\n");
  EXPECT_EQ(Read().cgroup, 2000U);
  Write("sys/fs/cgroup/slice/service/memory.max", "1000\n");
  EXPECT_EQ(Read().cgroup, 1000U);
}

TEST_F(MemoryLimitTest, AContainersLimitLiesAtTheMountWhateverItsPathOutside) {
  Write("proc/self/cgroup", "4:cpu,memory:/docker/abc\n");
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "3000\n");
  EXPECT_EQ(Read().cgroup, 3000U);
}

TEST_F(MemoryLimitTest, VersionOneSaysNoLimitWithALargeNumber) {
  Write("proc/self/cgroup", "9:name=systemd:/\n4:memory:/\n0::/\n");
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(Read().cgroup, std::nullopt);
}

TEST_F(MemoryLimitTest, OtherControllersAndDamagedLinesCountForNothing) {
  Write("proc/self/cgroup", "nonsense\n:\n3:hugetlb:/a\n");
  Write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "5\n");
  Write("sys/fs/cgroup/a/memory.max", "5\n");
  EXPECT_EQ(Read().cgroup, std::nullopt);
}

TEST_F(MemoryLimitTest, WhatOthersUseIsNotAvailable) {
  Write("proc/meminfo", "MemTotal:       2000 kB\nMemAvailable:        1000 kB\n");
  EXPECT_EQ(AvailableMemoryBytes(root_), 1000U * 1024);
  Write("proc/self/cgroup", "0::/\n");
  Write("sys/fs/cgroup/memory.max", "4096\n");
  EXPECT_EQ(AvailableMemoryBytes(root_), 4096U);
}

TEST(MemoryLimitBytesTest, ThisProcessHasSome) {
  EXPECT_GT(MemoryLimitBytes(), 1U << 20U);
  EXPECT_LT(MemoryLimitBytes(), std::numeric_limits<std::uint64_t>::max());
}

}  // namespace
}  // namespace roost
