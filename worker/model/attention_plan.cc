#include "worker/model/attention_plan.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>

#include "common/base/check.h"

namespace roost::worker {
namespace {

using kernels::AttentionItem;
using kernels::AttentionProfile;

// What a lane pays for a partial result that is written, read and folded: as much as for reading so many positions.
constexpr std::uint64_t kPartialCostPositions = 2;
// How short pieces may be: so that each place of the device would get so many. Shorter ones leave less idle at the end,
// and cost more. A little below a whole number, what is left over makes no round of its own.
constexpr double kPiecesPerPlace[] = {0.9, 1, 1.8, 2, 2.7, 3, 4, kMostPiecesPerPlace};
// Times that differ by less are equal: what they are made of is not known any better.
constexpr double kEqualTimes = 0.03;

std::uint32_t RoundUp(std::uint32_t value, std::uint32_t step) { return (value + step - 1) / step * step; }

// What computing a position with so many lanes costs.
std::uint64_t PositionCost(const AttentionProfile& profile, std::uint32_t lanes) {
  const auto tile = std::find_if(profile.lane_tiles.begin(), profile.lane_tiles.end(),
                                 [lanes](std::uint32_t size) { return size >= lanes; });
  // A group beyond the largest tile is read once for each of its parts.
  const std::uint32_t largest = profile.lane_tiles.back();
  const std::uint32_t tiles = tile != profile.lane_tiles.end() ? 1 : (lanes + largest - 1) / largest;
  const std::uint32_t tile_lanes = tile != profile.lane_tiles.end() ? *tile : largest;
  return std::uint64_t{tiles} * (profile.read_cost_lanes + tile_lanes);
}

std::uint64_t CostOfPartial(const AttentionProfile& profile) { return kPartialCostPositions * profile.read_cost_lanes; }

struct Range {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  [[nodiscard]] std::uint32_t size() const { return end - begin; }
};

class Planner {
 public:
  Planner(std::span<const BatchSlice> slices, const AttentionPlanOptions& options, AttentionPlan& plan)
      : slices_(slices),
        options_(options),
        profile_(options.profile),
        plan_(plan),
        group_(options.query_head_count / options.kv_head_count),
        rows_per_pack_(std::max(1U, profile_.lane_tiles.back() / group_)),
        step_(std::max(profile_.partial_step, options.block_tokens)) {
    for (std::uint32_t rows = 0; rows <= rows_per_pack_; ++rows) {
      position_costs_.push_back(PositionCost(profile_, rows * group_));
    }
  }

  void Run() {
    plan_.Clear();
    LocateSlices();
    Share({.places = {0, PartitionSharers()}});
    AddRows();
    for (const SharedRun& run : shared_runs_) PackShared(run);
    for (const Place& place : places_) PackOwn(place);
    CutAll();
    AddMerges();
    SortItems();
  }

 private:
  // A slice's place in the order of rows: neighbours in the tree stand side by side.
  struct Place {
    std::uint32_t slice = 0;
    std::uint32_t first_token = 0;   // of the batch
    std::uint32_t whole_blocks = 0;  // before its first position: others may have them too
    std::uint32_t shared_end = 0;    // positions before it are in shared runs
    std::uint32_t first_row = 0;     // in plan_.rows
  };
  // Neighbouring places on positions that all of them have in the same blocks.
  struct SharedRun {
    Range places;
    Range positions;
  };
  // Neighbouring places whose first blocks are the same.
  struct Branch {
    Range places;
    std::uint32_t common_blocks = 0;  // known so far
    std::uint32_t shared_end = 0;     // positions before it are in shared runs
    std::uint32_t level = 0;
  };
  // Rows on positions, not yet cut.
  struct Work {
    Range rows;
    Range positions;
    std::uint32_t first_block = 0;  // in plan_.blocks, of the first position
    AttentionItem::Output output = AttentionItem::Output::kWhole;
  };
  struct Part {
    std::uint32_t token = 0;
    std::uint32_t partial = 0;
  };

  [[nodiscard]] const BatchSlice& SliceOf(const Place& place) const { return slices_[place.slice]; }
  [[nodiscard]] BlockId BlockAt(const Place& place, std::uint32_t index) const { return SliceOf(place).blocks[index]; }

  void LocateSlices() {
    for (std::uint32_t i = 0; i < slices_.size(); ++i) {
      places_.push_back(
          {.slice = i, .first_token = token_count_, .whole_blocks = slices_[i].first_position / options_.block_tokens});
      token_count_ += slices_[i].token_count;
    }
  }

  // Those that may share come first; the answer is how many they are. A slice that fills half a tile gains little.
  std::uint32_t PartitionSharers() {
    const auto others = std::stable_partition(places_.begin(), places_.end(), [this](const Place& place) {
      const BatchSlice& slice = SliceOf(place);
      return slice.token_count * group_ * 2 <= profile_.lane_tiles.back() && slice.first_position >= step_;
    });
    return static_cast<std::uint32_t>(others - places_.begin());
  }

  void Share(Branch branch) {
    const Range places = branch.places;
    if (places.size() < 2 || branch.level == kMaxBranchings) return;
    std::uint32_t common = std::numeric_limits<std::uint32_t>::max();
    for (std::uint32_t i = places.begin + 1; i < places.end; ++i) {
      common = std::min(common, CommonBlocks(places_[places.begin], places_[i], branch.common_blocks));
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

  // Among the places of a branch, those that go on with the same block.
  void ShareBeyond(const Branch& branch) {
    const std::uint32_t common = branch.common_blocks;
    const auto begin = places_.begin() + branch.places.begin;
    const auto end = places_.begin() + branch.places.end;
    const auto longer =
        std::stable_partition(begin, end, [common](const Place& place) { return place.whole_blocks <= common; });
    std::stable_sort(longer, end,
                     [&](const Place& a, const Place& b) { return BlockAt(a, common) < BlockAt(b, common); });
    for (auto first = longer; first != end;) {
      const auto last = std::find_if(
          first, end, [&](const Place& place) { return BlockAt(place, common) != BlockAt(*first, common); });
      Share({.places = {static_cast<std::uint32_t>(first - places_.begin()),
                        static_cast<std::uint32_t>(last - places_.begin())},
             .common_blocks = common + 1,
             .shared_end = branch.shared_end,
             .level = branch.level + 1});
      first = last;
    }
  }

  // How many blocks two places have in common; the first `known` are. By bisection: a block stands for all before it.
  [[nodiscard]] std::uint32_t CommonBlocks(const Place& a, const Place& b, std::uint32_t known) const {
    std::uint32_t low = known;
    std::uint32_t high = std::min(a.whole_blocks, b.whole_blocks);
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
    lanes_.clear();
    for (std::uint32_t i = places.begin; i < places.end; ++i) {
      lanes_.push_back(SliceOf(places_[i]).token_count * group_);
    }
    return SavedBySharing(profile_, lanes_, positions);
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

  // The blocks of these positions, which begin with one; the answer is where they are in the plan.
  std::uint32_t AddBlocks(const Place& place, Range positions) {
    const std::uint32_t first = positions.begin / options_.block_tokens;
    const std::uint32_t end = (positions.end + options_.block_tokens - 1) / options_.block_tokens;
    const std::size_t at = plan_.blocks.size();
    static_assert(sizeof(BlockId) == sizeof(std::uint32_t) && std::is_trivially_copyable_v<BlockId>);
    plan_.blocks.resize(at + (end - first));
    std::memcpy(plan_.blocks.data() + at, SliceOf(place).blocks.data() + first, (end - first) * sizeof(BlockId));
    return static_cast<std::uint32_t>(at);
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

  // Of the works' pieces, when none costs more than `limit`; nullopt for a whole item.
  [[nodiscard]] std::optional<std::uint32_t> PieceLength(const Work& work, double limit) const {
    const std::uint32_t count = work.positions.size();
    // Nothing shorter than what an item costs besides.
    const std::uint32_t least = std::max(step_, profile_.item_cost_positions);
    const double wanted = std::max<double>(least, limit / static_cast<double>(position_costs_[work.rows.size()]));
    if (work.output == AttentionItem::Output::kWhole && count <= wanted) return std::nullopt;
    const auto pieces = static_cast<std::uint32_t>(std::ceil(count / wanted));
    return std::min(profile_.max_partial_positions, RoundUp((count + pieces - 1) / pieces, step_));
  }

  [[nodiscard]] double BestPieceCost() const {
    std::uint64_t total = 0;
    for (const Work& work : works_) total += position_costs_[work.rows.size()] * work.positions.size();
    const double share = static_cast<double>(total) * options_.kv_head_count / profile_.concurrent_items;
    double best_limit = 0;
    double best_time = std::numeric_limits<double>::max();
    for (const double pieces : kPiecesPerPlace) {
      const double time = TimeOf(share / pieces);
      if (time >= best_time * (1 - kEqualTimes)) continue;
      best_time = time;
      best_limit = share / pieces;
      if (time <= share * (1 + kEqualTimes)) break;
    }
    return best_limit;
  }

  // Until the last piece is done, in units of cost, when none costs more than `limit`. Places are all busy but in the
  // last round, in which so many are idle as do not get a piece of average cost.
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

  // Works came in the order of positions for each token, so its parts do.
  void AddMerges() {
    std::vector<std::uint32_t> next(std::size_t{token_count_} + 1);
    for (const Part& part : parts_) ++next[part.token + 1];
    for (std::uint32_t token = 0; token < token_count_; ++token) {
      const std::uint32_t count = next[token + 1];
      if (count > 0) plan_.merges.push_back({.token = token, .first_part = next[token], .part_count = count});
      next[token + 1] += next[token];
    }
    plan_.parts.resize(parts_.size());
    for (const Part& part : parts_) plan_.parts[next[part.token]++] = part.partial;
  }

  // The longest first: what is left for the end is short.
  void SortItems() {
    const auto cost = [this](const AttentionItem& item) {
      return position_costs_[item.row_count] * item.position_count;
    };
    std::stable_sort(plan_.items.begin(), plan_.items.end(),
                     [&cost](const AttentionItem& a, const AttentionItem& b) { return cost(a) > cost(b); });
  }

  std::span<const BatchSlice> slices_;
  const AttentionPlanOptions& options_;
  const AttentionProfile& profile_;
  AttentionPlan& plan_;
  const std::uint32_t group_;  // query heads per kv head
  const std::uint32_t rows_per_pack_;
  const std::uint32_t step_;                   // partial items begin at its multiples
  std::vector<std::uint64_t> position_costs_;  // of items with so many rows
  std::uint32_t token_count_ = 0;
  std::vector<Place> places_;
  std::vector<SharedRun> shared_runs_;  // a run before those inside of it
  std::uint64_t shared_row_count_ = 0;  // of the runs
  std::vector<Work> works_;
  std::vector<Part> parts_;
  std::vector<std::uint32_t> lanes_;
};

}  // namespace

void AttentionPlan::Clear() {
  blocks.clear();
  rows.clear();
  items.clear();
  merges.clear();
  parts.clear();
  partial_count = 0;
}

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
    // Each has an item of its own in any case.
    alone += AttentionCost(profile, of_one, positions) - AttentionCost(profile, of_one, 0);
    all_lanes += of_one;
  }
  const std::uint32_t largest = profile.lane_tiles.back();
  // One for the shared positions, and one for the others, which need not have been partial.
  std::uint64_t together = 2 * all_lanes * CostOfPartial(profile);
  together += all_lanes / largest * AttentionCost(profile, largest, positions);
  if (all_lanes % largest > 0) together += AttentionCost(profile, all_lanes % largest, positions);
  return static_cast<std::int64_t>(alone) - static_cast<std::int64_t>(together);
}

}  // namespace roost::worker
