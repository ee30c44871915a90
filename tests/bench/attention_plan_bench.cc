#include <fmt/format.h>

#include <vector>

#include "common/base/check.h"
#include "tests/bench/bench.h"
#include "tests/support/null_ops.h"
#include "worker/model/attention_plan.h"

namespace roost::bench {
namespace {

using worker::AttentionPlan;
using worker::BatchSlice;

// For 32 query heads and 8 kv heads.
constexpr worker::AttentionPlanOptions kOptions{.block_tokens = kBlockTokens,
                                                .query_head_count = 32,
                                                .kv_head_count = 8,
                                                .profile = testing_support::kLargeDeviceProfile};

struct Requests {
  std::vector<std::vector<BlockId>> blocks;
  std::vector<BatchSlice> slices;
};

// Decodes at positions from `context` on. All have the first `shared` positions in common, and each eight of them half
// as many more, so they form a tree of two levels.
Requests DecodesOf(std::uint32_t count, std::uint32_t context, std::uint32_t shared) {
  Requests requests;
  std::uint32_t next = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::size_t of_all = i > 0 ? shared / kBlockTokens : 0;
    const std::size_t of_eight = i % 8 > 0 ? of_all * 3 / 2 : of_all;
    std::vector<BlockId> blocks;
    while (blocks.size() * kBlockTokens <= context + i) {
      const std::size_t at = blocks.size();
      blocks.push_back(at < of_all     ? requests.blocks[0][at]
                       : at < of_eight ? requests.blocks[i / 8 * 8][at]
                                       : BlockId(next++));
    }
    requests.blocks.push_back(std::move(blocks));
    requests.slices.push_back({.blocks = {}, .first_position = context + i, .token_count = 1});
  }
  for (std::uint32_t i = 0; i < count; ++i) requests.slices[i].blocks = requests.blocks[i];
  return requests;
}

void Measure(Effort effort, const char* name, const Requests& requests) {
  const int rounds = effort == Effort::kQuick ? 1 : 100;
  AttentionPlan plan;
  const double seconds = MedianSeconds(effort, [&] {
    for (int round = 0; round < rounds; ++round) worker::PlanAttention(requests.slices, kOptions, plan);
  });
  ROOST_CHECK(!plan.items.empty());
  Figure(fmt::format("attention_plan_us_{}_{}", name, requests.slices.size()), seconds * 1e6 / rounds, "us");
  Figure(fmt::format("attention_plan_items_{}_{}", name, requests.slices.size()),
         static_cast<double>(plan.items.size()), "items");
}

}  // namespace

// The time to plan a step's work list before its forward begins.
void BenchAttentionPlan(Effort effort) {
  Measure(effort, "decode", DecodesOf(64, 1000, 0));
  Measure(effort, "decode", DecodesOf(256, 1000, 0));
  Measure(effort, "shared", DecodesOf(64, 9000, 4096));
  Measure(effort, "shared", DecodesOf(256, 9000, 4096));
  Measure(effort, "long", DecodesOf(4, 30000, 0));
}

}  // namespace roost::bench
