// Upper limits of what PlanAttention makes; see attention_plan.h.
#include <algorithm>

#include "worker/model/attention_plan.h"

namespace roost::worker {
namespace {

std::uint64_t CeilOf(std::uint64_t value, std::uint64_t step) { return (value + step - 1) / step; }

}  // namespace

// Let w be the number of works (rows and their positions, not yet cut), c the cost of a work, l the largest cost of a
// piece. A work becomes at most 1 + c / l pieces, and l is at least a share of all costs, so
//
//  pieces <= w + Σ c / l <= w + places · kMaxPiecesPerPlace / kv heads
//
// or, if a profile's longest partial item is shorter than that, 1 + positions / longest per work.
AttentionPlanSize LargestPlan(const AttentionBatchSize& batch, const AttentionPlanOptions& options) {
  const kernels::AttentionProfile& profile = options.profile;
  const std::uint64_t tokens = batch.token_count;
  const std::uint64_t rows_per_pack =
      std::max(1U, profile.lane_tiles.back() / (options.query_head_count / options.kv_head_count));
  const std::uint64_t shared_rows = batch.slice_count < 2 ? 0 : options.max_shared_rows;
  const bool cuts_whole = profile.concurrent_items > 1;
  const std::uint64_t cut_by_cost =
      cuts_whole ? CeilOf(std::uint64_t{profile.concurrent_items} * kMaxPiecesPerPlace, options.kv_head_count) : 0;
  // Each row attends to each position once.
  const std::uint64_t rows_in_parts = cuts_whole ? tokens : std::min(tokens, shared_rows);
  const std::uint64_t cut_by_length = rows_in_parts * (batch.context_tokens / profile.max_partial_positions);
  const std::uint64_t parts = tokens + shared_rows + cut_by_cost * rows_per_pack + cut_by_length;
  return {.blocks = batch.slice_count * CeilOf(batch.context_tokens, options.block_tokens),
          .rows = tokens,
          .items = batch.slice_count + CeilOf(tokens, rows_per_pack) + shared_rows + cut_by_cost + cut_by_length,
          .merges = tokens,
          .parts = parts,
          .partials = parts * options.query_head_count};
}

}  // namespace roost::worker
