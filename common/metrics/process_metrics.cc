#include "common/metrics/process_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

namespace roost::metrics {
namespace {

// The time of the machine's boot, in Unix time. Read once: clocks that are set later must not move a process' start.
std::optional<double> BootUnixSeconds() {
  static const std::optional<double> boot = []() -> std::optional<double> {
    std::ifstream file("/proc/stat");
    std::string word;
    double seconds = 0;
    while (file >> word) {
      if (word == "btime" && file >> seconds) return seconds;
    }
    return std::nullopt;
  }();
  return boot;
}

// Without the descriptor that lists them.
double CountOpenFds() {
  std::error_code error;
  std::filesystem::directory_iterator entry("/proc/self/fd", error);
  double count = -1;
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) ++count;
  return count < 0 ? 0 : count;
}

}  // namespace

std::optional<ProcessUse> ReadProcessUse() {
  std::ifstream file("/proc/self/stat");
  const std::string line(std::istreambuf_iterator<char>(file), {});
  // The second field is the program's name in brackets; it may have brackets and blanks itself. The third is a letter.
  const std::size_t name_end = line.rfind(')');
  const std::optional<double> boot = BootUnixSeconds();
  if (name_end == std::string::npos || !boot) return std::nullopt;
  std::istringstream rest(line.substr(name_end + 1));
  std::string run_state;
  rest >> run_state;
  const std::vector<double> numbers(std::istream_iterator<double>(rest), {});
  constexpr std::size_t kFirst = 4;  // of proc(5)'s fields
  constexpr std::size_t kUserTime = 14;
  constexpr std::size_t kSystemTime = 15;
  constexpr std::size_t kThreads = 20;
  constexpr std::size_t kStart = 22;
  constexpr std::size_t kResident = 24;
  if (numbers.size() <= kResident - kFirst) return std::nullopt;
  const auto field = [&numbers](std::size_t number) { return numbers[number - kFirst]; };
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  rlimit limit{};
  (void)getrlimit(RLIMIT_NOFILE, &limit);
  return ProcessUse{.cpu_seconds = (field(kUserTime) + field(kSystemTime)) / ticks,
                    .start_unix_seconds = *boot + field(kStart) / ticks,
                    .resident_bytes = field(kResident) * static_cast<double>(sysconf(_SC_PAGESIZE)),
                    .thread_count = field(kThreads),
                    .open_fd_count = CountOpenFds(),
                    .max_fd_count = static_cast<double>(limit.rlim_cur)};
}

void ExportProcess(Registry& registry, const Build& build) {
  registry.Gauge(kBuildInfo, {std::string(build.version), std::string(build.revision)}).Set(1);
  prometheus::Counter& cpu = registry.Counter(kProcessCpuSeconds);
  prometheus::Gauge& resident = registry.Gauge(kProcessResidentMemory);
  prometheus::Gauge& open_fds = registry.Gauge(kProcessOpenFds);
  prometheus::Gauge& max_fds = registry.Gauge(kProcessMaxFds);
  prometheus::Gauge& threads = registry.Gauge(kProcessThreads);
  prometheus::Gauge& start = registry.Gauge(kProcessStartTime);
  registry.OnRead([&cpu, &resident, &open_fds, &max_fds, &threads, &start] {
    const std::optional<ProcessUse> use = ReadProcessUse();
    if (!use) return;
    cpu.Increment(use->cpu_seconds - cpu.Value());
    resident.Set(use->resident_bytes);
    open_fds.Set(use->open_fd_count);
    max_fds.Set(use->max_fd_count);
    threads.Set(use->thread_count);
    start.Set(use->start_unix_seconds);
  });
}

}  // namespace roost::metrics
