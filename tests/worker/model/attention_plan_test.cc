// The work list covers every position of every row exactly once, respects the profile, and shares where sharing saves
// time.
#include "worker/model/attention_plan.h"

#include <gtest/gtest.h>

#include <bit>
#include <functional>
#include <map>
#include <queue>
#include <set>

#include "common/base/rng.h"

namespace roost::worker {
namespace {

using kernels::AttentionItem;
using kernels::AttentionMerge;
using kernels::AttentionProfile;

// Like a CUDA device's.
constexpr AttentionProfile kWide{.lane_tiles = {16, 64, 128},
                                 .partial_step = 16,
                                 .max_partial_positions = 1U << 30U,
                                 .read_cost_lanes = 64,
                                 .item_cost_positions = 64,
                                 .concurrent_items = 264};
constexpr AttentionProfile kNarrow{.concurrent_items = 2};

struct Case {
  AttentionPlanOptions options;
  std::vector<std::vector<BlockId>> blocks;
  std::vector<BatchSlice> slices;
  AttentionPlan plan;

  // The slice's first `shared` blocks are those of slice `parent`.
  void Add(std::uint32_t first_position, std::uint32_t token_count, std::size_t parent = 0, std::uint32_t shared = 0) {
    std::vector<BlockId> own;
    while (own.size() * options.block_tokens < first_position + token_count) {
      own.push_back(own.size() < shared ? blocks[parent][own.size()] : BlockId(next_block++));
    }
    blocks.push_back(std::move(own));
    slices.push_back({.blocks = {}, .first_position = first_position, .token_count = token_count});
  }

  const AttentionPlan& Plan() {
    for (std::size_t i = 0; i < slices.size(); ++i) slices[i].blocks = blocks[i];
    PlanAttention(slices, options, plan);
    return plan;
  }

  [[nodiscard]] std::uint64_t CostOfPlan() const {
    std::uint64_t cost = 0;
    for (const AttentionItem& item : plan.items) {
      cost += AttentionCost(options.profile, item.row_count * options.query_head_count / options.kv_head_count,
                            item.position_count);
    }
    return cost;
  }

  std::uint32_t next_block = 0;
};

Case RandomCase(Rng& rng) {
  Case c;
  c.options.block_tokens = 4U << rng.Below(7);
  c.options.kv_head_count = 1 + static_cast<std::uint32_t>(rng.Below(3));
  c.options.query_head_count = c.options.kv_head_count * (1 + static_cast<std::uint32_t>(rng.Below(20)));
  c.options.profile = rng.Below(2) == 0 ? kWide : kNarrow;
  c.options.profile.concurrent_items = 1 + static_cast<std::uint32_t>(rng.Below(40));
  const std::size_t slices = 1 + rng.Below(24);
  for (std::size_t s = 0; s < slices; ++s) {
    const auto first = static_cast<std::uint32_t>(rng.Below(rng.Below(2) == 0 ? 3000 : 300));
    const std::uint32_t count = rng.Below(3) > 0 ? 1 : 1 + static_cast<std::uint32_t>(rng.Below(200));
    const std::size_t parent = s > 0 ? rng.Below(s) : 0;
    std::uint32_t shared = 0;
    if (s > 0 && rng.Below(4) > 0) {
      // The blocks that both have computed before this batch.
      const std::uint32_t whole = std::min(first, c.slices[parent].first_position) / c.options.block_tokens;
      shared = whole - static_cast<std::uint32_t>(rng.Below(whole / 4 + 1));
    }
    c.Add(first, count, parent, shared);
  }
  c.Plan();
  return c;
}

// Checks that an item's blocks are those of its rows' slice; returns the slice of every token.
std::vector<std::size_t> SliceOfTokens(const Case& c) {
  std::vector<std::size_t> slices;
  for (std::size_t s = 0; s < c.slices.size(); ++s) slices.insert(slices.end(), c.slices[s].token_count, s);
  return slices;
}

void ExpectOwnBlocks(const Case& c, const AttentionItem& item, const std::vector<BlockId>& blocks) {
  const std::uint32_t first = item.first_position / c.options.block_tokens;
  const std::uint32_t end = item.first_position + item.position_count;
  for (std::uint32_t b = first; b * c.options.block_tokens < end; ++b) {
    ASSERT_EQ(c.plan.blocks[item.first_block + b - first], blocks[b].value());
  }
}

void ExpectKeepsToTheProfile(const Case& c, const AttentionItem& item) {
  const AttentionProfile& profile = c.options.profile;
  const std::uint32_t group = c.options.query_head_count / c.options.kv_head_count;
  ASSERT_TRUE(item.row_count == 1 || item.row_count * group <= profile.lane_tiles.back());
  if (item.output == AttentionItem::Output::kWhole) {
    ASSERT_EQ(item.first_position, 0U);
    return;
  }
  ASSERT_EQ(item.first_position % profile.partial_step, 0U);
  ASSERT_EQ(item.first_position % c.options.block_tokens, 0U);
  ASSERT_LE(item.position_count, profile.max_partial_positions);
}

void ExpectCoversAll(const Case& c) {
  const std::vector<std::size_t> slice_of = SliceOfTokens(c);
  std::set<std::uint32_t> whole;                          // tokens
  std::map<std::uint32_t, const AttentionItem*> item_of;  // by a row's first partial
  for (const AttentionItem& item : c.plan.items) {
    ASSERT_NO_FATAL_FAILURE(ExpectKeepsToTheProfile(c, item));
    for (std::uint32_t r = 0; r < item.row_count; ++r) {
      const kernels::AttentionRow& row = c.plan.rows[item.first_row + r];
      ASSERT_NO_FATAL_FAILURE(ExpectOwnBlocks(c, item, c.blocks[slice_of[row.token]]));
      if (item.output == AttentionItem::Output::kPartial) {
        const std::uint32_t partial = item.first_partial + r * c.options.query_head_count;
        ASSERT_LE(partial + c.options.query_head_count, c.plan.partial_count);
        ASSERT_TRUE(item_of.emplace(partial, &item).second);
      } else {
        ASSERT_GE(item.position_count, row.position + 1);
        ASSERT_TRUE(whole.insert(row.token).second);
      }
    }
  }
  ASSERT_EQ(item_of.size() * c.options.query_head_count, c.plan.partial_count);
  for (const AttentionMerge& merge : c.plan.merges) {
    std::uint32_t end = 0;
    for (std::uint32_t i = 0; i < merge.part_count; ++i) {
      const AttentionItem& item = *item_of.at(c.plan.parts[merge.first_part + i]);
      ASSERT_EQ(item.first_position, end);
      end += item.position_count;
      item_of.erase(c.plan.parts[merge.first_part + i]);
    }
    ASSERT_TRUE(whole.insert(merge.token).second);
    const BatchSlice& slice = c.slices[slice_of[merge.token]];
    ASSERT_GE(end, slice.first_position + 1);
    ASSERT_LE(end, slice.first_position + slice.token_count);
  }
  ASSERT_TRUE(item_of.empty());
  ASSERT_EQ(whole.size(), slice_of.size());
}

TEST(AttentionPlanTest, EveryPositionOfEveryRowIsCoveredOnceAndInOrder) {
  Rng rng(1);
  for (int round = 0; round < 400; ++round) ASSERT_NO_FATAL_FAILURE(ExpectCoversAll(RandomCase(rng)));
}

// Each request leaves the path of the previous one a little later, so that there is a branch at every level.
TEST(AttentionPlanTest, ADeepTreeIsSharedToABoundedDepth) {
  Case c;
  c.options = {.block_tokens = 16, .query_head_count = 8, .kv_head_count = 8, .profile = kWide};
  for (std::uint32_t i = 0; i < 300; ++i) c.Add(16 * 400, 1, i > 0 ? i - 1 : 0, i);
  c.Plan();
  ExpectCoversAll(c);
}

AttentionBatchSize SizeOf(const Case& c) {
  AttentionBatchSize size;
  for (const BatchSlice& slice : c.slices) {
    size.token_count += slice.token_count;
    ++size.slice_count;
    size.context_tokens = std::max(size.context_tokens, slice.first_position + slice.token_count);
  }
  return size;
}

void ExpectFitsIntoTheLargest(const Case& c) {
  const AttentionPlanSize largest = LargestPlan(SizeOf(c), c.options);
  ASSERT_LE(c.plan.blocks.size(), largest.blocks);
  ASSERT_LE(c.plan.rows.size(), largest.rows);
  ASSERT_LE(c.plan.items.size(), largest.items);
  ASSERT_LE(c.plan.merges.size(), largest.merges);
  ASSERT_LE(c.plan.parts.size(), largest.parts);
  ASSERT_LE(c.plan.partial_count, largest.partials);
}

TEST(AttentionPlanTest, SharedRowsAreBoundedAndNoPlanIsLargerThanTheLargest) {
  Rng rng(3);
  std::size_t less_shared = 0;
  for (int round = 0; round < 400; ++round) {
    Case c = RandomCase(rng);
    const std::uint32_t unbounded = c.plan.partial_count;
    c.options.max_shared_rows = static_cast<std::uint32_t>(rng.Below(60));
    c.Plan();
    ASSERT_NO_FATAL_FAILURE(ExpectCoversAll(c));
    ASSERT_NO_FATAL_FAILURE(ExpectFitsIntoTheLargest(c));
    less_shared += c.plan.partial_count < unbounded ? 1 : 0;
  }
  EXPECT_GT(less_shared, 20U);
}

// 256 decodes that branch in pairs, as deep as sharing goes: each is in as many items as possible.
TEST(AttentionPlanTest, DecodesShareAllTheyCanWithinTheBoundOfServing) {
  Case c;
  c.options = {.block_tokens = 16, .query_head_count = 32, .kv_head_count = 8, .profile = kWide};
  constexpr std::uint32_t kRequests = 256;
  for (std::uint32_t i = 0; i < kRequests; ++i) {
    const std::uint32_t parent = i & (i - 1);  // without its lowest bit
    c.Add(16 * 64 * 9, 1, i > 0 ? parent : 0, i > 0 ? 64 * (8 - static_cast<std::uint32_t>(std::countr_zero(i))) : 0);
  }
  const std::uint32_t unbounded = c.Plan().partial_count;
  c.options.max_shared_rows = kMaxBranchings * kRequests;
  EXPECT_EQ(c.Plan().partial_count, unbounded);
  EXPECT_GT(unbounded, kRequests * 32 * kMaxBranchings);
  ExpectFitsIntoTheLargest(c);
}

// The memory that steps of 4,096 tokens of an 8B model reserve: the limits are useful only if they are close to what is
// needed.
TEST(AttentionPlanTest, TheLargestPlanIsNoLargerThanALayersActivations) {
  const AttentionPlanSize largest = LargestPlan({.token_count = 4096, .slice_count = 256, .context_tokens = 131'072},
                                                {.block_tokens = 16,
                                                 .query_head_count = 32,
                                                 .kv_head_count = 8,
                                                 .profile = kWide,
                                                 .max_shared_rows = kMaxBranchings * 256});
  EXPECT_LT(largest.partials * kernels::PartialFloats(128) * sizeof(float), std::size_t{256} << 20U);
  EXPECT_EQ(largest.blocks, 256U * 131'072 / 16);
}

TEST(AttentionPlanTest, RowsAreTheTokensWithTheirPositions) {
  Rng rng(2);
  const Case c = RandomCase(rng);
  std::map<std::uint32_t, std::uint32_t> position_of;
  for (const kernels::AttentionRow& row : c.plan.rows) ASSERT_TRUE(position_of.emplace(row.token, row.position).second);
  std::uint32_t token = 0;
  for (const BatchSlice& slice : c.slices) {
    for (std::uint32_t i = 0; i < slice.token_count; ++i) EXPECT_EQ(position_of.at(token++), slice.first_position + i);
  }
}

Case Decodes(const AttentionProfile& profile, std::uint32_t requests, std::uint32_t context,
             std::uint32_t shared_blocks) {
  Case c;
  c.options = {.block_tokens = 16, .query_head_count = 32, .kv_head_count = 8, .profile = profile};
  for (std::uint32_t i = 0; i < requests; ++i) c.Add(context + i, 1, 0, i > 0 ? shared_blocks : 0);
  c.Plan();
  return c;
}

TEST(AttentionPlanTest, APrefixOfManyRequestsIsReadOnce) {
  EXPECT_LT(Decodes(kWide, 64, 9000, 512).CostOfPlan() * 3, Decodes(kWide, 64, 9000, 0).CostOfPlan());
  EXPECT_LT(Decodes(kNarrow, 64, 9000, 512).CostOfPlan(), Decodes(kNarrow, 64, 9000, 0).CostOfPlan());
  // 64 requests of 4 lanes fill two tiles of 128 lanes, so each of the 8,192 shared positions is in two items.
  const Case together = Decodes(kWide, 64, 9000, 512);
  std::uint32_t shared = 0;
  for (const AttentionItem& item : together.plan.items) shared += item.row_count > 1 ? item.position_count : 0;
  EXPECT_EQ(shared, 2 * 8192U);
}

TEST(AttentionPlanTest, BranchesOfASharedPrefixShareWhatIsTheirs) {
  Case c;
  c.options = {.block_tokens = 16, .query_head_count = 32, .kv_head_count = 8, .profile = kWide};
  for (std::uint32_t i = 0; i < 16; ++i) {
    // All have 128 blocks in common; requests 0 to 7 have 256 in common, and so have 8 to 15.
    if (i == 0 || i == 8) {
      c.Add(5000, 1, 0, i == 0 ? 0 : 128);
    } else {
      c.Add(5000 + i, 1, i / 8 * 8, 256);
    }
  }
  c.Plan();
  std::map<std::uint32_t, std::uint32_t> rows_at;  // shared items' positions → rows in them
  for (const AttentionItem& item : c.plan.items) {
    if (item.row_count == 1) continue;
    for (std::uint32_t j = 0; j < item.position_count; ++j) rows_at[item.first_position + j] += item.row_count;
  }
  for (std::uint32_t j = 0; j < 4096; ++j) EXPECT_EQ(rows_at[j], 16U) << j;
  EXPECT_EQ(rows_at.size(), 4096U);
}

TEST(AttentionPlanTest, SharingHappensOnlyWhereItSaves) {
  const std::vector<std::uint32_t> two(2, 4);
  const std::vector<std::uint32_t> many(64, 4);
  EXPECT_LT(SavedBySharing(kWide, two, 16), 0);
  EXPECT_GT(SavedBySharing(kWide, two, 4096), 0);
  EXPECT_GT(SavedBySharing(kWide, many, 4096), SavedBySharing(kWide, two, 4096));
  const Case short_prefix = Decodes(kWide, 2, 4000, 1);
  for (const AttentionItem& item : short_prefix.plan.items) EXPECT_EQ(item.row_count, 1U);
}

// The time that the device takes, over the time if nothing were ever idle or computed twice. Each place takes the next
// item when it is free.
double TimeOverIdeal(const Case& c) {
  const AttentionPlanOptions& options = c.options;
  const std::uint32_t group = options.query_head_count / options.kv_head_count;
  std::priority_queue<double, std::vector<double>, std::greater<>> free_at;
  for (std::uint32_t i = 0; i < options.profile.concurrent_items; ++i) free_at.push(0);
  double end = 0;
  double ideal = 0;
  for (const AttentionItem& item : c.plan.items) {
    const auto cost = static_cast<double>(AttentionCost(options.profile, item.row_count * group, item.position_count));
    const auto fixed = static_cast<double>(AttentionCost(options.profile, item.row_count * group, 0));
    for (std::uint32_t head = 0; head < options.kv_head_count; ++head) {
      const double done = free_at.top() + cost;
      free_at.pop();
      free_at.push(done);
      end = std::max(end, done);
      ideal += (cost - fixed) / options.profile.concurrent_items;
    }
  }
  return end / ideal;
}

TEST(AttentionPlanTest, CutsSoThatAllPlacesAreBusy) {
  for (const std::uint32_t requests : {5U, 20U, 33U, 40U, 48U, 64U, 100U, 200U}) {
    EXPECT_LT(TimeOverIdeal(Decodes(kWide, requests, 4000, 0)), 1.25) << requests;
  }
  // With so few requests the fixed cost of items weighs more.
  for (const std::uint32_t requests : {1U, 2U}) EXPECT_LT(TimeOverIdeal(Decodes(kWide, requests, 4000, 0)), 1.6);
  Case mixed = Decodes(kWide, 30, 500, 0);
  mixed.Add(20000, 1);
  mixed.Add(1000, 700);
  mixed.Plan();
  EXPECT_LT(TimeOverIdeal(mixed), 1.25);
}

TEST(AttentionPlanTest, ManyShortContextsStayWhole) {
  for (const AttentionItem& item : Decodes(kWide, 256, 500, 0).plan.items) {
    EXPECT_EQ(item.output, AttentionItem::Output::kWhole);
  }
}

TEST(AttentionPlanTest, OneThreadGainsNothingFromCutting) {
  AttentionProfile one = kNarrow;
  one.concurrent_items = 1;
  const Case c = Decodes(one, 1, 9000, 0);
  ASSERT_EQ(c.plan.items.size(), 1U);
  EXPECT_EQ(c.plan.items[0].output, AttentionItem::Output::kWhole);
}

}  // namespace
}  // namespace roost::worker
