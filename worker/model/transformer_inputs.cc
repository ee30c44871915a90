// What a step brings to its device, and the memory that it needs there.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "worker/model/pad_plan.h"
#include "worker/model/transformer.h"

namespace roost::worker {
namespace {

// Are all of them below `count`, which is below 2^31? A step has tens of thousands: no branch for each, and so many at
// a time that the compiler makes vector code of it.
bool AllBelow(std::span<const std::uint32_t> blocks, std::uint32_t count) {
  constexpr std::size_t kLanes = 64;
  const auto outside = [count](std::uint32_t block) { return block | (count - 1 - block); };  // its high bit
  std::array<std::uint32_t, kLanes> any_outside{};
  std::size_t i = 0;
  for (; i + kLanes <= blocks.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) any_outside[lane] |= outside(blocks[i + lane]);
  }
  for (; i < blocks.size(); ++i) any_outside[0] |= outside(blocks[i]);
  return std::all_of(any_outside.begin(), any_outside.end(), [](std::uint32_t any) { return any >> 31U == 0; });
}

}  // namespace

void Transformer::Plan(const Batch& batch) {
  PlanBatch(batch, attention_options_, plan_);
  ROOST_CHECK(AllBelow(plan_.attention.blocks, kv_.block_count), "a block beyond {}", kv_.block_count);
  wanted_count_ = static_cast<std::uint32_t>(plan_.logits_rows.size());
  tokens_ = batch.tokens;
  if (recorder_.enabled() && IsDecode(batch)) PadPlan(kv_.block_count * kv_.block_tokens, tokens_, plan_);
  rows_ = static_cast<std::uint32_t>(tokens_.size());
}

// And makes room for what is computed: ops that are recorded can not.
void Transformer::Upload(const Batch& batch, const Draws& draws) {
  work_.inputs.Clear();
  inputs_ = {.tokens = work_.inputs.Add(tokens_),
             .positions = work_.inputs.Add(plan_.positions),
             .slots = work_.inputs.Add(plan_.slots),
             .logits_rows = work_.inputs.Add(plan_.logits_rows),
             .parts = work_.inputs.Add(plan_.attention.parts),
             .rows = work_.inputs.Add(plan_.attention.rows),
             .items = work_.inputs.Add(plan_.attention.items),
             .merges = work_.inputs.Add(plan_.attention.merges),
             .blocks = work_.inputs.Add(plan_.attention.blocks),
             .sampled_places = work_.inputs.Add(batch.sampled_places),
             .draws = work_.inputs.Add(draws.rows),
             .biases = work_.inputs.Add(draws.biases),
             .counted = work_.inputs.Add(draws.counted)};
  Reserve({.input_bytes = work_.inputs.bytes(),
           .rows = rows_,
           .logits_rows = plan_.logits_rows.size(),
           .partials = plan_.attention.partial_count,
           .adjusted_rows = draws.adjusted_count,
           .counts_rows = draws.counts_row_count});
  work_.inputs.Upload();
  // A device that asks for memory may wait for the others', and these may wait for this rank in a collective op: none
  // begins before all have their memory.
  if (peers_ != nullptr) peers_->AwaitPeers();
}

void Transformer::PlaceSampled(const Batch& batch) {
  if (batch.sampled_places.empty()) return;
  backend_.ops().place_sampled(backend_.device(),
                               {.sampled = work_.sampled.as<kernels::SampledToken>(),
                                .places = work_.inputs.At(inputs_.sampled_places),
                                .place_count = static_cast<std::uint32_t>(batch.sampled_places.size()),
                                .tokens = work_.inputs.At(inputs_.tokens)});
}

Result<void> Transformer::ReserveSteps(const StepBounds& bounds) {
  // All that can come back: what the batch before drew is still needed when the next one begins, and would be lost by
  // growing.
  bool enough = work_.sampled.TryReserve(kernels::kMaxReadbackBytes);
  const bool is_bounded = bounds.token_count > 0 && bounds.request_count > 0;
  if (enough && is_bounded && backend_.ops().free_memory(backend_.device())) {
    reserved_ = LargestStep(bounds, {.context_tokens = shape_.max_context_tokens, .vocab_size = config_.vocab_size},
                            attention_options_);
    enough = TryReserve(reserved_);
  }
  if (enough) return {};
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("the device has no memory for steps of {} tokens of {} requests", bounds.token_count,
                           bounds.request_count),
               "max_batch_tokens"};
}

// In large steps, so that it seldom waits for the device.
void Transformer::Reserve(const StepSize& step) {
  if (step.FitsInto(reserved_)) return;
  ++growth_count_;
  reserved_ = Grown(reserved_, step);
  if (TryReserve(reserved_)) return;
  backend_.ops().fail(backend_.device(), "allocate",
                      fmt::format("no memory for a step of {} tokens, {} rows of logits, {} partial results", step.rows,
                                  step.logits_rows, step.partials));
}

bool Transformer::TryReserve(const StepSize& step) {
  const std::size_t q_width = std::size_t{config_.query_head_count} * config_.head_dim;
  const std::size_t kv_width = std::size_t{config_.kv_head_count} * config_.head_dim;
  const std::size_t input_bytes = SizeOf(dtype_);
  const std::size_t result_bytes = SizeOf(activation_dtype_);
  bool enough = work_.inputs.TryReserve(step.input_bytes);
  const auto reserve = [&enough](kernels::DeviceBuffer& buffer, std::size_t rows, std::size_t row_bytes) {
    enough = enough && buffer.TryReserve(rows * row_bytes);
  };
  reserve(work_.cos, step.rows, config_.head_dim / 2 * sizeof(float));
  reserve(work_.sin, step.rows, config_.head_dim / 2 * sizeof(float));
  reserve(work_.hidden, step.rows, config_.hidden_size * sizeof(float));
  reserve(work_.delta, step.rows, config_.hidden_size * result_bytes);
  reserve(work_.normed, std::max(step.rows, step.logits_rows), config_.hidden_size * input_bytes);
  reserve(work_.qkv, step.rows, (q_width + 2 * kv_width) * result_bytes);
  reserve(work_.q, step.rows, q_width * result_bytes);
  reserve(work_.attended, step.rows, q_width * input_bytes);
  reserve(work_.gate_up, step.rows, 2 * std::size_t{config_.intermediate_size} * result_bytes);
  reserve(work_.activated, step.rows, config_.intermediate_size * input_bytes);
  reserve(work_.partials, step.partials, kernels::PartialFloats(config_.head_dim) * sizeof(float));
  if (communicator_) reserve(work_.logits_part, step.logits_rows, vocabulary_.size() * sizeof(float));
  if (shard_.rank != 0) return enough;
  const std::size_t logits_bytes = config_.vocab_size * sizeof(float);
  reserve(work_.logits, step.logits_rows, logits_bytes);
  reserve(work_.adjusted, step.adjusted_rows, logits_bytes);
  enough = enough && TryReserveCounts(step.counts_rows);
  if (communicator_) reserve(work_.arriving, step.logits_rows, logits_bytes);
  return enough;
}

// What outputs have counted so far goes along. Within bounds this is called once, at load.
bool Transformer::TryReserveCounts(std::size_t row_count) {
  if (row_count <= counts_row_count_) return true;
  const std::size_t row_bytes = config_.vocab_size * sizeof(kernels::TokenCount);
  std::vector<std::uint8_t> kept(counts_row_count_ * row_bytes);
  if (!kept.empty()) backend_.ops().copy_to_host(backend_.device(), kept.data(), work_.counts.data(), kept.size());
  if (!work_.counts.TryReserve(row_count * row_bytes)) return false;
  if (!kept.empty()) backend_.ops().copy_to_device(backend_.device(), work_.counts.data(), kept.data(), kept.size());
  counts_row_count_ = row_count;
  return true;
}

// Lengths of lists, which are places too, and the memory of whatever grows.
StepRecorder::Shape Transformer::StepShape() const {
  return {rows_,
          plan_.logits_rows.size(),
          plan_.attention.items.size(),
          plan_.attention.merges.size(),
          inputs_.blocks.offset,
          inputs_.parts.offset,
          inputs_.rows.offset,
          inputs_.items.offset,
          inputs_.merges.offset,
          growth_count_};
}

}  // namespace roost::worker
