// Prefill and decode of the transformer, without engine or network: a shape like the demo model's, and qwen3-0.6b.
// Reading the weights limits a decode step of the second; a bare loop that reads as many bytes is measured for
// comparison.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "kernels/large_memory.h"
#include "tests/bench/bench.h"
#include "tests/bench/model_run.h"
#include "worker/model/synthetic.h"

namespace roost::bench {
namespace {

using worker::HfConfig;

// Memory that several threads read, each its own part, as fast as a loop can.
class BareLoop {
 public:
  BareLoop(std::size_t bytes, std::uint32_t threads)
      : words_(bytes / sizeof(std::uint64_t)),
        threads_(threads),
        memory_(static_cast<std::uint64_t*>(kernels::AllocateLarge(bytes))) {
    ROOST_CHECK(memory_ != nullptr);
    std::memset(memory_.get(), 1, words_ * sizeof(std::uint64_t));
  }

  void Run() {
    std::vector<std::thread> helpers;
    for (std::uint32_t thread = 1; thread < threads_; ++thread) helpers.emplace_back([this, thread] { Read(thread); });
    Read(0);
    for (std::thread& helper : helpers) helper.join();
  }

 private:
  void Read(std::size_t thread) {
    const std::size_t begin = words_ * thread / threads_;
    const std::size_t end = words_ * (thread + 1) / threads_;
    constexpr std::size_t kAheadWords = 64;  // 512 bytes, the best of several distances
    std::array<std::uint64_t, 8> sums{};     // a cache line at a time
    for (std::size_t i = begin; i + sums.size() <= end; i += sums.size()) {
      __builtin_prefetch(&memory_[i] + kAheadWords);
      for (std::size_t j = 0; j < sums.size(); ++j) sums[j] += memory_[i + j];
    }
    for (const std::uint64_t sum : sums) sum_.fetch_add(sum);
  }

  const std::size_t words_;
  const std::uint32_t threads_;
  kernels::LargeArray<std::uint64_t> memory_;
  std::atomic<std::uint64_t> sum_ = 0;  // so that the compiler keeps the loop
};

// The time of a decode step over that of reading its bytes. The two alternate, and the fastest of each counts, so other
// load on the machine affects both.
double DecodeOverReading(ModelRun& bench, std::uint32_t prompt, std::uint32_t threads) {
  constexpr int kTurns = 25;
  BareLoop loop(bench.step_bytes(), threads);
  const SteadyClock clock;
  double step = std::numeric_limits<double>::infinity();
  double read = step;
  for (int turn = 0; turn < kTurns; ++turn) {
    const Instant start = clock.Now();
    bench.Run(prompt, prompt + 1);
    const Instant between = clock.Now();
    loop.Run();
    step = std::min(step, ToSeconds(between - start));
    read = std::min(read, ToSeconds(clock.Now() - between));
  }
  return step / read;
}

enum class BoundBy : std::uint8_t { kCompute, kReading };

void BenchShape(Effort effort, const std::string& name, const HfConfig& config, std::uint32_t prompt,
                std::uint32_t threads, BoundBy bound) {
  ModelRun bench(config, prompt + 1, threads);
  const std::string suffix = name + "_" + std::to_string(threads) + "t";
  const double cold = MedianSeconds(effort, [&] { bench.Run(0, prompt); });
  // The same prompt with all full blocks cached: only the tail is computed.
  const double warm = MedianSeconds(effort, [&] { bench.Run((prompt - 1) / kBlockTokens * kBlockTokens, prompt); });
  const double decode = MedianSeconds(effort, [&] { bench.Run(prompt, prompt + 1); });
  Figure("model_prefill_" + suffix, prompt / cold, "tokens/s");
  Figure("model_warm_over_cold_" + suffix, warm / cold, "ratio");
  Figure("model_decode_step_" + suffix, decode * 1e3, "ms");
  if (bound == BoundBy::kCompute) return;
  Figure("model_decode_step_" + suffix + "_ratio", DecodeOverReading(bench, prompt, threads), "x");
}

}  // namespace

void BenchModel(Effort effort) {
  for (const std::uint32_t threads : {1U, 2U}) BenchShape(effort, "demo", DemoLike(), 1500, threads, BoundBy::kCompute);
  if (effort == Effort::kQuick) return;
  for (const std::uint32_t threads : {1U, 2U}) {
    BenchShape(effort, "qwen3_0_6b", *worker::SyntheticConfig("qwen3-0.6b"), 512, threads, BoundBy::kReading);
  }
}

}  // namespace roost::bench
