// The inputs that a step brings to its device.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "worker/model/pad_plan.h"
#include "worker/model/transformer.h"

namespace roost::worker {
namespace {

// Are all blocks below `count`, which is below 2^31? A step has tens of thousands, so there is no branch for each, and
// they are taken in groups for which the compiler makes vector code.
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

// Also reserves the memory of the step's results: recorded ops can not.
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
             .counted = work_.inputs.Add(draws.counted),
             .scored = work_.inputs.Add(draws.scored)};
  // Reserves the room that MakeRoomFor made, on all ranks at the same step.
  const std::size_t made_bytes =
      InputBytesWith({.bias_count = draws.biases.size(), .counted_count = draws.counted.size()});
  work_.Reserve({.input_bytes = std::max(work_.inputs.bytes(), made_bytes),
                 .rows = rows_,
                 .logits_rows = plan_.logits_rows.size(),
                 .partials = plan_.attention.partial_count,
                 .adjusted_rows = draws.adjusted_count,
                 .counts_rows = draws.counts_row_count});
  work_.inputs.Upload();
  // A device that asks for memory may wait for the other devices, and these may wait for this rank in a collective op.
  // So no rank begins an op before all have their memory.
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
  StepSize largest;
  const bool is_bounded = bounds.token_count > 0 && bounds.request_count > 0;
  if (is_bounded && backend_.ops().memory_use(backend_.device())) {
    const ModelLimits limits{.context_tokens = shape_.max_context_tokens, .vocab_size = config_.vocab_size};
    largest = LargestStep(bounds, limits, attention_options_);
    fixed_input_bytes_ = largest.input_bytes - ListBytes(UsualLists(bounds, limits));
  }
  if (work_.TryReserveAtLoad(largest)) return {};
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("the device has no memory for steps of {} tokens of {} requests", bounds.token_count,
                           bounds.request_count),
               "max_batch_tokens"};
}

// The lengths of lists, the offsets of arrays, and a count that changes when memory moves.
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
          work_.growth_count()};
}

}  // namespace roost::worker
