#include "common/base/core_dumps.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <cstdlib>

namespace roost {
namespace {

// In a process of its own, because it can not be undone.
TEST(CoreDumpsTest, NeitherTheKernelNorAProgramGetsOne) {
  const auto is_forbidden = [] {
    rlimit limit{};
    return prctl(PR_GET_DUMPABLE) == 0 && getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_cur == 0 &&
           limit.rlim_max == 0;
  };
  EXPECT_FALSE(is_forbidden());
  EXPECT_EXIT(
      {
        ForbidCoreDumps();
        std::_Exit(is_forbidden() ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace roost
