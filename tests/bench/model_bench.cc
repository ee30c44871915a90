// Prefill and decode of the transformer, without engine or network: a shape like the demo model's, and qwen3-0.6b.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/rng.h"
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

// A model with room for one sequence of `positions`, and that sequence's random tokens.
class Bench {
 public:
  Bench(const HfConfig& config, std::uint32_t positions, std::uint32_t threads) {
    const std::uint32_t block_count = (positions + kBlockTokens - 1) / kBlockTokens;
    auto backend = kernels::Backend::Open(kernels::CpuOps(), {.thread_count = threads}).value();
    const kernels::DType dtype = backend.ops().preferred_dtype(backend.device());
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
      batch_.slices.push_back({blocks_, at, count, at + count == end});
      const bool has_logits = !model_->Forward(batch_).empty();
      ROOST_CHECK(has_logits == (at + count == end));
    }
  }

 private:
  std::unique_ptr<Transformer> model_;
  std::vector<BlockId> blocks_;
  std::vector<TokenId> tokens_;
  Batch batch_;
};

void BenchShape(Effort effort, const std::string& name, const HfConfig& config, std::uint32_t prompt,
                std::uint32_t threads) {
  Bench bench(config, prompt + 1, threads);
  const std::string suffix = name + "_" + std::to_string(threads) + "t";
  const double cold = MedianSeconds(effort, [&] { bench.Run(0, prompt); });
  // The same prompt with all full blocks cached: the tail is computed.
  const double warm = MedianSeconds(effort, [&] { bench.Run((prompt - 1) / kBlockTokens * kBlockTokens, prompt); });
  const double decode = MedianSeconds(effort, [&] { bench.Run(prompt, prompt + 1); });
  Figure("model_prefill_" + suffix, prompt / cold, "tokens/s");
  Figure("model_warm_over_cold_" + suffix, warm / cold, "ratio");
  Figure("model_decode_step_" + suffix, decode * 1e3, "ms");
}

}  // namespace

void BenchModel(Effort effort) {
  for (const std::uint32_t threads : {1U, 2U}) BenchShape(effort, "demo", DemoLike(), 1500, threads);
  if (effort == Effort::kQuick) return;
  for (const std::uint32_t threads : {1U, 2U}) {
    BenchShape(effort, "qwen3_0_6b", *worker::SyntheticConfig("qwen3-0.6b"), 512, threads);
  }
}

}  // namespace roost::bench
