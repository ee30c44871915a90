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
#include "common/base/rng.h"
#include "kernels/large_memory.h"
#include "tests/bench/bench.h"
#include "worker/model/synthetic.h"
#include "worker/model/transformer.h"

namespace roost::bench {
namespace {

using worker::Batch;
using worker::HfConfig;
using worker::Transformer;

constexpr std::uint32_t kBlockTokens = 16;
constexpr std::uint32_t kChunk = 512;

HfConfig DemoLike() {
  HfConfig config = *worker::SyntheticConfig("tiny");
  config.vocab_size = 2048;
  config.hidden_size = 192;
  config.intermediate_size = 576;
  config.layer_count = 6;
  config.query_head_count = 4;
  config.kv_head_count = 2;
  config.head_dim = 64;
  return config;
}

// A model with memory for one sequence of `positions`, and random tokens for it.
class Bench {
 public:
  Bench(const HfConfig& config, std::uint32_t positions, std::uint32_t threads) {
    const std::uint32_t block_count = (positions + kBlockTokens - 1) / kBlockTokens;
    auto backend = kernels::Backend::Open(kernels::CpuOps(), {.thread_count = threads}).value();
    const kernels::DType dtype = backend.ops().preferred_dtype(backend.device());
    step_bytes_ = StepBytes(config, positions, dtype);
    model_ = Transformer::Create(std::move(backend), config, worker::RandomWeights(1),
                                 {.block_tokens = kBlockTokens,
                                  .block_count = block_count,
                                  .max_context_tokens = config.max_positions,
                                  .compute_dtype = dtype})
                 .value();
    for (std::uint32_t i = 0; i < block_count; ++i) blocks_.emplace_back(i);
    Rng rng(1);
    for (std::uint32_t i = 0; i < positions; ++i) tokens_.push_back(static_cast<TokenId>(rng.Below(config.vocab_size)));
  }

  // Computes positions begin … end-1, in chunks; logits of the last.
  void Run(std::uint32_t begin, std::uint32_t end) {
    for (std::uint32_t at = begin; at < end; at += kChunk) {
      const std::uint32_t count = std::min(kChunk, end - at);
      batch_.Clear();
      batch_.tokens.assign(tokens_.begin() + at, tokens_.begin() + at + count);
      batch_.slices.push_back({blocks_, at, count, at + count == end ? 1U : 0U});
      const bool has_logits = !model_->Forward(batch_).empty();
      ROOST_CHECK(has_logits == (at + count == end));
    }
  }

  // The bytes of the weights, and of K and V, that the step of the last position reads.
  [[nodiscard]] std::size_t step_bytes() const { return step_bytes_; }

 private:
  static std::size_t StepBytes(const HfConfig& config, std::size_t positions, kernels::DType dtype) {
    const std::size_t kv_width = std::size_t{config.kv_head_count} * config.head_dim;
    const std::size_t q_width = std::size_t{config.query_head_count} * config.head_dim;
    const std::size_t layer =
        config.hidden_size * (2 * q_width + 2 * kv_width + 3 * std::size_t{config.intermediate_size});
    const std::size_t output = std::size_t{config.vocab_size} * config.hidden_size;
    return SizeOf(dtype) * (config.layer_count * (layer + 2 * positions * kv_width) + output);
  }

  std::unique_ptr<Transformer> model_;
  std::size_t step_bytes_ = 0;
  std::vector<BlockId> blocks_;
  std::vector<TokenId> tokens_;
  Batch batch_;
};

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
double DecodeOverReading(Bench& bench, std::uint32_t prompt, std::uint32_t threads) {
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
  Bench bench(config, prompt + 1, threads);
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
