// Memory that PlanAttention reuses from plan to plan. Its content means nothing between calls.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/ids.h"
#include "kernels/attention.h"

namespace roost::worker {

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

}  // namespace roost::worker
