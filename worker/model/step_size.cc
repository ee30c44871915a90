#include "worker/model/step_size.h"

#include <algorithm>
#include <bit>

#include "kernels/place_sampled.h"
#include "kernels/sample.h"
#include "worker/model/packed_arrays.h"
#include "worker/model/pad_plan.h"

namespace roost::worker {
namespace {

// The sizes of the arrays of Transformer::StepInputs. The lists of attention's plan, except its blocks, may be padded
// to the next power of two.
class InputBytes {
 public:
  template <typename T>
  void Add(std::size_t count) {
    bytes_ += count * sizeof(T) + PackedArrays::kAlignment;
  }
  template <typename T>
  void AddPadded(std::size_t count) {
    Add<T>(std::bit_ceil(count));
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

}  // namespace

bool StepSize::FitsInto(const StepSize& other) const {
  return input_bytes <= other.input_bytes && rows <= other.rows && logits_rows <= other.logits_rows &&
         partials <= other.partials && adjusted_rows <= other.adjusted_rows && counts_rows <= other.counts_rows;
}

StepSize Grown(const StepSize& from, const StepSize& step) {
  const auto grown = [](std::size_t from_size, std::size_t size) {
    return size <= from_size ? from_size : std::bit_ceil(size);
  };
  return {.input_bytes = grown(from.input_bytes, step.input_bytes),
          .rows = grown(from.rows, step.rows),
          .logits_rows = grown(from.logits_rows, step.logits_rows),
          .partials = grown(from.partials, step.partials),
          .adjusted_rows = grown(from.adjusted_rows, step.adjusted_rows),
          .counts_rows = grown(from.counts_rows, step.counts_rows)};
}

std::size_t ListBytes(const DrawLists& lists) {
  InputBytes bytes;
  bytes.Add<kernels::LogitBias>(lists.bias_count);
  bytes.Add<kernels::CountedToken>(lists.counted_count);
  return bytes.bytes();
}

DrawLists UsualLists(const StepBounds& bounds, const ModelLimits& model) {
  const std::size_t requests = std::min(bounds.token_count, bounds.request_count);
  return {.bias_count = requests * std::min(model.vocab_size, kUsualBiases),
          .counted_count = requests * std::min(model.vocab_size, kUsualCountedTokens)};
}

StepSize LargestStep(const StepBounds& bounds, const ModelLimits& model, const AttentionPlanOptions& attention) {
  // Each request has at least one token.
  const std::size_t requests = std::min(bounds.token_count, bounds.request_count);
  if (requests == 0) return {};
  const std::size_t padded_rows =
      PaddedRows(std::min(static_cast<std::uint32_t>(requests), kMaxPaddedRows));  // for steps of decodes only
  const std::size_t rows = std::max<std::size_t>(bounds.token_count, padded_rows);
  // If log probabilities of a prompt are wanted, each of its tokens has a row.
  const std::size_t logits_rows =
      std::max(requests + std::min<std::size_t>(kMaxFurtherLogits, bounds.token_count - requests), padded_rows);
  const AttentionPlanSize plan = LargestPlan({.token_count = bounds.token_count,
                                              .slice_count = static_cast<std::uint32_t>(requests),
                                              .context_tokens = model.context_tokens},
                                             attention);
  InputBytes inputs;
  inputs.Add<TokenId>(rows);
  inputs.Add<std::uint32_t>(rows);  // positions
  inputs.Add<std::uint32_t>(rows);  // slots
  inputs.Add<std::uint32_t>(logits_rows);
  inputs.Add<std::uint32_t>(plan.blocks);
  inputs.AddPadded<std::uint32_t>(plan.parts);
  inputs.AddPadded<kernels::AttentionRow>(plan.rows);
  inputs.AddPadded<kernels::AttentionItem>(plan.items);
  inputs.AddPadded<kernels::AttentionMerge>(plan.merges);
  inputs.Add<kernels::SampledPlace>(requests);
  inputs.Add<kernels::SampleRow>(requests);
  inputs.Add<kernels::LogprobsRow>(logits_rows);
  return {.input_bytes = inputs.bytes() + ListBytes(UsualLists(bounds, model)),
          .rows = rows,
          .logits_rows = logits_rows,
          .partials = plan.partials,
          .adjusted_rows = requests,
          .counts_rows = requests};
}

}  // namespace roost::worker
