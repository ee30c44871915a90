#include "worker/model/step_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "kernels/ops.h"

namespace roost::worker {

StepWidths StepWidthsOf(const HfConfig& config, const LogitsSource& logits, kernels::DType input,
                        kernels::DType result) {
  const std::size_t q_width = std::size_t{config.query_head_count} * config.head_dim;
  const std::size_t kv_width = std::size_t{config.kv_head_count} * config.head_dim;
  const std::size_t input_bytes = SizeOf(input);
  const std::size_t result_bytes = SizeOf(result);
  const std::size_t logits_bytes = config.vocab_size * sizeof(float);
  return {.angles = config.head_dim / 2 * sizeof(float),
          .hidden = config.hidden_size * sizeof(float),
          .delta = config.hidden_size * result_bytes,
          .normed = config.hidden_size * input_bytes,
          .qkv = (q_width + 2 * kv_width) * result_bytes,
          .q = q_width * result_bytes,
          .attended = q_width * input_bytes,
          .gate_up = 2 * std::size_t{config.intermediate_size} * result_bytes,
          .activated = config.intermediate_size * input_bytes,
          .partial = kernels::PartialFloats(config.head_dim) * sizeof(float),
          .logits = logits.is_first_rank ? logits_bytes : 0,
          .logits_part = logits.has_communicator ? logits.vocabulary_part * sizeof(float) : 0,
          .arriving = logits.is_first_rank && logits.has_communicator ? logits_bytes : 0,
          .counts = logits.is_first_rank ? config.vocab_size * sizeof(kernels::TokenCount) : 0,
          .mask = logits.is_first_rank ? kernels::MaskWords(config.vocab_size) * sizeof(std::uint32_t) : 0};
}

StepMemory::StepMemory(const kernels::Backend& backend, const StepWidths& widths)
    : inputs(backend),
      masks(backend),
      cos(backend),
      sin(backend),
      hidden(backend),
      delta(backend),
      normed(backend),
      qkv(backend),
      q(backend),
      attended(backend),
      gate_up(backend),
      activated(backend),
      partials(backend),
      logits(backend),
      logits_part(backend),
      arriving(backend),
      sampled(backend),
      adjusted(backend),
      counts(backend),
      backend_(backend),
      widths_(widths) {}

bool StepMemory::TryReserveAtLoad(const StepSize& largest) {
  // Reserves for all that can come back, because the previous batch's draws are still needed when the next one begins,
  // and growing would lose them.
  if (!sampled.TryReserve(kernels::kMaxReadbackBytes)) return false;
  if (largest.rows == 0) return true;
  reserved_ = largest;
  return TryReserve(largest);
}

void StepMemory::Reserve(const StepSize& step) {
  if (step.FitsInto(reserved_)) return;
  ++growth_count_;
  reserved_ = Grown(reserved_, step);
  if (TryReserve(reserved_)) return;
  backend_.ops().fail(backend_.device(), "allocate",
                      fmt::format("no memory for a step of {} tokens, {} rows of logits, {} partial results", step.rows,
                                  step.logits_rows, step.partials));
}

bool StepMemory::TryReserve(const StepSize& step) {
  bool enough = inputs.TryReserve(step.input_bytes);
  if (widths_.mask > 0) enough = enough && masks.TryReserve(step.adjusted_rows * widths_.mask);
  const auto reserve = [&enough](kernels::DeviceBuffer& buffer, std::size_t rows, std::size_t row_bytes) {
    enough = enough && (row_bytes == 0 || buffer.TryReserve(rows * row_bytes));
  };
  reserve(cos, step.rows, widths_.angles);
  reserve(sin, step.rows, widths_.angles);
  reserve(hidden, step.rows, widths_.hidden);
  reserve(delta, step.rows, widths_.delta);
  reserve(normed, std::max(step.rows, step.logits_rows), widths_.normed);
  reserve(qkv, step.rows, widths_.qkv);
  reserve(q, step.rows, widths_.q);
  reserve(attended, step.rows, widths_.attended);
  reserve(gate_up, step.rows, widths_.gate_up);
  reserve(activated, step.rows, widths_.activated);
  reserve(partials, step.partials, widths_.partial);
  reserve(logits_part, step.logits_rows, widths_.logits_part);
  reserve(logits, step.logits_rows, widths_.logits);
  reserve(adjusted, step.adjusted_rows, widths_.logits);
  enough = enough && TryReserveCounts(step.counts_rows);
  reserve(arriving, step.logits_rows, widths_.arriving);
  return enough;
}

// Growing keeps the counts of the outputs so far. Within the step bounds this is called once, at load.
bool StepMemory::TryReserveCounts(std::size_t row_count) {
  if (widths_.counts == 0 || row_count <= counts_row_count_) return true;
  std::vector<std::uint8_t> kept(counts_row_count_ * widths_.counts);
  if (!kept.empty()) backend_.ops().copy_to_host(backend_.device(), kept.data(), counts.data(), kept.size());
  if (!counts.TryReserve(row_count * widths_.counts)) return false;
  if (!kept.empty()) backend_.ops().copy_to_device(backend_.device(), counts.data(), kept.data(), kept.size());
  counts_row_count_ = row_count;
  return true;
}

}  // namespace roost::worker
