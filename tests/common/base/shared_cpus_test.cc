#include "common/base/cpu_limit.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/common/base/fake_machine.h"

namespace roost {
namespace {

class SharedCpusTest : public FakeMachineTest {
 protected:
  void SetUp() override {
    FakeMachineTest::SetUp();
    Write("proc/sys/kernel/random/boot_id", "a-boot\n");
  }
  [[nodiscard]] SharedCpus Shared() const { return ReadSharedCpus(root_); }
};

TEST_F(SharedCpusTest, NamesTheMachineUntilItStartsAgain) {
  const SharedCpus first = Shared();
  EXPECT_NE(first.machine, 0U);
  EXPECT_EQ(first.machine_cores, sysconf(_SC_NPROCESSORS_ONLN));
  EXPECT_EQ(Shared(), first);
  Write("proc/sys/kernel/random/boot_id", "another\n");
  EXPECT_NE(Shared().machine, first.machine);
}

TEST_F(SharedCpusTest, ProcessesUnderOneQuotaAreAGroup) {
  Write("proc/self/cgroup", "0::/service\n");
  Write("sys/fs/cgroup/service/cpu.max", "50000 100000\n");
  const SharedCpus first = Shared();
  EXPECT_NE(first.group, 0U);
  EXPECT_EQ(first.group_cores, 1U) << "rounded up";
  Write("proc/self/cgroup", "0::/other\n");
  Write("sys/fs/cgroup/other/cpu.max", "50000 100000\n");
  EXPECT_NE(Shared().group, first.group);
}

TEST_F(SharedCpusTest, AMachineThatCanNotBeNamedIsNotKnown) {
  Write("proc/sys/kernel/random/boot_id", "");
  EXPECT_EQ(Shared(), SharedCpus());
}

}  // namespace
}  // namespace roost
