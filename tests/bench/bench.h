// The benchmarks behind ./tests/bench.sh: each prints figures, one line per figure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <string_view>
#include <vector>

#include "common/base/clock.h"

namespace roost::bench {

inline constexpr std::uint32_t kBlockTokens = 16;  // the workers\' default

// Prints "figure <name> <value> <unit>".
void Figure(std::string_view name, double value, std::string_view unit);

// kQuick runs each benchmark once with small sizes, so that it keeps working; kFull measures.
enum class Effort { kQuick, kFull };

// Median seconds of one call of `work`, after a first call that does not count.
template <typename Work>
double MedianSeconds(Effort effort, Work&& work) {
  const SteadyClock clock;
  const std::size_t runs = effort == Effort::kQuick ? 1 : 7;
  if (effort == Effort::kFull) work();
  std::vector<double> seconds;
  for (std::size_t i = 0; i < runs; ++i) {
    const Instant start = clock.Now();
    work();
    seconds.push_back(ToSeconds(clock.Now() - start));
  }
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(runs / 2), seconds.end());
  return seconds[runs / 2];
}

// Processor time of the calling thread.
inline double ThreadSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// The benchmarks, each in its own file.
void BenchAttention(Effort effort);
void BenchAttentionPlan(Effort effort);
void BenchBlockHash(Effort effort);
void BenchCache(Effort effort);
void BenchDecide(Effort effort);
void BenchDisk(Effort effort);
void BenchDiskStart(Effort effort);
void BenchDiskStep(Effort effort);
void BenchEngine(Effort effort);
void BenchEngineHost(Effort effort);
void BenchEviction(Effort effort);
void BenchGrammar(Effort effort);
void BenchHttpTls(Effort effort);
void BenchIndex(Effort effort);
void BenchLink(Effort effort);
void BenchMetrics(Effort effort);
void BenchModel(Effort effort);
void BenchPromptMemo(Effort effort);
void BenchRegex(Effort effort);
void BenchRelay(Effort effort);
void BenchReport(Effort effort);
void BenchSample(Effort effort);
void BenchScheduler(Effort effort);
void BenchSeed(Effort effort);
void BenchShortSteps(Effort effort);
void BenchSnapshot(Effort effort);
void BenchSubmit(Effort effort);
void BenchText(Effort effort);
void BenchTransfer(Effort effort);
// A part of it; `bytes_per_second` from pool to pool.
void BenchRequestPull(Effort effort, double bytes_per_second);
void BenchWeights(Effort effort);

}  // namespace roost::bench
