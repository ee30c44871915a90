// The worth of lifetimes and of learned gaps: recorded sessions of coding agents on the real cache, beside a stream of
// other requests. Their requests ask for five minutes each (Anthropic's usual lifetime), or say nothing, and the router
// learns when they return.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common/base/rng.h"
#include "deploy/roostctl/workload/source.h"
#include "deploy/roostctl/workload/trace.h"
#include "router/fleet/requests/return_gaps.h"
#include "tests/support/night.h"
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
constexpr std::uint32_t kReturnPriority = 60;                 // as workers have it, of what is expected back
constexpr double kReturnMargin = 1.25;                        // the same
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
      request.session += round << 32U;
      trace.requests.push_back(std::move(request));
    }
  }
  SortByArrival(trace);
  return trace;
}

// A quarter of what the prompts of this tenant hold.
std::uint32_t SmallPool(const Trace& trace, std::uint32_t tenant) {
  std::unordered_set<ContentId> blocks;
  for (const TraceRequest& request : trace.requests) {
    if (request.tenant != tenant) continue;
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

// How long blocks stay.
struct Wish {
  Duration lifetime{};   // that agents ask for; zero: none
  bool learned = false;  // the gaps of all sessions
};

// The per cent of the prompt tokens that hit.
struct Hits {
  double agents = 0;
  double others = 0;
};

class Replay {
 public:
  // `key_count`: the keys that the agents' sessions have, each a tenant.
  Replay(const Trace& trace, std::uint32_t pool_blocks, Wish wish, std::uint32_t key_count)
      : trace_(trace),
        wish_(wish),
        pool_(pool_blocks),
        cache_(pool_, {.block_tokens = kCacheBlockTokens, .retained_share_limit = kRetainedShare},
               std::make_unique<TraceScale>(
                   worker::MakeEvictionPolicy(worker::kDefaultEvictionPolicy, pool_blocks).value(), use_)) {
    for (std::uint32_t i = 0; i < key_count; ++i) keys_.push_back(cache_.tenants().Join(fmt::format("key {}", i)));
  }

  Hits Run() {
    for (const TraceRequest& request : trace_.requests) Serve(request);
    return {agents_.PerCent(), others_.PerCent()};
  }

 private:
  struct Share {
    double hit = 0;
    double all = 0;
    [[nodiscard]] double PerCent() const { return 100 * hit / all; }
  };
  struct Turn {
    BlockRef last;
    worker::RequestRetention retention;
  };

  void Serve(const TraceRequest& request) {
    cache_.AdvanceTo(Instant() + FromSeconds(request.arrival_seconds));
    std::vector<BlockHash> hashes;
    std::vector<TokenId> tokens;
    for (const ContentId id : request.blocks) {
      const BlockHash hash = hashes.emplace_back(HashOf(id));
      for (const std::uint64_t word : {hash.high, hash.low}) {
        tokens.insert(tokens.end(), {static_cast<TokenId>(word), static_cast<TokenId>(word >> 32U)});
      }
    }
    const worker::RequestRetention retention = Arrive(request);
    const worker::BlockChain chain{{1, 1}, hashes, tokens};
    const std::vector<BlockId> blocks = Compute(request, chain);
    std::vector<worker::FrontLifetime> lifetimes;
    const std::uint32_t prompt_blocks = PromptBlockCount(trace_, request);
    if (wish_.lifetime > Duration::zero() && request.tenant == kAgent) {
      lifetimes.push_back({prompt_blocks, wish_.lifetime});
    }
    if (retention.prompt.end && !blocks.empty()) {
      turns_.insert_or_assign(request.session, Turn{pool_.RefTo(blocks.back()), retention});
    }
    cache_.ReleaseAll(blocks, {.number = use_.number, .prompt_token_count = prompt_blocks * kCacheBlockTokens},
                      retention, lifetimes);
    (void)cache_.TakeEvents();
  }

  // As router and worker do: the session's next request ends what was retained for it.
  worker::RequestRetention Arrive(const TraceRequest& request) {
    worker::RequestRetention retention;
    if (request.tenant == kAgent && !keys_.empty()) retention.tenant = keys_[request.session % keys_.size()];
    if (!wish_.learned) return retention;
    if (const auto turn = turns_.find(request.session); turn != turns_.end()) {
      cache_.EndRetention(turn->second.last, turn->second.retention);
      turns_.erase(turn);
    }
    const Instant now = Instant() + FromSeconds(request.arrival_seconds);
    const std::uint64_t session = Mix64(request.session);  // as a hash of its name
    const std::string tenant = fmt::format("{}", retention.tenant.value());
    const std::optional<Duration> gap = gaps_.OnRequest({session, tenant}, now);
    gaps_.OnEnd({session, tenant}, now);
    if (!gap) return retention;
    const Instant end = now + FromSeconds(ToSeconds(*gap) * kReturnMargin);
    retention.prompt = retention.decode = {kReturnPriority, end};
    return retention;
  }

  std::vector<BlockId> Compute(const TraceRequest& request, const worker::BlockChain& chain) {
    std::vector<BlockRef> matched;
    std::vector<BlockId> blocks;
    cache_.Match(chain, PromptBlockCount(trace_, request), matched);
    for (const BlockRef ref : matched) {
      cache_.Acquire(ref);
      blocks.push_back(ref.block);
    }
    const auto cached = static_cast<std::uint32_t>(matched.size()) * trace_.block_tokens;
    use_ = {use_.number + 1, request.input_token_count, cached, request.output_token_count};
    Share& share = request.tenant == kAgent ? agents_ : others_;
    share.all += request.input_token_count;
    share.hit += cached;
    while (blocks.size() < chain.hashes.size()) {
      const std::optional<BlockId> block = cache_.Allocate();
      if (!block) break;
      blocks.push_back(*block);
      blocks.back() = cache_.Commit(chain, static_cast<std::uint32_t>(blocks.size()) - 1, blocks).block;
    }
    return blocks;
  }

  const Trace& trace_;
  const Wish wish_;
  RequestUse use_;
  worker::BlockPool pool_;
  PrefixCache cache_;
  std::vector<TenantId> keys_;
  router::ReturnGaps gaps_;
  std::unordered_map<std::uint64_t, Turn> turns_;  // by session
  Share agents_;
  Share others_;
};

Hits HitsOf(const Trace& trace, std::uint32_t pool_blocks, Wish wish, std::uint32_t key_count) {
  return Replay(trace, pool_blocks, wish, key_count).Run();
}

TEST(LifetimeTraceTest, SessionsHitMoreBesideOtherTrafficWithLifetimesOrLearnedGaps) {
  const auto folder = testing_support::SharedDir() / "traces";
  ROOST_SKIP_WITHOUT(folder);
  const Trace trace = Mixed(folder);
  const std::uint32_t pool = SmallPool(trace, kAgent);
  const Hits without = HitsOf(trace, pool, {}, 0);
  fmt::print("without: {:.2f} %, others {:.2f} %\n", without.agents, without.others);
  const bool all = testing_support::IsNight();
  for (const std::uint32_t key_count : all ? std::vector{8U, 1U} : std::vector{8U}) {
    for (const std::chrono::minutes lifetime : {std::chrono::minutes(5), std::chrono::minutes(60)}) {
      if (lifetime > std::chrono::minutes(5) && !all) continue;
      const Hits kept = HitsOf(trace, pool, {.lifetime = lifetime}, key_count);
      fmt::print("{} minutes, {} keys: {:.2f} %, others {:.2f} %\n", lifetime.count(), key_count, kept.agents,
                 kept.others);
      EXPECT_GE(kept.agents, without.agents + 3);
    }
    const Hits learned = HitsOf(trace, pool, {.learned = true}, key_count);
    fmt::print("learned, {} keys: {:.2f} %, others {:.2f} %\n", key_count, learned.agents, learned.others);
    EXPECT_GE(learned.agents, without.agents + 0.5);
    EXPECT_GE(learned.others, without.others);
  }
}

// Where all requests ask for lifetimes, these can only choose among equals, tenant by tenant.
TEST(LifetimeTraceTest, LifetimesOfAllTrafficCostItLittle) {
  const auto folder = testing_support::SharedDir() / "traces";
  ROOST_SKIP_WITHOUT(folder);
  Trace trace = ComposeAgentTrace(LoadAgentSessions(folder / "weka_sessions_q0.jsonl").value(), {});
  for (TraceRequest& request : trace.requests) request.tenant = kAgent;
  const std::uint32_t pool = SmallPool(trace, kAgent);
  const double without = HitsOf(trace, pool, {}, 0).agents;
  for (const std::uint32_t key_count : {1U, 8U}) {
    for (const std::chrono::minutes lifetime : {std::chrono::minutes(5), std::chrono::minutes(60)}) {
      const double kept = HitsOf(trace, pool, {.lifetime = lifetime}, key_count).agents;
      fmt::print("{} minutes, {} keys: {:.2f} %, without {:.2f} %\n", lifetime.count(), key_count, kept, without);
      EXPECT_GE(kept, without - (key_count == 1 ? 0.2 : 1.5));
    }
  }
}

// Sessions that all return, and ones that mostly do not.
TEST(LifetimeTraceTest, LearnedGapsCostTrafficOfOneKindNothing) {
  const auto folder = testing_support::SharedDir() / "traces";
  ROOST_SKIP_WITHOUT(folder);
  const std::vector<std::pair<std::string, Trace>> traces = {
      {"agents", ComposeAgentTrace(LoadAgentSessions(folder / "weka_sessions_q0.jsonl").value(), {})},
      {"conversations", LoadMooncakeTrace(folder / "mooncake_conv_first20min.jsonl").value()},
      {"synthetic", LoadMooncakeTrace(folder / "mooncake_synth_family_q0.jsonl").value()}};
  for (const auto& [name, trace] : traces) {
    const std::uint32_t pool = SmallPool(trace, 0);
    const double without = HitsOf(trace, pool, {}, 0).others;
    const double learned = HitsOf(trace, pool, {.learned = true}, 0).others;
    fmt::print("{}: without {:.2f} %, learned {:.2f} %\n", name, without, learned);
    EXPECT_GE(learned, without - 0.2) << name;
  }
}

}  // namespace
}  // namespace roost::workload
