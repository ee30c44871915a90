#include "common/base/descriptors.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace roost {
namespace {

// In a child: a hard limit can not be raised again.
template <typename Check>
bool HoldsUnder(rlim_t soft, rlim_t hard, Check check) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{.rlim_cur = soft, .rlim_max = hard};
    _exit(setrlimit(RLIMIT_NOFILE, &limit) == 0 && check() ? 0 : 1);
  }
  int status = -1;
  return waitpid(child, &status, 0) == child && status == 0;
}

TEST(DescriptorsTest, SoftLimitIsRaisedToTheHardOne) {
  EXPECT_TRUE(HoldsUnder(100, 300, [] {
    const Result<std::size_t> raised = RaiseDescriptorLimit();
    return raised.ok() && *raised == 300 && DescriptorLimit() == 300;
  }));
}

TEST(DescriptorsTest, TooFewAreAnErrorThatSaysHowMany) {
  EXPECT_TRUE(HoldsUnder(20, 63, [] {
    const Result<std::size_t> raised = RaiseDescriptorLimit();
    return !raised.ok() && raised.error().ToString().find("63 open files are too few") != std::string::npos;
  }));
}

}  // namespace
}  // namespace roost
