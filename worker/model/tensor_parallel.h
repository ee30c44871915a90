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

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "worker/model/copy_engine.h"
#include "worker/model/model.h"
#include "worker/model/transformer.h"

namespace roost::worker {

// One thread for each rank of a group; the caller's thread is rank 0's.
class RankThreads {
 public:
  explicit RankThreads(std::uint32_t rank_count);
  ~RankThreads();
  RankThreads(const RankThreads&) = delete;
  RankThreads& operator=(const RankThreads&) = delete;

  // `watch` is called now and then while Run waits for other ranks; see watched_wait.h.
  void SetWatch(std::function<void()> watch) { watch_ = std::move(watch); }

  // Calls task(rank) on the thread of every rank, all at the same time, and returns when the last one is done. Call it
  // from one thread at a time, and not within a task.
  void Run(const std::function<void(std::uint32_t rank)>& task);
  // The same; returns the error of the lowest rank that has one. A task that fails must not leave another one waiting
  // for it.
  [[nodiscard]] Result<void> TryRun(const std::function<Result<void>(std::uint32_t rank)>& task);

 private:
  void Serve(std::uint32_t rank);

  std::mutex mutex_;
  std::condition_variable begun_;
  std::condition_variable done_;
  // Guarded by mutex_.
  const std::function<void(std::uint32_t)>* task_ = nullptr;  // null: the threads end
  std::uint64_t round_ = 0;
  std::size_t busy_ = 0;

  std::function<void()> watch_;
  std::vector<std::thread> threads_;  // of ranks 1, 2, …
};

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
  // The same on all ranks, but for the number of devices: blocks are equal up to rounding for any number of ranks.
  [[nodiscard]] kernels::Arithmetic arithmetic() const override { return ranks_.front()->arithmetic(); }
  void Compute(const Batch& batch, const Draws& draws) override;
  [[nodiscard]] bool MakeRoomFor(const DrawLists& lists) override;
  [[nodiscard]] std::unique_ptr<BlockReader> MakeBlockReader() const override;
  [[nodiscard]] FrameStaging* frame_staging() const override { return block_copies_.get(); }
  [[nodiscard]] std::span<const kernels::SampledToken> AwaitSampled() override;
  void AwaitFinished() override;
  [[nodiscard]] Scores AwaitedScores() const override { return ranks_.front()->AwaitedScores(); }
  [[nodiscard]] std::span<const float> Logits() override { return ranks_.front()->Logits(); }
  [[nodiscard]] std::vector<kernels::MemoryUse> DeviceMemory() override;
  // Rank 0's, which computes on the caller's thread.
  void SetPulse(std::function<void()> pulse) override { ranks_.front()->SetPulse(std::move(pulse)); }

 private:
  explicit TensorParallelModel(std::uint32_t rank_count) : threads_(rank_count), ranks_(rank_count) {}
  void ConnectCopies(const FrameSlab* slab);

  RankThreads threads_;
  std::vector<std::unique_ptr<Transformer>>
      ranks_;                                  // each used by its rank's thread, or by none while the caller's does
  std::unique_ptr<BlockCopies> block_copies_;  // of devices with memory of their own, where blocks travel
  std::uint64_t awaited_count_ = 0;            // batches
  std::uint64_t finished_count_ = 0;
};

}  // namespace roost::worker
