// From a batch to the work list of attention (kernels/attention.h): a pure function.
//
//   share   slices whose block lists begin with the same blocks form a tree. Where it pays, positions that several read
//           become items with the rows of all of them, and each goes on alone behind those
//   pack    the rows of a slice, or of all that share, by as many as the profile's largest tile holds
//   cut     items that would keep the device waiting for them become partial ones, of about equal length
//
// Two slices with the same block at the same place have the same tokens before it: blocks are named by the hash of all
// tokens up to their last one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "kernels/attention.h"
#include "worker/model/attention_plan_scratch.h"
#include "worker/model/model.h"

namespace roost::worker {

// Levels of branching that are followed from the root: a prompt, a document, a conversation, its turns. Deeper levels
// are not shared, so that planning stays fast for every tree.
inline constexpr std::uint32_t kMaxBranchings = 8;
// The most pieces of average cost into which work is cut, for each multiprocessor of the device.
inline constexpr std::uint32_t kMostPiecesPerPlace = 6;

struct AttentionPlanOptions {
  std::uint32_t block_tokens = 16;
  std::uint32_t query_head_count = 1;
  std::uint32_t kv_head_count = 1;
  kernels::AttentionProfile profile;
  // Rows of all shared items, each counted once per item that it is in: bounds the partial results. Earlier items are
  // shared first.
  std::uint32_t max_shared_rows = std::numeric_limits<std::uint32_t>::max();
};

// `rows[i].token` counts the slices' tokens from the first slice on.
struct AttentionPlan {
  std::vector<std::uint32_t> blocks;
  std::vector<kernels::AttentionRow> rows;
  std::vector<kernels::AttentionItem> items;  // the longest first, to within one part in 256 of the longest
  std::vector<kernels::AttentionMerge> merges;
  std::vector<std::uint32_t> parts;
  std::uint32_t partial_count = 0;

  AttentionPlanScratch scratch;
};

// Linear in tokens, blocks, slices and items. Reuses the memory of `plan`.
void PlanAttention(std::span<const BatchSlice> slices, const AttentionPlanOptions& options, AttentionPlan& plan);

// Batches, at their largest.
struct AttentionBatchSize {
  std::uint32_t token_count = 0;
  std::uint32_t slice_count = 0;
  std::uint32_t context_tokens = 0;  // of a slice: its tokens and those before them
};

// Entries of a plan's lists.
struct AttentionPlanSize {
  std::size_t blocks = 0;
  std::size_t rows = 0;
  std::size_t items = 0;
  std::size_t merges = 0;
  std::size_t parts = 0;
  std::size_t partials = 0;
};

// An upper bound for the plans of such batches. `options.max_shared_rows` is a real bound.
[[nodiscard]] AttentionPlanSize LargestPlan(const AttentionBatchSize& batch, const AttentionPlanOptions& options);

// The cost, in positions times lanes of one kv head, of an item; see AttentionProfile.
[[nodiscard]] std::uint64_t AttentionCost(const kernels::AttentionProfile& profile, std::uint32_t lanes,
                                          std::uint32_t positions);

// What it saves to read the same positions once for the rows of several slices; negative where it costs more. `lanes`
// has the lanes of each slice.
[[nodiscard]] std::int64_t SavedBySharing(const kernels::AttentionProfile& profile,
                                          std::span<const std::uint32_t> lanes, std::uint32_t positions);

}  // namespace roost::worker
