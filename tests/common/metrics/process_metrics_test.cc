#include "common/metrics/process_metrics.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace roost::metrics {
namespace {

using testing::HasSubstr;
using testing::Not;

ProcessUse Use() {
  const std::optional<ProcessUse> use = ReadProcessUse();
  EXPECT_TRUE(use.has_value());
  return use.value_or(ProcessUse());
}

double UnixSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

TEST(ProcessMetricsTest, CountsDescriptorsAndThreads) {
  const ProcessUse before = Use();
  std::array<int, 3> files{};
  for (int& file : files) file = open("/dev/null", O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(Use().open_fd_count, before.open_fd_count + 3);
  for (const int file : files) close(file);
  EXPECT_EQ(Use().open_fd_count, before.open_fd_count);
  EXPECT_GT(before.max_fd_count, before.open_fd_count);
  double with_thread = 0;
  std::thread([&with_thread] { with_thread = Use().thread_count; }).join();
  EXPECT_EQ(with_thread, before.thread_count + 1);
}

TEST(ProcessMetricsTest, MemoryGrowsWithWhatIsUsed) {
  constexpr std::size_t kBytes = std::size_t{64} << 20U;
  const ProcessUse before = Use();
  const std::vector<char> memory(kBytes, 'x');
  const ProcessUse after = Use();
  EXPECT_GE(after.resident_bytes, before.resident_bytes + 0.9 * kBytes);
  EXPECT_EQ(memory.back(), 'x');
}

TEST(ProcessMetricsTest, ProcessorTimeGrowsAndTheStartIsInThePast) {
  const ProcessUse before = Use();
  std::uint64_t sum = 1;
  while (Use().cpu_seconds < before.cpu_seconds + 0.02) {
    for (int i = 0; i < 100000; ++i) sum = sum * 31 + static_cast<std::uint64_t>(i);
  }
  EXPECT_NE(sum, 0U);
  EXPECT_LE(before.start_unix_seconds, UnixSeconds() + 1);
  EXPECT_GT(before.start_unix_seconds, UnixSeconds() - 3600);
}

TEST(ProcessMetricsTest, AreInTheRegistryWhenItIsRead) {
  Registry registry(std::vector<Registry::ConstantLabel>{{"worker", "a"}});
  ExportProcess(registry, {.version = "1.2.3", .revision = "abc"});
  const std::string text = registry.Text();
  EXPECT_THAT(text, HasSubstr("roost_build_info{worker=\"a\",revision=\"abc\",version=\"1.2.3\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\nprocess_cpu_seconds_total{worker=\"a\"} "));
  for (const char* name : {"resident_memory_bytes", "open_fds", "max_fds", "threads", "start_time_seconds"}) {
    const std::string series = "\nprocess_" + std::string(name) + "{worker=\"a\"} ";
    EXPECT_THAT(text, HasSubstr(series));
    EXPECT_THAT(text, Not(HasSubstr(series + "0\n")));
  }
}

}  // namespace
}  // namespace roost::metrics
