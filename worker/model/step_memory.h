// The device memory that a step needs: inputs from the host, activations, logits, draws. It is reserved when the model
// is loaded, for the largest step within the engine's bounds, and grows if a step is larger. Growing waits for the
// device and moves the memory that recorded ops use.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/result.h"
#include "kernels/device_memory.h"
#include "worker/model/loading/hf_config.h"
#include "worker/model/packed_arrays.h"
#include "worker/model/step_size.h"

namespace roost::worker {

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

}  // namespace roost::worker
