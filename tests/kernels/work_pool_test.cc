// Helpers are held up on purpose: by a hook when they start, and by tasks that wait for other tasks.
#include "kernels/cpu/work_pool.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <fstream>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "common/base/rng.h"

namespace roost::kernels {
namespace {

// Does this thread of the process sleep in the kernel?
bool Sleeps(pid_t thread) {
  std::ifstream file(fmt::format("/proc/self/task/{}/stat", thread));
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');
  return name_end != std::string::npos && line.substr(name_end + 2, 1) == "S";
}

pid_t ThisThread() { return static_cast<pid_t>(::syscall(SYS_gettid)); }

void Await(const std::atomic<std::size_t>& count, std::size_t wanted) {
  while (count.load() < wanted) std::this_thread::yield();
}

TEST(WorkPoolTest, RunsEachTaskOnce) {
  for (const std::uint32_t threads : {1U, 2U, 3U, 8U}) {
    WorkPool pool(threads);
    for (const std::size_t count : {0U, 1U, 2U, 3U, 7U, 64U, 1000U}) {
      std::vector<int> runs(count);
      pool.Run(count, [&](std::size_t index, std::uint32_t) { ++runs[index]; });
      EXPECT_EQ(runs, std::vector<int>(count, 1)) << threads << " threads";
    }
  }
}

TEST(WorkPoolTest, GivesAThreadsIndexToNoOtherThread) {
  constexpr std::uint32_t kThreads = 5;
  WorkPool pool(kThreads);
  std::vector<pid_t> owners(kThreads);  // written without atomics: a second owner at once is a race
  for (int loop = 0; loop < 200; ++loop) {
    pool.Run(50, [&](std::size_t, std::uint32_t thread) {
      ASSERT_LT(thread, kThreads);
      if (owners[thread] == 0) owners[thread] = ThisThread();
      EXPECT_EQ(owners[thread], ThisThread());
    });
  }
  EXPECT_EQ(owners[0], ThisThread());
}

// More threads than cores: the kernel takes them off their cores anywhere, and they come back in later loops.
TEST(WorkPoolTest, RunsManyShortLoops) {
  constexpr std::size_t kTasks = 7;
  WorkPool pool(4);
  std::vector<std::size_t> seen(kTasks);
  for (std::size_t loop = 0; loop < 100'000; ++loop) {
    pool.Run(kTasks, [&](std::size_t index, std::uint32_t) { seen[index] += loop; });
  }
  constexpr std::size_t kSum = std::size_t{100'000} * 99'999 / 2;
  EXPECT_EQ(seen, std::vector<std::size_t>(kTasks, kSum));
}

TEST(WorkPoolTest, WaitsForNoThreadThatHasNoTask) {
  std::latch released(1);
  WorkPool pool(3, [&released] { released.wait(); });
  for (int loop = 0; loop < 100; ++loop) {
    std::vector<std::uint32_t> threads(20, 99);
    pool.Run(threads.size(), [&](std::size_t index, std::uint32_t thread) { threads[index] = thread; });
    EXPECT_EQ(threads, std::vector<std::uint32_t>(20, 0));
  }
  released.count_down();
}

TEST(WorkPoolTest, OthersDoWhatAHeldUpThreadCanNot) {
  constexpr std::size_t kTasks = 100;
  WorkPool pool(2);
  // The first task of each share in turn.
  for (const std::size_t blocking : {std::size_t{0}, kTasks / 2}) {
    std::atomic<std::size_t> done = 0;
    std::vector<int> runs(kTasks);
    pool.Run(kTasks, [&](std::size_t index, std::uint32_t) {
      if (index == blocking) Await(done, kTasks - 1);
      ++runs[index];
      ++done;
    });
    EXPECT_EQ(runs, std::vector<int>(kTasks, 1));
  }
}

TEST(WorkPoolTest, SleepersComeForALoop) {
  constexpr std::uint32_t kThreads = 4;
  std::vector<pid_t> helpers(kThreads);
  std::atomic<std::size_t> next = 1;
  std::atomic<std::size_t> started = 0;
  WorkPool pool(kThreads, [&] {
    helpers[next++] = ThisThread();
    ++started;
  });
  Await(started, kThreads - 1);
  for (int loop = 0; loop < 20; ++loop) {
    for (std::size_t i = 1; i < kThreads; ++i) {
      while (!Sleeps(helpers[i])) std::this_thread::yield();
    }
    // No task ends before all threads have one.
    std::barrier everybody(kThreads);
    pool.Run(kThreads, [&](std::size_t, std::uint32_t) { everybody.arrive_and_wait(); });
  }
}

TEST(WorkPoolTest, ACallerWhoWaitsLeavesItsCore) {
  const pid_t caller = ThisThread();
  WorkPool pool(2);
  for (int loop = 0; loop < 20; ++loop) {
    std::atomic<std::size_t> started = 0;
    pool.Run(2, [&](std::size_t, std::uint32_t thread) {
      ++started;
      Await(started, 2);
      if (thread == 0) return;
      while (!Sleeps(caller)) std::this_thread::yield();
    });
  }
}

TEST(WorkPoolTest, EndsWhileItIsIdle) {
  for (int i = 0; i < 200; ++i) {
    WorkPool pool(3);
    if (i % 2 == 0) pool.Run(3, [](std::size_t, std::uint32_t) {});
  }
}

class WorkPoolInUseTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kThreads = 4;

  void AwaitSleepingHelpers() {
    while (pool_.HelperIds().size() < kThreads - 1) std::this_thread::yield();
    for (const pid_t helper : pool_.HelperIds()) {
      while (!Sleeps(helper)) std::this_thread::yield();
    }
  }
  // Ends only if as many threads come, since each waits for the others.
  void RunWith(std::uint32_t count) {
    std::barrier everybody(count);
    pool_.Run(count, [&](std::size_t, std::uint32_t) { everybody.arrive_and_wait(); });
  }

  WorkPool pool_{kThreads};
};

TEST_F(WorkPoolInUseTest, ThreadsThatAreNotInUseSleepThroughLoops) {
  pool_.SetThreadsInUse(1);
  EXPECT_EQ(pool_.threads_in_use(), 1U);
  AwaitSleepingHelpers();
  for (int loop = 0; loop < 100; ++loop) {
    std::vector<std::uint32_t> threads(50, 99);
    pool_.Run(threads.size(), [&](std::size_t index, std::uint32_t thread) { threads[index] = thread; });
    EXPECT_EQ(threads, std::vector<std::uint32_t>(50, 0));
  }
}

TEST_F(WorkPoolInUseTest, ThreadsComeBackWhenTheyAreInUseAgain) {
  for (int turn = 0; turn < 20; ++turn) {
    for (const std::uint32_t count : {1U, 2U, 3U, kThreads}) {
      pool_.SetThreadsInUse(count);
      AwaitSleepingHelpers();
      RunWith(count);
    }
  }
}

TEST_F(WorkPoolInUseTest, RunsEachTaskOnceWhileTheNumberChanges) {
  constexpr std::size_t kTasks = 61;
  for (std::uint32_t loop = 0; loop < 20'000; ++loop) {
    pool_.SetThreadsInUse(1 + loop % kThreads);
    std::vector<int> runs(kTasks);
    pool_.Run(kTasks, [&](std::size_t index, std::uint32_t) { ++runs[index]; });
    ASSERT_EQ(runs, std::vector<int>(kTasks, 1)) << "loop " << loop;
  }
}

TEST_F(WorkPoolInUseTest, RunsEachTaskOnceWhileAnotherThreadChangesTheNumber) {
  constexpr std::size_t kTasks = 61;
  constexpr std::size_t kMinChanges = 1'000;
  std::atomic<bool> stopping = false;
  std::atomic<std::size_t> changes = 0;
  std::thread changer([&] {
    for (Rng rng(1); !stopping.load(); ++changes) {
      pool_.SetThreadsInUse(1 + static_cast<std::uint32_t>(rng.Below(kThreads)));
    }
  });
  for (std::size_t loop = 0; loop < 5'000 || changes.load() < kMinChanges; ++loop) {
    std::vector<int> runs(kTasks);
    pool_.Run(kTasks, [&](std::size_t index, std::uint32_t) { ++runs[index]; });
    EXPECT_EQ(runs, std::vector<int>(kTasks, 1)) << "loop " << loop;
  }
  stopping.store(true);
  changer.join();
}

TEST(WorkPoolTest, EndsWhileThreadsAreNotInUse) {
  for (int i = 0; i < 200; ++i) {
    WorkPool pool(3);
    if (i % 2 == 0) pool.Run(3, [](std::size_t, std::uint32_t) {});
    pool.SetThreadsInUse(1 + static_cast<std::uint32_t>(i) % 2);
  }
}

using WorkPoolDeathTest = testing::Test;

TEST(WorkPoolDeathTest, RefusesALoopInsideALoop) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto nest = [] {
    WorkPool pool(2);
    pool.Run(2, [&](std::size_t, std::uint32_t) { pool.Run(1, [](std::size_t, std::uint32_t) {}); });
  };
  EXPECT_DEATH(nest(), "a loop inside another one");
}

}  // namespace
}  // namespace roost::kernels
