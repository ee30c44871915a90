// From a batch to the work list of attention (kernels/attention.h): a pure function.
//
//   share   slices whose block lists begin with the same blocks form a tree. Where it saves time, positions that
//           several slices read become items with the rows of all of them; behind those, each slice has its own items
//   pack    the rows of a slice, or of all slices that share, in packs that fill the profile's largest tile
//   cut     long items, which would keep the device waiting, into partial ones of about equal length
//
// Two slices with the same block at the same index have the same tokens before it: a block is identified by the hash of
// all tokens up to its last one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "common/base/ids.h"
#include "kernels/attention.h"
#include "worker/model/model.h"

namespace roost::worker {

// Memory that PlanAttention reuses from plan to plan. Its content means nothing between calls.
struct AttentionPlanScratch {
  struct Range {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
    [[nodiscard]] std::uint32_t size() const { return end - begin; }
  };
  // A slice's place in the order of rows: neighbours in the tree are next to each other.
  struct Place {
    std::uint32_t slice = 0;
    std::uint32_t first_token = 0;   // index in the batch
    std::uint32_t whole_blocks = 0;  // whole blocks before its first position: other slices may have them too
    std::uint32_t shared_end = 0;    // positions before it are in shared runs
    std::uint32_t first_row = 0;     // in the plan's rows
  };
  // Neighbouring places and the positions that they all have in the same blocks.
  struct SharedRun {
    Range places;
    Range positions;
  };
  // Rows and the positions that they attend to, not yet cut.
  struct Work {
    Range rows;
    Range positions;
    std::uint32_t first_block = 0;  // block of the first position, in the plan's blocks
    kernels::AttentionItem::Output output = kernels::AttentionItem::Output::kWhole;
  };
  struct Part {
    std::uint32_t token = 0;
    std::uint32_t partial = 0;
  };
  // Places with the same next block.
  struct Group {
    BlockId block;
    std::uint32_t size = 0;
    std::uint32_t next = 0;  // where its next place goes
  };

  void Clear() {
    position_costs.clear();
    places.clear();
    shared_runs.clear();
    works.clear();
    parts.clear();
  }

  std::vector<std::uint64_t> position_costs;  // by the number of rows of an item
  std::vector<Place> places;
  std::vector<SharedRun> shared_runs;  // a run before those inside of it
  std::vector<Work> works;
  std::vector<Part> parts;

  // Used while places are grouped by their next block.
  std::vector<Group> groups;
  std::vector<std::uint32_t> group_table;  // from a hash of the block to the group
  std::vector<std::uint32_t> group_of;     // of each place
  std::vector<Place> grouped;
  std::vector<std::uint32_t> lanes;  // of each place, while the gain of sharing is computed
  // Used while merges are listed and items are sorted.
  std::vector<std::uint32_t> next_part;  // of each token
  std::vector<kernels::AttentionItem> items;
};

// Levels of branching that are followed from the root: a prompt, a document, a conversation, its turns. Deeper levels
// are not shared, so that planning is fast for every tree.
inline constexpr std::uint32_t kMaxBranchings = 8;
// The largest number of pieces of average cost into which the work is cut, per multiprocessor of the device.
inline constexpr std::uint32_t kMaxPiecesPerPlace = 6;

struct AttentionPlanOptions {
  std::uint32_t block_tokens = 16;
  std::uint32_t query_head_count = 1;
  std::uint32_t kv_head_count = 1;
  kernels::AttentionProfile profile;
  // The most rows in shared items, counting a row once per item that it is in. It limits the partial results. Earlier
  // items are shared first.
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

// The size of the largest batches.
struct AttentionBatchSize {
  std::uint32_t token_count = 0;
  std::uint32_t slice_count = 0;
  std::uint32_t context_tokens = 0;  // most tokens of a slice, with those before it
};

// Lengths of a plan's lists.
struct AttentionPlanSize {
  std::size_t blocks = 0;
  std::size_t rows = 0;
  std::size_t items = 0;
  std::size_t merges = 0;
  std::size_t parts = 0;
  std::size_t partials = 0;
};

// An upper limit for the plans of such batches. `options.max_shared_rows` must be set.
[[nodiscard]] AttentionPlanSize LargestPlan(const AttentionBatchSize& batch, const AttentionPlanOptions& options);

// The cost of an item, in positions times lanes of one kv head; see AttentionProfile.
[[nodiscard]] std::uint64_t AttentionCost(const kernels::AttentionProfile& profile, std::uint32_t lanes,
                                          std::uint32_t positions);

// The cost that is saved by reading the same positions once for the rows of several slices; negative if sharing costs
// more. `lanes` has the lanes of each slice.
[[nodiscard]] std::int64_t SavedBySharing(const kernels::AttentionProfile& profile,
                                          std::span<const std::uint32_t> lanes, std::uint32_t positions);

}  // namespace roost::worker
