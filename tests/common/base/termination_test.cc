#include "common/base/termination.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

namespace roost {
namespace {

constexpr std::chrono::seconds kPatience{20};

// Each test has its own process, because signals affect the whole process.
TEST(TerminationDeathTest, SignalDuringStartUpEndsTheProcess) {
  EXPECT_EXIT(
      {
        Termination termination;
        kill(getpid(), SIGTERM);
        pause();
      },
      testing::ExitedWithCode(128 + SIGTERM), "");
}

TEST(TerminationDeathTest, SignalsAreCountedWhileServing) {
  EXPECT_EXIT(
      {
        Termination termination;
        termination.BeginServing();
        if (termination.Wait(std::chrono::milliseconds(0), 1)) std::_Exit(1);
        kill(getpid(), SIGTERM);
        if (!termination.Wait(kPatience, 1)) std::_Exit(2);
        if (termination.Wait(std::chrono::milliseconds(0), 2)) std::_Exit(3);
        kill(getpid(), SIGINT);
        if (!termination.Wait(kPatience, 2)) std::_Exit(4);
        std::_Exit(0);
      },
      testing::ExitedWithCode(0), "");
}

TEST(TerminationDeathTest, EndsWithoutASignal) {
  EXPECT_EXIT(
      {
        { Termination termination; }
        std::_Exit(0);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace roost
