// A model of random weights on the CPU, without engine or network: what its benchmarks run.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "kernels/ops.h"
#include "tests/bench/bench.h"
#include "worker/model/loading/synthetic.h"
#include "worker/model/transformer.h"

namespace roost::bench {

inline constexpr std::uint32_t kChunk = 512;

inline worker::HfConfig DemoLike() {
  worker::HfConfig config = *worker::SyntheticConfig("tiny");
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
class ModelRun {
 public:
  // `on_threads` as in DeviceOptions.
  ModelRun(const worker::HfConfig& config, std::uint32_t positions, std::uint32_t threads,
           std::function<void(std::uint32_t)> on_threads = {}) {
    const std::uint32_t block_count = (positions + kBlockTokens - 1) / kBlockTokens;
    auto backend =
        kernels::Backend::Open(kernels::CpuOps(), {.thread_count = threads, .on_threads = std::move(on_threads)})
            .value();
    const kernels::DType dtype = backend.ops().preferred_dtype(backend.device());
    step_bytes_ = StepBytes(config, positions, dtype);
    model_ = worker::Transformer::Create(std::move(backend), config, worker::RandomWeights(1),
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
  static std::size_t StepBytes(const worker::HfConfig& config, std::size_t positions, kernels::DType dtype) {
    const std::size_t kv_width = std::size_t{config.kv_head_count} * config.head_dim;
    const std::size_t q_width = std::size_t{config.query_head_count} * config.head_dim;
    const std::size_t layer =
        config.hidden_size * (2 * q_width + 2 * kv_width + 3 * std::size_t{config.intermediate_size});
    const std::size_t output = std::size_t{config.vocab_size} * config.hidden_size;
    return SizeOf(dtype) * (config.layer_count * (layer + 2 * positions * kv_width) + output);
  }

  std::unique_ptr<worker::Transformer> model_;
  std::size_t step_bytes_ = 0;
  std::vector<BlockId> blocks_;
  std::vector<TokenId> tokens_;
  worker::Batch batch_;
};

}  // namespace roost::bench
