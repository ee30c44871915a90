#include "common/base/termination.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <future>
#include <utility>

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

TEST(TerminationDeathTest, HangupReloadsAndIsNoEnd) {
  EXPECT_EXIT(
      {
        Termination termination(Termination::Hangup::kReloads);
        kill(getpid(), SIGHUP);  // during start-up: nothing to reload yet
        std::promise<void> reloaded;
        bool told = false;  // of the watching thread
        termination.OnHangup([&] {
          if (!std::exchange(told, true)) reloaded.set_value();
        });
        termination.BeginServing();
        kill(getpid(), SIGHUP);
        if (reloaded.get_future().wait_for(kPatience) != std::future_status::ready) std::_Exit(1);
        termination.OnHangup({});
        kill(getpid(), SIGHUP);
        kill(getpid(), SIGTERM);
        if (!termination.Wait(kPatience, 1)) std::_Exit(2);
        std::_Exit(termination.Wait(std::chrono::milliseconds(0), 2) ? 3 : 0);
      },
      testing::ExitedWithCode(0), "");
}

TEST(TerminationDeathTest, HangupEndsADaemonThatReloadsNothing) {
  EXPECT_EXIT(
      {
        Termination termination;
        termination.BeginServing();
        kill(getpid(), SIGHUP);
        pause();
      },
      testing::KilledBySignal(SIGHUP), "");
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
