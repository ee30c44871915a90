#include "common/base/thread_times.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <thread>

#include "tests/common/base/fake_machine.h"

namespace roost {
namespace {

constexpr pid_t kThread = 17;

class ThreadTimesTest : public FakeMachineTest {
 protected:
  [[nodiscard]] std::optional<ThreadTimes> Of(const std::string& text) const {
    Write("proc/self/task/17/schedstat", text);
    return ReadThreadTimes(kThread, root_);
  }
};

TEST_F(ThreadTimesTest, AreTheFirstTwoNumbers) {
  EXPECT_EQ(Of("927399 414940 7\n"), (ThreadTimes{Duration(927'399), Duration(414'940)}));
}

TEST_F(ThreadTimesTest, AThreadThatNeverWaitedHasTimes) {
  EXPECT_EQ(Of("927399 0 7\n"), (ThreadTimes{Duration(927'399), Duration(0)}));
}

TEST_F(ThreadTimesTest, AreUnknownWhereTheKernelDoesNotCount) {
  EXPECT_EQ(ReadThreadTimes(kThread, root_), std::nullopt);
  for (const char* text : {"", "0 0 0\n", "12\n", "x y z\n", "-1 5 1\n", "5 -1 1\n"}) {
    EXPECT_EQ(Of(text), std::nullopt) << text;
  }
}

TEST(ThisThreadTest, ItsTimeGrowsWhileItComputes) {
  const std::optional<ThreadTimes> before = ReadThreadTimes(ThisThreadId());
  if (!before) GTEST_SKIP() << "this kernel does not count";
  std::optional<ThreadTimes> after = before;
  while (after->ran == before->ran) {
    after = ReadThreadTimes(ThisThreadId());
    ASSERT_TRUE(after.has_value());
  }
  EXPECT_GT(after->ran, before->ran);
}

TEST(ThisThreadTest, EachThreadHasItsOwnNumber) {
  pid_t other = 0;
  std::thread([&other] { other = ThisThreadId(); }).join();
  EXPECT_NE(other, ThisThreadId());
}

}  // namespace
}  // namespace roost
