// Prefill and decode of the transformer, without engine or network: a shape like the demo model's, and qwen3-0.6b.
// Reading the weights limits a decode step of the second; the fastest of several ways to read as many bytes is measured
// for comparison, and named.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "tests/bench/bench.h"
#include "tests/bench/best_reader.h"
#include "tests/bench/model_run.h"
#include "worker/model/loading/synthetic.h"

namespace roost::bench {
namespace {

using worker::HfConfig;

// The time of a decode step over that of the best way to read its bytes. The two alternate, and the fastest of each
// counts, so other load on the machine affects both.
double DecodeOverReading(ModelRun& bench, std::uint32_t prompt, BestReader& reader) {
  constexpr int kTurns = 25;
  const SteadyClock clock;
  double step = std::numeric_limits<double>::infinity();
  double read = step;
  for (int turn = 0; turn < kTurns; ++turn) {
    const Instant start = clock.Now();
    bench.Run(prompt, prompt + 1);
    const Instant between = clock.Now();
    reader.Run();
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
  BestReader reader(bench.step_bytes(), threads);
  fmt::print("model_decode_step_{}_ratio: read with {}\n", suffix, reader.way().Name());
  Figure("model_decode_step_" + suffix + "_ratio", DecodeOverReading(bench, prompt, reader), "x");
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
