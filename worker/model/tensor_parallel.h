// One model on several devices. Each rank is a Transformer with its shard of the weights and of every KV block, and a
// thread of its own. All ranks compute the same batches. Rank 0, on the caller's thread, has the logits and samples; it
// tells the others the drawn tokens if the next batch is fed with them.
//
//   Compute ─┬─ rank 0 (caller) ── Transformer on device 0 ── logits ── tokens
//            ├─ rank 1 (thread) ── Transformer on device 1 ──┘│        │ broadcast, if they are fed
//            └─ …                       all_reduce, gather_columns ────┘
//
// Blocks have the same ids on all ranks. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "worker/model/model.h"
#include "worker/model/rank_threads.h"
#include "worker/model/transformer.h"

namespace roost::worker {

class TensorParallelModel final : public Model {
 public:
  // Reads all weights; each rank reads its part at the same time. Rank r computes on backends[r]; all have the same op
  // table. With a share of the free memory (options.kv_share) the device with the least decides the number of blocks.
  // An error names tensor_parallel if the model can not be split this way or the devices can not be connected.
  [[nodiscard]] static Result<std::unique_ptr<TensorParallelModel>> Create(std::vector<kernels::Backend> backends,
                                                                           const HfConfig& config,
                                                                           const WeightSource& source,
                                                                           const TransformerOptions& options);
  ~TensorParallelModel() override;

  [[nodiscard]] const ModelShape& shape() const override { return ranks_.front()->shape(); }
  [[nodiscard]] std::uint32_t block_tokens() const override { return ranks_.front()->block_tokens(); }
  [[nodiscard]] std::uint32_t block_count() const override;
  void Compute(const Batch& batch, const Draws& draws) override;
  [[nodiscard]] std::span<const kernels::SampledToken> AwaitSampled() override {
    return ranks_.front()->AwaitSampled();
  }
  [[nodiscard]] Scores AwaitedScores() const override { return ranks_.front()->AwaitedScores(); }
  [[nodiscard]] std::span<const float> Logits() override { return ranks_.front()->Logits(); }
  [[nodiscard]] std::vector<kernels::MemoryUse> DeviceMemory() override;
  // Rank 0's, which computes on the caller's thread.
  void SetPulse(std::function<void()> pulse) override { ranks_.front()->SetPulse(std::move(pulse)); }

 private:
  explicit TensorParallelModel(std::uint32_t rank_count) : threads_(rank_count), ranks_(rank_count) {}

  RankThreads threads_;
  std::vector<std::unique_ptr<Transformer>> ranks_;  // each used by its rank's thread only
};

}  // namespace roost::worker
