// The decoder-only transformer behind Model, through the op table of a backend. One layer:
//
//   x = norm(h)              q, k, v = x·Wqkv + b      rotate q, k; k, v → cache      a = attention(q, cache)
//   h += a·Wo                x = norm(h)               g, u = x·Wgate_up              h += (silu(g)·u)·Wdown
//
// h and sums are f32; inputs of products and the cache have the compute dtype; results of products have the device's
// activation dtype. Not thread-safe.
//
// If the worker may fill the device's memory (see memory_use in ops.h), everything that steps within the engine's
// bounds need is reserved at load, and the memory of recordings is measured, before the KV pool takes its share of the
// rest. A larger step takes more memory, which waits for the device and moves the memory of recorded ops; if none is
// left, the device fails. MakeRoomFor tells beforehand whether there is memory for long lists of draws.
//
// On such devices the model also runs its products, a step and the recordings of decodes at load, each rank by itself.
// So everything that a device loads on first use is loaded before the first request, and no rank waits for it while
// others wait in a collective op.
//
// It may be one of several ranks that compute a model together, each with its heads and its part of the inner layer;
// see shard.h. Then embeddings, a·Wo and (silu(g)·u)·Wdown are summed over the ranks, and rank 0 gathers the logits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/result.h"
#include "kernels/device_memory.h"
#include "kernels/kv_layout.h"
#include "kernels/ops.h"
#include "worker/model/batch_plan.h"
#include "worker/model/block_part.h"
#include "worker/model/copy_engine.h"
#include "worker/model/loading/hf_config.h"
#include "worker/model/loading/shard.h"
#include "worker/model/loading/weights.h"
#include "worker/model/model.h"
#include "worker/model/packed_arrays.h"
#include "worker/model/step_recorder.h"
#include "worker/model/step_size.h"
#include "worker/model/transformer_weights.h"

namespace roost::worker {

// The device memory that a step needs: inputs from the host, activations, logits, draws. It is reserved when the model
// is loaded, for the largest step within the engine's bounds, and grows if a step is larger. Growing waits for the
// device and moves the memory that recorded ops use.
//
// Not thread-safe.

// The width of the rows of each buffer, in bytes; 0: this rank does not have the buffer.
struct StepWidths {
  std::size_t angles = 0;  // cos and sin, each
  std::size_t hidden = 0;
  std::size_t delta = 0;
  std::size_t normed = 0;
  std::size_t qkv = 0;
  std::size_t q = 0;
  std::size_t attended = 0;
  std::size_t gate_up = 0;
  std::size_t activated = 0;
  std::size_t partial = 0;
  std::size_t logits = 0;
  std::size_t logits_part = 0;
  std::size_t arriving = 0;
  std::size_t counts = 0;
  std::size_t mask = 0;
};

// The logits that a rank has: its own part, or all of them, alone or gathered from the other ranks.
struct LogitsSource {
  bool is_first_rank = true;
  bool has_communicator = false;
  std::uint32_t vocabulary_part = 0;  // tokens of this rank
};

// For a rank's `config` (see ConfigOf), with products that take `input` and give `result`.
[[nodiscard]] StepWidths StepWidthsOf(const HfConfig& config, const LogitsSource& logits, kernels::DType input,
                                      kernels::DType result);

class StepMemory {
 public:
  StepMemory(const kernels::Backend& backend, const StepWidths& widths);

  // Reserves memory for what draws bring back, and for every step up to this size. False when the device has too
  // little.
  [[nodiscard]] bool TryReserveAtLoad(const StepSize& largest);
  // Reserves memory for this step. It grows in large pieces, so that it seldom waits for the device; if no memory is
  // left, the device fails.
  void Reserve(const StepSize& step);
  // Makes room for the inputs of a later step, which reserves them. False when no memory is left; the room for other
  // steps stays.
  [[nodiscard]] bool TryGrowInputs(std::size_t bytes);

  [[nodiscard]] const StepSize& reserved() const { return reserved_; }
  // A different count means that memory has moved. All ranks of a model grow at the same steps.
  [[nodiscard]] std::uint64_t growth_count() const { return growth_count_; }

  // [rows] is the number of the step's tokens, [wanted] the number of rows of logits.
  PackedArrays inputs;              // see Transformer::StepInputs
  PackedArrays masks;               // [adjusted draws][MaskWords(vocab_size)] or less, on rank 0
  kernels::DeviceBuffer cos, sin;   // [rows][head_dim/2]
  kernels::DeviceBuffer hidden;     // [rows][hidden_size] f32
  kernels::DeviceBuffer delta;      // [rows][hidden_size] in the activation dtype
  kernels::DeviceBuffer normed;     // [rows][hidden_size] in the compute dtype
  kernels::DeviceBuffer qkv, q;     // in the activation dtype
  kernels::DeviceBuffer attended;   // [rows][query heads · head_dim] in the compute dtype
  kernels::DeviceBuffer gate_up;    // [rows][2 · intermediate_size] in the activation dtype
  kernels::DeviceBuffer activated;  // [rows][intermediate_size] in the compute dtype
  kernels::DeviceBuffer partials;
  kernels::DeviceBuffer logits;       // [wanted][vocab_size] f32, on rank 0
  kernels::DeviceBuffer logits_part;  // [wanted][vocabulary of this rank] f32, empty with one rank
  kernels::DeviceBuffer arriving;     // [wanted][vocab_size] f32, on rank 0 of several
  kernels::DeviceBuffer sampled;      // [draws], the latest batch's; never grows
  kernels::DeviceBuffer adjusted;     // [adjusted draws][vocab_size] f32, on rank 0
  kernels::DeviceBuffer counts;       // [outputs with penalties][vocab_size] TokenCount, on rank 0; growing keeps them

 private:
  [[nodiscard]] bool TryReserve(const StepSize& step);
  [[nodiscard]] bool TryReserveCounts(std::size_t row_count);

  const kernels::Backend& backend_;
  const StepWidths widths_;
  StepSize reserved_;
  std::size_t counts_row_count_ = 0;
  std::uint64_t growth_count_ = 0;
};

// The batches whose draws are being copied back from the device: how many tokens each of them drew and scored, in the
// order in which the batches began. All results of a batch come in one copy:
//   SampledToken [draws]   ScoredToken [scored]   TopToken [top]      8 bytes each
//
// Not thread-safe.

// The number of results of each kind that a batch brings back.
struct DrawCounts {
  std::size_t sampled = 0;
  std::size_t scored = 0;
  std::size_t top = 0;

  static constexpr std::size_t kBytesOfEach = 8;
  [[nodiscard]] std::size_t bytes() const { return (sampled + scored + top) * kBytesOfEach; }
};
static_assert(sizeof(kernels::SampledToken) == DrawCounts::kBytesOfEach &&
              sizeof(kernels::ScoredToken) == DrawCounts::kBytesOfEach &&
              sizeof(kernels::TopToken) == DrawCounts::kBytesOfEach);

[[nodiscard]] inline DrawCounts CountsOf(const Draws& draws) {
  return {.sampled = draws.rows.size(), .scored = draws.scored.size(), .top = draws.top_count};
}

// The place of the scores of `counts` on the device: behind the drawn tokens at `sampled`.
[[nodiscard]] inline kernels::ScoredToken* ScoredBehind(kernels::SampledToken* sampled, const DrawCounts& counts) {
  return reinterpret_cast<kernels::ScoredToken*>(sampled + counts.sampled);
}
[[nodiscard]] inline kernels::TopToken* TopBehind(kernels::SampledToken* sampled, const DrawCounts& counts) {
  return reinterpret_cast<kernels::TopToken*>(sampled + counts.sampled + counts.scored);
}

class DrawReadbacks {
 public:
  // `backend` outlives it.
  explicit DrawReadbacks(const kernels::Backend& backend) : backend_(backend) {}

  // Starts the copy of what is at `sampled`, on the device. At most kMaxReadbacks copies are under way at a time.
  void Begin(const void* sampled, const DrawCounts& counts) {
    ROOST_CHECK(begun_count_ - ended_count_ < counts_.size(), "{} readbacks are on their way", counts_.size());
    backend_.ops().begin_readback(backend_.device(), sampled, counts.bytes());
    counts_[begun_count_++ % counts_.size()] = counts;
  }

  // Waits for the oldest copy under way. The result is valid until the next call.
  [[nodiscard]] std::span<const kernels::SampledToken> Await() {
    ROOST_CHECK(ended_count_ < begun_count_, "no batch has begun");
    const DrawCounts& counts = counts_[ended_count_++ % counts_.size()];
    bytes_.resize(counts.bytes());
    backend_.ops().end_readback(backend_.device(), bytes_.data());
    const std::byte* from = bytes_.data();
    from = Take(from, counts.sampled, sampled_);
    from = Take(from, counts.scored, scored_);
    Take(from, counts.top, top_);
    return sampled_;
  }

  // The scores of the batch that Await returned last; valid as long.
  [[nodiscard]] Scores scores() const { return {scored_, top_}; }

 private:
  template <typename T>
  static const std::byte* Take(const std::byte* from, std::size_t count, std::vector<T>& to) {
    to.resize(count);
    if (count > 0) std::memcpy(to.data(), from, count * sizeof(T));
    return from + count * sizeof(T);
  }

  const kernels::Backend& backend_;
  std::array<DrawCounts, kernels::kMaxReadbacks> counts_{};  // used in turn
  std::size_t begun_count_ = 0;
  std::size_t ended_count_ = 0;
  std::vector<std::byte> bytes_;
  std::vector<kernels::SampledToken> sampled_;
  std::vector<kernels::ScoredToken> scored_;
  std::vector<kernels::TopToken> top_;
};

struct TransformerOptions {
  std::uint32_t block_tokens = 16;  // see IsValidBlockTokens
  std::uint32_t block_count = 0;
  // Used in place of a number of blocks: as many blocks as fit into this share of the device memory that the weights
  // and the memory of steps leave free.
  std::optional<double> kv_share = std::nullopt;
  std::uint32_t max_context_tokens = 0;
  StepBounds step_bounds = {};
  kernels::DType compute_dtype = kernels::DType::kF32;
  // Where blocks travel through it: for devices with memory of their own.
  std::shared_ptr<const FrameSlab> slab = nullptr;
};

// The part of a model that a transformer has, and its connection to the other ranks.
struct TensorRank {
  Shard shard = {};
  std::unique_ptr<kernels::Communicator> communicator = nullptr;  // null with one rank
};

// Bytes of one KV block of this model.
[[nodiscard]] std::size_t KvBlockBytes(const HfConfig& config, std::uint32_t block_tokens, kernels::DType dtype);

class Transformer final : public Model {
 public:
  // Reads all weights, or a rank's part of them; the source is not needed afterwards. `config` is the whole model's.
  [[nodiscard]] static Result<std::unique_ptr<Transformer>> Create(kernels::Backend backend, const HfConfig& config,
                                                                   const WeightSource& source,
                                                                   const TransformerOptions& options,
                                                                   TensorRank rank = {});

  // The shape of the whole model. All ranks compute and are told the draws. Of the other ranks AwaitSampled returns no
  // tokens, and they have no logits.
  [[nodiscard]] const ModelShape& shape() const override { return shape_; }
  [[nodiscard]] std::uint32_t block_tokens() const override { return kv_.block_tokens; }
  [[nodiscard]] std::uint32_t block_count() const override { return kv_.block_count; }
  [[nodiscard]] kernels::Arithmetic arithmetic() const override;
  void Compute(const Batch& batch, const Draws& draws) override;
  [[nodiscard]] bool HasRoomFor(const DrawLists& lists) const;
  [[nodiscard]] bool MakeRoomFor(const DrawLists& lists) override;
  // For the only rank; null on a device with memory of its own and without a slab.
  [[nodiscard]] std::unique_ptr<BlockReader> MakeBlockReader() const override;
  [[nodiscard]] FrameStaging* frame_staging() const override { return block_copies_.get(); }
  // The rank's; null without a slab.
  [[nodiscard]] CopyEngine* copy_engine() { return copy_engine_.get(); }
  // The rank's part of every block.
  [[nodiscard]] BlockPart part() const { return {kv_, first_kv_head_, shape_.kv_head_count}; }
  [[nodiscard]] bool has_host_memory() const { return backend_.ops().has_host_memory; }
  [[nodiscard]] std::span<const kernels::SampledToken> AwaitSampled() override;
  [[nodiscard]] Scores AwaitedScores() const override { return readbacks_.scores(); }
  [[nodiscard]] std::span<const float> Logits() override;
  [[nodiscard]] std::vector<kernels::MemoryUse> DeviceMemory() override;
  // Called after each product and each layer's attention.
  void SetPulse(std::function<void()> pulse) override { pulse_ = std::move(pulse); }

 private:
  // All arrays that a step brings to its device in one copy, and where each is in StepMemory::inputs:
  //
  //   tokens positions slots logits_rows parts rows items merges blocks │ sampled_places draws biases counted scored
  //   of recorded ops, which keep their addresses                       │ of ops that are called in every step
  //
  // An array of the left half moves only if a length before it changes, which StepShape includes, or if the whole
  // memory grows. The blocks are last there, because their number may be anything. Every rank has arrays of the same
  // lengths, so all ranks grow at the same steps. (Rows to copy are arguments of their op. Each poisoned block, which
  // is for debugging, takes a copy of its own.)
  struct StepInputs {
    PackedArray<TokenId> tokens;
    PackedArray<std::uint32_t> positions, slots, logits_rows;
    PackedArray<std::uint32_t> parts;
    PackedArray<kernels::AttentionRow> rows;
    PackedArray<kernels::AttentionItem> items;
    PackedArray<kernels::AttentionMerge> merges;
    PackedArray<std::uint32_t> blocks;
    PackedArray<kernels::SampledPlace> sampled_places;
    PackedArray<kernels::SampleRow> draws;
    PackedArray<kernels::LogitBias> biases;
    PackedArray<kernels::CountedToken> counted;
    PackedArray<kernels::LogprobsRow> scored;
  };

  Transformer(kernels::Backend backend, const HfConfig& config, const TransformerOptions& options, TensorRank rank);
  [[nodiscard]] Result<void> Load(const HfConfig& whole, const WeightSource& source, const TransformerOptions& options);
  [[nodiscard]] Result<void> ReserveSteps(const StepBounds& bounds);
  // The largest input of a step within the bounds with such lists; 0 if no memory was reserved at load.
  [[nodiscard]] std::size_t InputBytesWith(const DrawLists& lists) const;
  [[nodiscard]] Result<void> CountBlocks(double kv_share, std::size_t recording_bytes);
  [[nodiscard]] Result<void> ReserveKv();
  [[nodiscard]] Result<void> ReserveStaging();
  [[nodiscard]] Result<void> MakeCopyEngine();
  void WarmUpProducts();
  void WarmUpSteps(const StepBounds& bounds);
  void RunWarmUpStep();
  [[nodiscard]] std::size_t MeasureRecordings(const StepBounds& bounds);
  std::size_t RecordSteps(const StepBounds& bounds, std::size_t most, StepRecorder* recorder);
  void AwaitDevice();

  void Check(const Batch& batch) const;
  void Check(const Draws& draws) const;
  void Poison(const Batch& batch);
  void WriteBlocks(const Batch& batch);
  void CopyRows(const Batch& batch);
  void ComputeBatch(const Batch& batch, const Draws& draws);
  void Plan(const Batch& batch);
  void Upload(const Batch& batch, const Draws& draws);
  void PlaceSampled(const Batch& batch);
  [[nodiscard]] StepRecorder::Shape StepShape() const;
  void RunOps();
  void WriteKv(std::uint32_t layer);  // and q
  void Attend(std::uint32_t layer);
  void FeedForward(const LayerWeights& layer);
  void Norm(const kernels::DeviceBuffer& weight, const kernels::DeviceBuffer* delta);
  void Pulse() const {
    if (pulse_) pulse_();
  }
  void Multiply(const kernels::MatmulWeights& weights, const void* x, void* y) const;
  void SumOverRanks(void* values, kernels::DType dtype);  // [rows][hidden_size]
  void ComputeLogits();
  void MultiplyLogits(std::uint32_t rows) const;
  void GatherLogits();
  void Sample(const Draws& draws);
  void FillMasks(const Draws& draws);
  void Draw(const Draws& draws);
  void Score(const Draws& draws);

  const kernels::Backend backend_;  // outlives everything below
  const Shard shard_;
  const std::unique_ptr<kernels::Communicator> communicator_;  // outlives the recordings of its ops
  kernels::Communicator* peers_;                               // the same; null while the rank warms up by itself
  const std::uint32_t first_kv_head_;                          // of the whole model's
  const WeightRange vocabulary_;                               // tokens that this rank embeds and computes logits for
  const HfConfig config_;                                      // this rank's; see ConfigOf
  const AttentionPlanOptions attention_options_;
  const float score_scale_;
  const kernels::DType dtype_;             // of products' inputs and the cache
  const kernels::DType activation_dtype_;  // of products' results
  ModelShape shape_;
  TransformerWeights weights_;
  kernels::DeviceBuffer inverse_frequencies_;
  kernels::DeviceBuffer kv_memory_;
  kernels::KvLayout kv_;
  const std::shared_ptr<const FrameSlab> slab_;  // null: no blocks travel, or host memory
  kernels::DeviceBuffer staging_;                // [frames] blocks of this rank
  std::unique_ptr<CopyEngine> copy_engine_;
  std::unique_ptr<BlockCopies> block_copies_;  // of the only rank
  StepMemory work_;
  std::size_t fixed_input_bytes_ = 0;  // of the largest step, without its lists; 0: no step was reserved at load
  // The step, which may be padded; see pad_plan.h.
  std::vector<TokenId> tokens_;
  BatchPlan plan_;
  StepInputs inputs_;
  PackedArray<std::uint32_t> draw_masks_;  // uploaded separately
  std::uint32_t rows_ = 0;                 // tokens
  std::uint32_t wanted_count_ = 0;         // rows of logits that the batch asked for
  StepRecorder recorder_;
  std::vector<kernels::BlockRowsCopy> copies_;
  std::vector<std::uint8_t> poison_;  // a block of NaN, once a block has been poisoned
  std::vector<std::uint32_t> masks_;  // the draws' masks, being uploaded
  std::vector<float> logits_;         // the last step's, once they were asked for
  DrawReadbacks readbacks_;
  std::size_t feeding_draw_count_ = 0;  // number of the latest draws, if they feed the next batch
  std::function<void()> pulse_;
};

}  // namespace roost::worker
