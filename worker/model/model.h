// The language model as the engine sees it: takes a batch of token slices, gives tokens or logits. It owns the weights
// and the bytes of the KV blocks; the cache decides which block holds what.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "kernels/arithmetic.h"
#include "kernels/logprobs.h"
#include "kernels/memory_use.h"
#include "kernels/place_sampled.h"
#include "kernels/sample.h"
#include "worker/model/block_reader.h"

namespace roost::worker {

struct ModelShape {
  std::uint32_t vocab_size = 0;
  std::uint32_t layer_count = 0;
  std::uint32_t hidden_size = 0;
  std::uint32_t intermediate_size = 0;
  std::uint32_t query_head_count = 0;
  std::uint32_t kv_head_count = 0;
  std::uint32_t head_dim = 0;
  std::uint32_t max_context_tokens = 0;
};

// Consecutive tokens of one sequence: positions first_position … first_position + token_count - 1. They attend to all
// earlier positions of the sequence, whose K and V lie in `blocks`, and causally to each other.
struct BatchSlice {
  std::span<const BlockId> blocks;  // for positions 0 … first_position + token_count - 1; block_tokens positions each
  std::uint32_t first_position = 0;
  std::uint32_t token_count = 0;   // at least 1
  std::uint32_t logits_count = 0;  // the number of last tokens that want logits, at most token_count
};

// The most rows of logits in a batch, in addition to one for each slice.
inline constexpr std::uint32_t kMaxFurtherLogits = 64;

// Copies the K and V of a block's first rows into another block.
struct BlockCopy {
  BlockId from;
  BlockId to;
  std::uint32_t row_count = 0;  // 1 to block_tokens
};

// Fills a block with K and V that another worker computed, as a BlockReader gives them.
struct BlockWrite {
  BlockId to;
  std::span<const std::byte> bytes;  // staged, if the model has FrameStaging; valid until the batch has finished
};

// `tokens` holds the slices' tokens one after another. The draws of the previous batch replace the tokens at
// `sampled_places`. K and V of every token are written to the slice's blocks. The copies are made before that, in
// order, and the writes before the copies; a batch may have writes alone. Before the writes the `poisoned` blocks are
// filled with NaN, so that reading a row that was not written shows; they are for debugging, and normally there are
// none.
struct Batch {
  std::vector<BlockId> poisoned;
  std::vector<BlockWrite> writes;
  std::vector<BlockCopy> copies;
  std::vector<TokenId> tokens;
  std::vector<kernels::SampledPlace> sampled_places;
  std::vector<BatchSlice> slices;

  void Clear() {
    poisoned.clear();
    writes.clear();
    copies.clear();
    tokens.clear();
    sampled_places.clear();
    slices.clear();
  }
};

// Tokens to draw from a batch's logits. A draw's newest token is one of the batch's tokens. Draws of later batches may
// name the counts that a draw leaves.
struct Draws {
  std::vector<kernels::SampleRow> rows;
  std::vector<kernels::LogitBias> biases;      // row after row
  std::vector<kernels::CountedToken> counted;  // the counts that rows are reset to
  std::uint32_t adjusted_count = 0;            // rows that are adjusted
  std::uint32_t counts_row_count = 0;          // rows of counts that must exist
  bool feed_next_batch = false;                // the next batch's sampled_places may name these draws
  // Log probabilities to report, for tokens that are drawn here or known. Results are in the order of this list, and a
  // row's top tokens begin at its first_top.
  std::vector<kernels::LogprobsRow> scored;
  std::uint32_t top_count = 0;   // top tokens of all scored rows together
  std::uint32_t mask_count = 0;  // rows of masks that draws name
  // Writes the masks, each of kernels::MaskWords(vocabulary) words. Called once if there are any, when all work that
  // the draws wait for has begun, so masks are made while the device computes. It may ask for the tokens of the
  // previous batch.
  std::function<void(std::span<std::uint32_t>)> fill_masks;

  void Clear() {
    rows.clear();
    biases.clear();
    counted.clear();
    adjusted_count = 0;
    counts_row_count = 0;
    feed_next_batch = false;
    scored.clear();
    top_count = 0;
    mask_count = 0;
  }

  // Adds a draw with these biases, which are for different tokens.
  void Add(kernels::SampleRow row, std::span<const kernels::LogitBias> row_biases) {
    row.first_bias = static_cast<std::uint32_t>(biases.size());
    row.bias_count = static_cast<std::uint32_t>(row_biases.size());
    row.adjusted_row = adjusted_count;
    if (IsAdjusted(row)) ++adjusted_count;
    if (row.has_counts) counts_row_count = std::max(counts_row_count, row.counts_row + 1);
    rows.push_back(row);
    biases.insert(biases.end(), row_biases.begin(), row_biases.end());
  }

  // Adds a row to score.
  void Score(kernels::LogprobsRow row) {
    row.first_top = top_count;
    top_count += row.top_count;
    scored.push_back(row);
  }
};

// The sizes of the lists that a batch's draws bring.
struct DrawLists {
  std::size_t bias_count = 0;
  std::size_t counted_count = 0;
};

// The results of the scored rows of a batch's draws.
struct Scores {
  std::span<const kernels::ScoredToken> tokens;  // one for each row
  std::span<const kernels::TopToken> top;        // row after row
};

class Model {
 public:
  virtual ~Model() = default;

  [[nodiscard]] virtual const ModelShape& shape() const = 0;
  [[nodiscard]] virtual std::uint32_t block_tokens() const = 0;
  [[nodiscard]] virtual std::uint32_t block_count() const = 0;

  // With the dtype that it computes in.
  [[nodiscard]] virtual kernels::Arithmetic arithmetic() const { return {}; }

  // Makes room for the next batch, within the engine's bounds, if its draws bring such lists. False when there is no
  // memory for them. There is always room for short ones.
  [[nodiscard]] virtual bool MakeRoomFor(const DrawLists& /*lists*/) { return true; }

  // Computes the batch and draws tokens from its logits, or only begins to: asking for the results waits for them. The
  // draws are given with the batch, so that everything of a step goes to a device at once. Batches take effect in
  // order. The logits are f32 [tokens that want them, in order][vocab_size], and stay until the next batch. Two slices
  // of one batch never write the same block, and a block that one slice writes is read by no other slice of the batch.
  // On the CPU a token's logits do not depend, bit for bit, on what else is in the batch or how its prompt was cut; on
  // CUDA they differ by rounding.
  virtual void Compute(const Batch& batch, const Draws& draws) = 0;

  // Waits for the oldest batch that has begun and has not been awaited; there are at most two. Returns one token for
  // each of its draws, in order; valid until the next call. So the next batch can begin before the tokens of the
  // previous one are asked for.
  [[nodiscard]] virtual std::span<const kernels::SampledToken> AwaitSampled() = 0;

  // Waits until the batch that AwaitSampled returned last has finished on every device: only then may other threads
  // read what it wrote, and the bytes of its writes change. Not within fill_masks.
  virtual void AwaitFinished() {}

  // The scores of the batch that AwaitSampled returned last; valid as long as its tokens.
  [[nodiscard]] virtual Scores AwaitedScores() const { return {}; }

  // Null if its blocks can not be read beside its batches: then it takes no writes either. The reader does not outlive
  // the model.
  [[nodiscard]] virtual std::unique_ptr<BlockReader> MakeBlockReader() const { return nullptr; }
  // The frames through which its blocks go; null: any memory will do.
  [[nodiscard]] virtual FrameStaging* frame_staging() const { return nullptr; }

  // The logits of the latest batch in host memory, without the adjustments of any draw; valid until the next batch.
  // This is a long copy from a device.
  [[nodiscard]] virtual std::span<const float> Logits() = 0;

  // `pulse` is called on the thread that computes, each time that a part of a batch is done, or has begun on a device.
  // It tells a step that takes long from one that hangs. Not to be changed while a batch is computed.
  virtual void SetPulse(std::function<void()> /*pulse*/) {}  // NOLINT(performance-unnecessary-value-param): kept

  // The memory of each device that it computes on now; empty on the CPU. Quick: devices go on computing.
  [[nodiscard]] virtual std::vector<kernels::MemoryUse> DeviceMemory() { return {}; }

  [[nodiscard]] std::span<const float> Forward(const Batch& batch) {
    Compute(batch, {});
    (void)AwaitSampled();
    AwaitFinished();
    return Logits();
  }
};

}  // namespace roost::worker
