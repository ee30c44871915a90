// Makes a model on several ranks for tests.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/worker/model/model_testing.h"
#include "worker/model/tensor_parallel.h"

namespace roost::worker {

inline Result<std::unique_ptr<TensorParallelModel>> MakeRanks(const HfConfig& config, std::uint32_t rank_count,
                                                              const TestModelOptions& options = {},
                                                              std::optional<double> kv_share = std::nullopt) {
  std::vector<kernels::Backend> backends;
  for (std::uint32_t rank = 0; rank < rank_count; ++rank) {
    const std::uint32_t ordinal = options.ops->has_host_memory ? 0 : rank;
    backends.push_back(
        kernels::Backend::Open(*options.ops, {.thread_count = options.thread_count, .ordinal = ordinal}).value());
  }
  const auto slab = PinFrames(backends.front(), config, options);
  return TensorParallelModel::Create(std::move(backends), config, RandomWeights(kTestSeed),
                                     {.block_tokens = options.block_tokens,
                                      .block_count = options.block_count,
                                      .kv_share = kv_share,
                                      .max_context_tokens = config.max_positions,
                                      .step_bounds = options.step_bounds,
                                      .compute_dtype = options.dtype,
                                      .slab = slab});
}

}  // namespace roost::worker
