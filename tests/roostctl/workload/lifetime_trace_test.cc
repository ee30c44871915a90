// The worth of lifetimes: recorded sessions of coding agents, whose requests ask for five minutes each (Anthropic's
// usual lifetime), on the real cache beside a stream of other requests.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common/base/rng.h"
#include "deploy/roostctl/workload/source.h"
#include "deploy/roostctl/workload/trace.h"
#include "tests/support/shared_data.h"
#include "worker/cache/eviction/eviction_factory.h"
#include "worker/cache/prefix_cache.h"

namespace roost::workload {
namespace {

using worker::BlockRef;
using worker::PrefixCache;
using worker::RequestUse;
using worker::TenantId;

constexpr std::uint32_t kCacheBlockTokens = kMinBlockTokens;  // whatever the trace's blocks hold
constexpr double kRetainedShare = 1.0 / 8;                    // as workers have it, of each tenant
constexpr Duration kLifetime = std::chrono::minutes(5);
constexpr std::uint32_t kAgent = 1;

BlockHash HashOf(ContentId id) { return {Mix64(id + 1), Mix64(~id)}; }

// Sessions as recorded, and conversations of others again and again until these end, none of which comes back.
Trace Mixed(const std::filesystem::path& folder) {
  Trace trace = ComposeAgentTrace(LoadAgentSessions(folder / "weka_sessions_q0.jsonl").value(), {});
  for (TraceRequest& request : trace.requests) request.tenant = kAgent;
  const Trace others = LoadMooncakeTrace(folder / "mooncake_conv_first20min.jsonl").value();
  const double end = trace.requests.back().arrival_seconds;
  const double span = others.requests.back().arrival_seconds;
  for (std::uint64_t round = 1; static_cast<double>(round - 1) * span < end; ++round) {
    for (TraceRequest request : others.requests) {
      request.arrival_seconds += static_cast<double>(round - 1) * span;
      for (ContentId& id : request.blocks) id += round << 48U;
      trace.requests.push_back(std::move(request));
    }
  }
  SortByArrival(trace);
  return trace;
}

// A quarter of what the sessions' prompts hold.
std::uint32_t SmallPool(const Trace& trace) {
  std::unordered_set<ContentId> blocks;
  for (const TraceRequest& request : trace.requests) {
    if (request.tenant != kAgent) continue;
    blocks.insert(request.blocks.begin(), request.blocks.begin() + PromptBlockCount(trace, request));
  }
  return static_cast<std::uint32_t>(blocks.size() / 4);
}

// Shows the policy the trace's token counts instead of the small blocks' counts.
class TraceScale final : public worker::EvictionPolicy {
 public:
  TraceScale(std::unique_ptr<EvictionPolicy> policy, const RequestUse& request)
      : policy_(std::move(policy)), request_(request) {}

  void Insert(BlockId block, const worker::BlockUse& use, worker::TreePlace place) override {
    worker::BlockUse scaled = use;
    scaled.request = request_;
    policy_->Insert(block, scaled, place);
  }
  void BecomeLeaf(BlockId block) override { policy_->BecomeLeaf(block); }
  void Erase(BlockId block) override { policy_->Erase(block); }
  [[nodiscard]] std::optional<BlockId> Victim(worker::EvictionGroup group) override { return policy_->Victim(group); }
  void Evict(BlockId block) override { policy_->Evict(block); }

 private:
  std::unique_ptr<EvictionPolicy> policy_;
  const RequestUse& request_;
};

// The per cent of the sessions' prompt tokens that hit. `key_count`: the keys that the sessions have, each a tenant;
// 0: they ask for no lifetime.
double Hits(const Trace& trace, std::uint32_t pool_blocks, std::uint32_t key_count) {
  worker::BlockPool pool(pool_blocks);
  RequestUse use;
  PrefixCache cache(pool, {.block_tokens = kCacheBlockTokens, .retained_share_limit = kRetainedShare},
                    std::make_unique<TraceScale>(
                        worker::MakeEvictionPolicy(worker::kDefaultEvictionPolicy, pool_blocks).value(), use));
  std::vector<TenantId> keys;
  for (std::uint32_t i = 0; i < key_count; ++i) keys.push_back(cache.tenants().Join(fmt::format("key {}", i)));
  double prompt_tokens = 0;
  double hit_tokens = 0;
  for (const TraceRequest& request : trace.requests) {
    cache.AdvanceTo(Instant() + FromSeconds(request.arrival_seconds));
    std::vector<BlockHash> hashes;
    std::vector<TokenId> tokens;
    for (const ContentId id : request.blocks) {
      const BlockHash hash = hashes.emplace_back(HashOf(id));
      for (const std::uint64_t word : {hash.high, hash.low}) {
        tokens.insert(tokens.end(), {static_cast<TokenId>(word), static_cast<TokenId>(word >> 32U)});
      }
    }
    const worker::BlockChain chain{{1, 1}, hashes, tokens};
    const std::uint32_t prompt_blocks = PromptBlockCount(trace, request);
    std::vector<BlockRef> matched;
    std::vector<BlockId> blocks;
    cache.Match(chain, prompt_blocks, matched);
    for (const BlockRef ref : matched) {
      cache.Acquire(ref);
      blocks.push_back(ref.block);
    }
    const auto cached = static_cast<std::uint32_t>(matched.size()) * trace.block_tokens;
    use = {use.number + 1, request.input_token_count, cached, request.output_token_count};
    while (blocks.size() < hashes.size()) {
      const std::optional<BlockId> block = cache.Allocate();
      if (!block) break;
      blocks.push_back(*block);
      blocks.back() = cache.Commit(chain, static_cast<std::uint32_t>(blocks.size()) - 1, blocks).block;
    }
    worker::RequestRetention retention;
    std::vector<worker::FrontLifetime> lifetimes;
    if (request.tenant == kAgent) {
      prompt_tokens += request.input_token_count;
      hit_tokens += cached;
      if (key_count > 0) retention.tenant = keys[request.session % key_count];
      if (key_count > 0) lifetimes.push_back({prompt_blocks, kLifetime});
    }
    cache.ReleaseAll(blocks, {.number = use.number, .prompt_token_count = prompt_blocks * kCacheBlockTokens}, retention,
                     lifetimes);
    (void)cache.TakeEvents();
  }
  return 100 * hit_tokens / prompt_tokens;
}

TEST(LifetimeTraceTest, SessionsThatAskForLifetimesHitMoreBesideOtherTraffic) {
  const auto folder = testing_support::SharedDir() / "traces";
  ROOST_SKIP_WITHOUT(folder);
  const Trace trace = Mixed(folder);
  const std::uint32_t pool = SmallPool(trace);
  const double without = Hits(trace, pool, 0);
  const double one_key = Hits(trace, pool, 1);
  const double some_keys = Hits(trace, pool, 8);
  fmt::print("without lifetimes {:.1f} %, of one key {:.1f} %, of eight {:.1f} %\n", without, one_key, some_keys);
  EXPECT_GE(one_key, without) << "one tenant may retain an eighth of the pool";
  EXPECT_GE(some_keys, without + 3);
}

}  // namespace
}  // namespace roost::workload
