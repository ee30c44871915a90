#include "common/base/cpu_limit.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <string>
#include <thread>

#include "tests/common/base/fake_machine.h"

namespace roost {
namespace {

class CpuLimitTest : public FakeMachineTest {
 protected:
  [[nodiscard]] std::optional<double> Quota() const { return ReadCpuLimits(root_).quota; }
};

TEST_F(CpuLimitTest, WithoutFilesThereIsNoQuota) { EXPECT_EQ(Quota(), std::nullopt); }

TEST_F(CpuLimitTest, TheLeastQuotaOfACgroupAndThoseAboveItCounts) {
  Write("proc/self/cgroup", "0::/slice/service\n");
  Write("sys/fs/cgroup/slice/cpu.max", "400000 100000\n");
  Write("sys/fs/cgroup/slice/service/cpu.max", "max 100000\n");
  EXPECT_EQ(Quota(), 4.0);
  Write("sys/fs/cgroup/slice/service/cpu.max", "75000 50000\n");
  EXPECT_EQ(Quota(), 1.5);
}

TEST_F(CpuLimitTest, AContainersQuotaLiesAtTheMountWhateverItsPathOutside) {
  Write("proc/self/cgroup", "0::/kubepods/pod1/abc\n");
  Write("sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(Quota(), 2.0);
}

TEST_F(CpuLimitTest, VersionOneHasTwoFilesAndSaysNoQuotaWithMinusOne) {
  Write("proc/self/cgroup", "4:cpu,cpuacct:/docker/abc\n5:memory:/docker/abc\n");
  Write("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "-1\n");
  Write("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Quota(), std::nullopt);
  Write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "300000\n");
  Write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Quota(), 3.0);
}

TEST_F(CpuLimitTest, DamagedFilesAreNoQuota) {
  Write("proc/self/cgroup", "0::/\n");
  for (const char* text : {"", "max", "100000", "100000 0", "0 100000", "x y", "-5 100000"}) {
    Write("sys/fs/cgroup/cpu.max", text);
    EXPECT_EQ(Quota(), std::nullopt) << text;
  }
}

TEST(CpuLimitsTest, TheLeastCountsInWholeProcessors) {
  EXPECT_EQ(LeastOf({.quota = {}, .affinity = 8}), 8U);
  EXPECT_EQ(LeastOf({.quota = 2.0, .affinity = 8}), 2U);
  EXPECT_EQ(LeastOf({.quota = 3.9, .affinity = 8}), 3U);
  EXPECT_EQ(LeastOf({.quota = 0.5, .affinity = 8}), 1U);
  EXPECT_EQ(LeastOf({.quota = 1e12, .affinity = 2}), 2U);
  EXPECT_EQ(LeastOf({.quota = {}, .affinity = {}}), std::max(1U, std::thread::hardware_concurrency()));
}

TEST(CpuLimitsTest, AffinityIsThatOfTheThread) {
  cpu_set_t one;
  CPU_ZERO(&one);
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(ReadCpuLimits().affinity, 1U);
  EXPECT_EQ(UsableCpuCount(), 1U);
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
}

}  // namespace
}  // namespace roost
