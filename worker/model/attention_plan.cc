#include "worker/model/attention_plan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include "common/base/check.h"

namespace roost::worker {
namespace {

using kernels::AttentionItem;
using kernels::AttentionProfile;

// The cost per lane of writing, reading and merging a partial result, in positions that cost as much to read.
constexpr std::uint64_t kPartialCostPositions = 2;
// Candidates for the number of pieces of average cost per place of the device. More pieces leave the device less idle
// at the end, and cost more. Values a little below a whole number keep the rest from needing a round of its own.
constexpr double kPiecesPerPlace[] = {0.9, 1, 1.8, 2, 2.7, 3, 4, kMaxPiecesPerPlace};
// Times that differ by less than this share are equal: the estimates behind them are no more precise.
constexpr double kEqualTimes = 0.03;
constexpr std::uint32_t kNoGroup = std::numeric_limits<std::uint32_t>::max();
// Items are sorted by length, to within the longest divided by this number.
constexpr std::size_t kLengthClasses = 256;

std::uint32_t RoundUp(std::uint32_t value, std::uint32_t step) { return (value + step - 1) / step * step; }

// The cost of computing a position with this many lanes.
std::uint64_t PositionCost(const AttentionProfile& profile, std::uint32_t lanes) {
  const auto tile = std::find_if(profile.lane_tiles.begin(), profile.lane_tiles.end(),
                                 [lanes](std::uint32_t size) { return size >= lanes; });
  // A group larger than the largest tile is read once per tile.
  const std::uint32_t largest = profile.lane_tiles.back();
  const std::uint32_t tiles = tile != profile.lane_tiles.end() ? 1 : (lanes + largest - 1) / largest;
  const std::uint32_t tile_lanes = tile != profile.lane_tiles.end() ? *tile : largest;
  return std::uint64_t{tiles} * (profile.read_cost_lanes + tile_lanes);
}

std::uint64_t CostOfPartial(const AttentionProfile& profile) { return kPartialCostPositions * profile.read_cost_lanes; }

class Planner {
 public:
  Planner(std::span<const BatchSlice> slices, const AttentionPlanOptions& options, AttentionPlan& plan)
      : slices_(slices),
        options_(options),
        profile_(options.profile),
        plan_(plan),
        scratch_(plan.scratch),
        group_(options.query_head_count / options.kv_head_count),
        rows_per_pack_(std::max(1U, profile_.lane_tiles.back() / group_)),
        step_(std::max(profile_.partial_step, options.block_tokens)),
        position_costs_(scratch_.position_costs),
        places_(scratch_.places),
        shared_runs_(scratch_.shared_runs),
        works_(scratch_.works),
        parts_(scratch_.parts) {}

  void Run() {
    Clear();
    for (std::uint32_t rows = 0; rows <= rows_per_pack_; ++rows) {
      position_costs_.push_back(PositionCost(profile_, rows * group_));
    }
    Share({.places = {0, LocateSlices()}});
    AddRows();
    PackAll();
    CutAll();
    AddMerges();
    SortItems();
  }

 private:
  using Range = AttentionPlanScratch::Range;
  using Place = AttentionPlanScratch::Place;
  using SharedRun = AttentionPlanScratch::SharedRun;
  using Work = AttentionPlanScratch::Work;
  using Part = AttentionPlanScratch::Part;
  using Group = AttentionPlanScratch::Group;

  // Neighbouring places that have the same first blocks.
  struct Branch {
    Range places;
    std::uint32_t common_blocks = 0;  // known so far
    std::uint32_t shared_end = 0;     // positions before it are in shared runs
    std::uint32_t level = 0;
  };

  // Clears everything except the list of blocks, which is overwritten: its size hardly changes.
  void Clear() {
    scratch_.Clear();
    plan_.rows.clear();
    plan_.items.clear();
    plan_.merges.clear();
    plan_.parts.clear();
    plan_.partial_count = 0;
  }

  [[nodiscard]] const BatchSlice& SliceOf(const Place& place) const { return slices_[place.slice]; }
  [[nodiscard]] BlockId BlockAt(const Place& place, std::uint32_t index) const { return SliceOf(place).blocks[index]; }

  // Places that may share come first; returns how many they are.
  std::uint32_t LocateSlices() {
    AddPlaces(Sharing::kPossible);
    const auto sharer_count = static_cast<std::uint32_t>(places_.size());
    AddPlaces(Sharing::kNone);
    return sharer_count;
  }

  enum class Sharing : std::uint8_t { kPossible, kNone };
  // A slice that fills half a tile gains little from sharing.
  [[nodiscard]] Sharing SharingOf(const BatchSlice& slice) const {
    const bool is_small = slice.token_count * group_ * 2 <= profile_.lane_tiles.back();
    return is_small && slice.first_position >= step_ ? Sharing::kPossible : Sharing::kNone;
  }

  void AddPlaces(Sharing sharing) {
    token_count_ = 0;
    for (std::uint32_t i = 0; i < slices_.size(); ++i) {
      const BatchSlice& slice = slices_[i];
      if (SharingOf(slice) == sharing) {
        places_.push_back(
            {.slice = i, .first_token = token_count_, .whole_blocks = slice.first_position / options_.block_tokens});
      }
      token_count_ += slice.token_count;
    }
  }

  void Share(Branch branch) {
    const Range places = branch.places;
    if (places.size() < 2 || branch.level == kMaxBranchings) return;
    std::uint32_t common = places_[places.begin].whole_blocks;
    for (std::uint32_t i = places.begin + 1; i < places.end && common > branch.common_blocks; ++i) {
      common = CommonBlocks(places_[places.begin], places_[i], {branch.common_blocks, common});
    }
    branch.common_blocks = common;
    const std::uint32_t end = common * options_.block_tokens / step_ * step_;
    if (end > branch.shared_end && MayShare(places) && Saved(places, end - branch.shared_end) > 0) {
      shared_row_count_ += RowsOf(places);
      shared_runs_.push_back({places, {branch.shared_end, end}});
      for (std::uint32_t i = places.begin; i < places.end; ++i) places_[i].shared_end = end;
      branch.shared_end = end;
    }
    ShareBeyond(branch);
  }

  [[nodiscard]] std::uint64_t RowsOf(Range places) const {
    std::uint64_t rows = 0;
    for (std::uint32_t i = places.begin; i < places.end; ++i) rows += SliceOf(places_[i]).token_count;
    return rows;
  }

  [[nodiscard]] bool MayShare(Range places) const {
    return shared_row_count_ + RowsOf(places) <= options_.max_shared_rows;
  }

  // Looks for sharing among the places of a branch that continue with the same block.
  void ShareBeyond(const Branch& branch) {
    const std::uint32_t common = branch.common_blocks;
    const std::uint32_t first_alone = GroupByBlock(branch.places, common);
    for (std::uint32_t first = branch.places.begin; first < first_alone;) {
      std::uint32_t last = first + 1;
      while (last < first_alone && BlockAt(places_[last], common) == BlockAt(places_[first], common)) ++last;
      Share({.places = {first, last},
             .common_blocks = common + 1,
             .shared_end = branch.shared_end,
             .level = branch.level + 1});
      first = last;
    }
  }

  // Moves places with the same block `index` next to each other, in their order, and all other places behind them;
  // returns where these others begin. If no two places have the same block, nothing moves and the first place is
  // returned.
  std::uint32_t GroupByBlock(Range places, std::uint32_t index) {
    FindGroups(places, index);
    std::uint32_t grouped_count = 0;
    for (Group& group : scratch_.groups) {
      group.next = grouped_count;
      grouped_count += group.size;
    }
    if (scratch_.groups.size() == grouped_count) return places.begin;
    std::uint32_t next_alone = grouped_count;
    scratch_.grouped.resize(places.size());
    for (std::uint32_t i = 0; i < places.size(); ++i) {
      const std::uint32_t group = scratch_.group_of[i];
      const std::uint32_t to = group != kNoGroup ? scratch_.groups[group].next++ : next_alone++;
      scratch_.grouped[to] = places_[places.begin + i];
    }
    std::copy(scratch_.grouped.begin(), scratch_.grouped.end(), places_.begin() + places.begin);
    return places.begin + grouped_count;
  }

  // Finds each place's group, and the groups with their sizes, in the order of their first places. Uses a hash table
  // with open addressing that is never more than half full.
  void FindGroups(Range places, std::uint32_t index) {
    constexpr std::uint32_t kHashFactor = 0x9E3779B9;  // Knuth, The Art of Computer Programming 3, 6.4
    const std::uint32_t size = std::bit_ceil(2 * places.size());
    scratch_.group_table.assign(size, kNoGroup);
    scratch_.group_of.clear();
    scratch_.groups.clear();
    for (std::uint32_t i = places.begin; i < places.end; ++i) {
      if (places_[i].whole_blocks <= index) {
        scratch_.group_of.push_back(kNoGroup);
        continue;
      }
      const BlockId block = BlockAt(places_[i], index);
      std::uint32_t at = (block.value() * kHashFactor) >> (32 - std::countr_zero(size));
      const auto holds_another = [&](std::uint32_t group) {
        return group != kNoGroup && scratch_.groups[group].block != block;
      };
      while (holds_another(scratch_.group_table[at])) at = (at + 1) % size;
      std::uint32_t& group = scratch_.group_table[at];
      if (group == kNoGroup) {
        group = static_cast<std::uint32_t>(scratch_.groups.size());
        scratch_.groups.push_back({.block = block});
      }
      ++scratch_.groups[group].size;
      scratch_.group_of.push_back(group);
    }
  }

  // The number of blocks that two places have in common, at most bounds.end; the first bounds.begin are known to be.
  // Found by bisection: if a block is equal, so are all before it.
  [[nodiscard]] std::uint32_t CommonBlocks(const Place& a, const Place& b, Range bounds) const {
    std::uint32_t low = bounds.begin;
    std::uint32_t high = std::min({bounds.end, a.whole_blocks, b.whole_blocks});
    if (high > low && BlockAt(a, high - 1) == BlockAt(b, high - 1)) return high;
    while (low < high) {
      const std::uint32_t middle = low + (high - low) / 2;
      if (BlockAt(a, middle) == BlockAt(b, middle)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  [[nodiscard]] std::int64_t Saved(Range places, std::uint32_t positions) {
    std::vector<std::uint32_t>& lanes = scratch_.lanes;
    lanes.clear();
    for (std::uint32_t i = places.begin; i < places.end; ++i) {
      lanes.push_back(SliceOf(places_[i]).token_count * group_);
    }
    return SavedBySharing(profile_, lanes, positions);
  }

  void AddRows() {
    for (Place& place : places_) {
      place.first_row = static_cast<std::uint32_t>(plan_.rows.size());
      const BatchSlice& slice = SliceOf(place);
      for (std::uint32_t i = 0; i < slice.token_count; ++i) {
        plan_.rows.push_back({place.first_token + i, slice.first_position + i});
      }
    }
  }

  // Reads each block of a place at most once: in a shared run or in the place's own work.
  void PackAll() {
    std::size_t most_blocks = 0;
    for (const BatchSlice& slice : slices_) most_blocks += slice.blocks.size();
    plan_.blocks.resize(most_blocks);
    for (const SharedRun& run : shared_runs_) PackShared(run);
    for (const Place& place : places_) PackOwn(place);
    plan_.blocks.resize(block_count_);
  }

  // Adds the blocks of these positions, which begin at a block's first position; returns where they are in the plan.
  std::uint32_t AddBlocks(const Place& place, Range positions) {
    const std::uint32_t first = positions.begin / options_.block_tokens;
    const std::uint32_t end = (positions.end + options_.block_tokens - 1) / options_.block_tokens;
    static_assert(sizeof(BlockId) == sizeof(std::uint32_t) && std::is_trivially_copyable_v<BlockId>);
    std::memcpy(plan_.blocks.data() + block_count_, SliceOf(place).blocks.data() + first,
                (end - first) * sizeof(BlockId));
    return std::exchange(block_count_, block_count_ + (end - first));
  }

  void PackShared(const SharedRun& run) {
    const Place& first = places_[run.places.begin];
    const Place& last = places_[run.places.end - 1];
    const std::uint32_t end = last.first_row + SliceOf(last).token_count;
    const std::uint32_t first_block = AddBlocks(first, run.positions);
    for (std::uint32_t row = first.first_row; row < end; row += rows_per_pack_) {
      works_.push_back({.rows = {row, std::min(end, row + rows_per_pack_)},
                        .positions = run.positions,
                        .first_block = first_block,
                        .output = AttentionItem::Output::kPartial});
    }
  }

  void PackOwn(const Place& place) {
    const std::uint32_t end = place.first_row + SliceOf(place).token_count;
    const std::uint32_t first_block = AddBlocks(place, {place.shared_end, plan_.rows[end - 1].position + 1});
    for (std::uint32_t row = place.first_row; row < end; row += rows_per_pack_) {
      const Range rows{row, std::min(end, row + rows_per_pack_)};
      works_.push_back(
          {.rows = rows,
           .positions = {place.shared_end, plan_.rows[rows.end - 1].position + 1},
           .first_block = first_block,
           .output = place.shared_end > 0 ? AttentionItem::Output::kPartial : AttentionItem::Output::kWhole});
    }
  }

  void CutAll() {
    const double limit = profile_.concurrent_items > 1 ? BestPieceCost() : std::numeric_limits<double>::max();
    for (const Work& work : works_) {
      const std::optional<std::uint32_t> length = PieceLength(work, limit);
      if (!length.has_value()) {
        Add(work, work.positions, AttentionItem::Output::kWhole);
        continue;
      }
      for (std::uint32_t first = work.positions.begin; first < work.positions.end; first += *length) {
        Add(work, {first, std::min(work.positions.end, first + *length)}, AttentionItem::Output::kPartial);
      }
    }
  }

  // The length of the pieces of `work` if no piece may cost more than `limit`; nullopt for one whole item.
  [[nodiscard]] std::optional<std::uint32_t> PieceLength(const Work& work, double limit) const {
    const std::uint32_t count = work.positions.size();
    // No piece is shorter than an item's fixed cost.
    const std::uint32_t least = std::max(step_, profile_.item_cost_positions);
    const double wanted = std::max<double>(least, limit / static_cast<double>(position_costs_[work.rows.size()]));
    if (work.output == AttentionItem::Output::kWhole && count <= wanted) return std::nullopt;
    const auto pieces = static_cast<std::uint32_t>(std::ceil(count / wanted));
    return std::min(profile_.max_partial_positions, RoundUp((count + pieces - 1) / pieces, step_));
  }

  [[nodiscard]] double BestPieceCost() const {
    std::uint64_t total = 0;
    std::uint64_t longest = 0;
    for (const Work& work : works_) {
      const std::uint64_t cost = position_costs_[work.rows.size()] * work.positions.size();
      total += cost;
      longest = std::max(longest, cost);
    }
    const double share = static_cast<double>(total) * options_.kv_head_count / profile_.concurrent_items;
    double best_limit = 0;
    double best_time = std::numeric_limits<double>::max();
    for (const double pieces : kPiecesPerPlace) {
      const double limit = share / pieces;
      const bool cuts_none = limit > static_cast<double>(longest);
      if (cuts_none && best_limit > 0) continue;  // nor did the candidate before
      const double time = TimeOf(limit);
      if (time >= best_time * (1 - kEqualTimes)) continue;
      best_time = time;
      best_limit = limit;
      if (time <= share * (1 + kEqualTimes)) break;
    }
    return best_limit;
  }

  // The time until the last piece is done, in units of cost, if no piece costs more than `limit`. All places are busy
  // except in the last round, where the places without a piece of average cost are idle.
  [[nodiscard]] double TimeOf(double limit) const {
    double cost = 0;
    double longest = 0;
    std::uint64_t count = 0;
    for (const Work& work : works_) {
      const double of_position = static_cast<double>(position_costs_[work.rows.size()]);
      const std::optional<std::uint32_t> length = PieceLength(work, limit);
      const std::uint32_t pieces = length.has_value() ? (work.positions.size() + *length - 1) / *length : 1;
      cost += of_position * (work.positions.size() + static_cast<double>(pieces) * profile_.item_cost_positions);
      if (pieces > 1) cost += static_cast<double>(pieces * work.rows.size() * group_ * CostOfPartial(profile_));
      longest =
          std::max(longest, of_position * (length.value_or(work.positions.size()) + profile_.item_cost_positions));
      count += pieces;
    }
    cost *= options_.kv_head_count;
    count *= options_.kv_head_count;
    const auto places = static_cast<double>(profile_.concurrent_items);
    const double rounds = static_cast<double>(count) / places;
    return std::max(longest, cost / places + (std::ceil(rounds) - rounds) * cost / static_cast<double>(count));
  }

  void Add(const Work& work, Range positions, AttentionItem::Output output) {
    plan_.items.push_back(
        {.first_row = work.rows.begin,
         .row_count = work.rows.size(),
         .first_block = work.first_block + (positions.begin - work.positions.begin) / options_.block_tokens,
         .first_position = positions.begin,
         .position_count = positions.size(),
         .first_partial = plan_.partial_count,
         .output = output});
    if (output == AttentionItem::Output::kWhole) return;
    for (std::uint32_t row = work.rows.begin; row < work.rows.end; ++row) {
      parts_.push_back({plan_.rows[row].token, plan_.partial_count});
      plan_.partial_count += options_.query_head_count;
    }
  }

  // The works of a token come in the order of their positions, so its parts do too.
  void AddMerges() {
    if (parts_.empty()) return;
    std::vector<std::uint32_t>& next = scratch_.next_part;
    next.assign(std::size_t{token_count_} + 1, 0);
    for (const Part& part : parts_) ++next[part.token + 1];
    for (std::uint32_t token = 0; token < token_count_; ++token) {
      const std::uint32_t count = next[token + 1];
      if (count > 0) plan_.merges.push_back({.token = token, .first_part = next[token], .part_count = count});
      next[token + 1] += next[token];
    }
    plan_.parts.resize(parts_.size());
    for (const Part& part : parts_) plan_.parts[next[part.token]++] = part.partial;
  }

  // Sorts the longest items first, so that little is left at the end. A counting sort: items of about equal length keep
  // their order.
  void SortItems() {
    std::uint64_t longest = 1;
    for (const AttentionItem& item : plan_.items) longest = std::max(longest, CostOf(item));
    const auto class_of = [&](const AttentionItem& item) {
      return (longest - CostOf(item)) * (kLengthClasses - 1) / longest;
    };
    std::array<std::uint32_t, kLengthClasses + 1> next{};  // place of each class; first the previous class's size
    for (const AttentionItem& item : plan_.items) ++next[class_of(item) + 1];
    for (std::size_t i = 1; i < next.size(); ++i) next[i] += next[i - 1];
    scratch_.items.resize(plan_.items.size());
    for (const AttentionItem& item : plan_.items) scratch_.items[next[class_of(item)]++] = item;
    plan_.items.swap(scratch_.items);
  }

  [[nodiscard]] std::uint64_t CostOf(const AttentionItem& item) const {
    return position_costs_[item.row_count] * item.position_count;
  }

  std::span<const BatchSlice> slices_;
  const AttentionPlanOptions& options_;
  const AttentionProfile& profile_;
  AttentionPlan& plan_;
  AttentionPlanScratch& scratch_;
  const std::uint32_t group_;  // query heads per kv head
  const std::uint32_t rows_per_pack_;
  const std::uint32_t step_;  // partial items begin at its multiples
  std::uint32_t token_count_ = 0;
  std::uint32_t block_count_ = 0;  // blocks in plan_.blocks so far
  // These belong to the scratch; see there.
  std::vector<std::uint64_t>& position_costs_;
  std::vector<Place>& places_;
  std::vector<SharedRun>& shared_runs_;
  std::vector<Work>& works_;
  std::vector<Part>& parts_;
  std::uint64_t shared_row_count_ = 0;  // of the shared runs
};

}  // namespace

void PlanAttention(std::span<const BatchSlice> slices, const AttentionPlanOptions& options, AttentionPlan& plan) {
  Planner(slices, options, plan).Run();
}

std::uint64_t AttentionCost(const AttentionProfile& profile, std::uint32_t lanes, std::uint32_t positions) {
  return (std::uint64_t{positions} + profile.item_cost_positions) * PositionCost(profile, lanes);
}

std::int64_t SavedBySharing(const AttentionProfile& profile, std::span<const std::uint32_t> lanes,
                            std::uint32_t positions) {
  std::uint64_t alone = 0;
  std::uint32_t all_lanes = 0;
  for (const std::uint32_t of_one : lanes) {
    // Each slice has an item of its own in any case.
    alone += AttentionCost(profile, of_one, positions) - AttentionCost(profile, of_one, 0);
    all_lanes += of_one;
  }
  const std::uint32_t largest = profile.lane_tiles.back();
  // One partial result for the shared positions and one for the others, which would be whole without sharing.
  std::uint64_t together = 2 * all_lanes * CostOfPartial(profile);
  together += all_lanes / largest * AttentionCost(profile, largest, positions);
  if (all_lanes % largest > 0) together += AttentionCost(profile, all_lanes % largest, positions);
  return static_cast<std::int64_t>(alone) - static_cast<std::int64_t>(together);
}

}  // namespace roost::worker
