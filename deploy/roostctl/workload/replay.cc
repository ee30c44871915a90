#include "deploy/roostctl/workload/replay.h"

#include <limits>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/rng.h"
#include "worker/cache/prefix_cache.h"

namespace roost::workload {
namespace {

using worker::BlockChain;
using worker::BlockPool;
using worker::BlockRef;
using worker::BlockUse;
using worker::EvictionGroup;
using worker::EvictionPolicy;
using worker::PrefixCache;
using worker::RecomputeCost;
using worker::RequestUse;
using worker::TreePlace;

// The cache's blocks hold few tokens, whatever the trace's blocks hold, so that big pools need little memory.
constexpr std::uint32_t kCacheBlockTokens = kMinBlockTokens;
constexpr BlockHash kRoot{1, 1};

BlockHash HashOf(ContentId id) { return {Mix64(id + 1), Mix64(~id)}; }

// Shows the policy the trace's token counts instead of the small blocks' counts.
class TraceScale final : public EvictionPolicy {
 public:
  TraceScale(std::unique_ptr<EvictionPolicy> policy, const RequestUse& request)
      : policy_(std::move(policy)), request_(request) {}

  void Insert(BlockId block, const BlockUse& use, TreePlace place) override {
    BlockUse scaled = use;
    scaled.request = request_;
    policy_->Insert(block, scaled, place);
  }
  void BecomeLeaf(BlockId block) override { policy_->BecomeLeaf(block); }
  void SetRecomputeCost(RecomputeCost cost) override { policy_->SetRecomputeCost(cost); }
  void Erase(BlockId block) override { policy_->Erase(block); }
  [[nodiscard]] std::optional<BlockId> Victim(EvictionGroup group) override { return policy_->Victim(group); }
  void Evict(BlockId block) override { policy_->Evict(block); }

 private:
  std::unique_ptr<EvictionPolicy> policy_;
  const RequestUse& request_;
};

class Player {
 public:
  Player(const Trace& trace, std::uint32_t block_count, std::unique_ptr<EvictionPolicy> policy,
         std::span<const double> tenant_shares, RecomputeCost cost)
      : trace_(trace),
        cost_(cost),
        pool_(block_count),
        cache_(pool_, {.block_tokens = kCacheBlockTokens, .group_shares = {tenant_shares.begin(), tenant_shares.end()}},
               std::make_unique<TraceScale>(std::move(policy), use_)) {
    cache_.claims().SetRecomputeCost(cost);
  }

  ReplayResult Play() {
    for (const TraceRequest& request : trace_.requests) {
      Serve(request);
      ++use_.number;
      (void)cache_.TakeEvents();
    }
    result_.evicted_block_count = cache_.counters().evicted_blocks;
    return result_;
  }

 private:
  void Serve(const TraceRequest& request) {
    Describe(request);
    const BlockChain chain{kRoot, hashes_, tokens_};
    const std::uint32_t prompt_block_count = PromptBlockCount(trace_, request);
    matched_.clear();
    blocks_.clear();
    cache_.Match(chain, prompt_block_count, matched_);
    for (const BlockRef ref : matched_) {
      cache_.Acquire(ref);
      blocks_.push_back(ref.block);
    }
    Account(request);
    Fill(chain, GroupOf(request));
    const RequestUse in_cache_blocks{.number = use_.number,
                                     .prompt_token_count = prompt_block_count * kCacheBlockTokens};
    for (auto block = blocks_.rbegin(); block != blocks_.rend(); ++block) cache_.Release(*block, in_cache_blocks);
  }

  void Describe(const TraceRequest& request) {
    hashes_.clear();
    tokens_.clear();
    for (const ContentId id : request.blocks) {
      const BlockHash hash = HashOf(id);
      hashes_.push_back(hash);
      for (const std::uint64_t word : {hash.high, hash.low}) {
        tokens_.push_back(static_cast<TokenId>(word));
        tokens_.push_back(static_cast<TokenId>(word >> 32U));
      }
    }
  }

  void Account(const TraceRequest& request) {
    use_.prompt_token_count = request.input_token_count;
    use_.output_token_count = request.output_token_count;
    use_.cached_token_count = static_cast<std::uint32_t>(matched_.size()) * trace_.block_tokens;
    if (result_.tenants.size() <= request.tenant) result_.tenants.resize(request.tenant + 1);
    for (HitCount* count : {static_cast<HitCount*>(&result_), &result_.tenants[request.tenant]}) {
      count->prompt_token_count += request.input_token_count;
      count->hit_token_count += use_.cached_token_count;
      count->prompt_cost += CostOf(request.input_token_count);
      count->hit_cost += CostOf(use_.cached_token_count);
    }
  }

  // The cost of a prompt's first tokens.
  [[nodiscard]] double CostOf(std::uint32_t token_count) const {
    const double count = token_count;
    return count * (1 + cost_.growth * count / trace_.block_tokens / 2);
  }

  [[nodiscard]] EvictionGroup GroupOf(const TraceRequest& request) const {
    return EvictionGroup(request.tenant < cache_.claims().group_count() ? request.tenant : 0);
  }

  void Fill(const BlockChain& chain, EvictionGroup group) {
    while (blocks_.size() < hashes_.size()) {
      const std::optional<BlockId> block = cache_.Allocate(group);
      if (!block) return;
      blocks_.push_back(*block);
      blocks_.back() = cache_.Commit(chain, static_cast<std::uint32_t>(blocks_.size()) - 1, blocks_, group).block;
    }
  }

  const Trace& trace_;
  const RecomputeCost cost_;
  BlockPool pool_;
  RequestUse use_;  // of the current request, in the trace's tokens
  PrefixCache cache_;
  ReplayResult result_;
  std::vector<BlockHash> hashes_;
  std::vector<TokenId> tokens_;
  std::vector<BlockRef> matched_;
  std::vector<BlockId> blocks_;
};

// The time of each content's next use. Must be asked in the order of the trace.
class Future {
 public:
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

  explicit Future(const Trace& trace) {
    for (std::uint64_t number = 0; number < trace.requests.size(); ++number) {
      for (const ContentId id : trace.requests[number].blocks) uses_[HashOf(id).low].push_back(number);
    }
  }

  // The first request after `number` that has the content.
  std::uint64_t NextUse(std::uint64_t key, std::uint64_t number) {
    const std::vector<std::uint64_t>& uses = uses_.at(key);
    const auto next = std::upper_bound(uses.begin(), uses.end(), number);
    return next == uses.end() ? kNever : *next;
  }

 private:
  std::unordered_map<std::uint64_t, std::vector<std::uint64_t>> uses_;
};

// Evicts the idle leaf whose next use is farthest.
class Foresight final : public EvictionPolicy {
 public:
  Foresight(const Trace& trace, std::uint32_t block_count) : future_(trace), idle_(block_count) {}

  void Insert(BlockId block, const BlockUse& use, TreePlace place) override {
    idle_[block.value()] = {future_.NextUse(use.key, use.request.number), place};
    if (place == TreePlace::kLeaf) leaves_.insert({idle_[block.value()].next_use, block});
  }
  void BecomeLeaf(BlockId block) override {
    idle_[block.value()].place = TreePlace::kLeaf;
    leaves_.insert({idle_[block.value()].next_use, block});
  }
  void Erase(BlockId block) override { leaves_.erase({idle_[block.value()].next_use, block}); }
  [[nodiscard]] std::optional<BlockId> Victim(EvictionGroup /*group*/) override {
    if (leaves_.empty()) return std::nullopt;
    return leaves_.rbegin()->second;
  }
  void Evict(BlockId block) override { Erase(block); }

 private:
  struct Idle {
    std::uint64_t next_use = 0;
    TreePlace place = TreePlace::kLeaf;
  };
  Future future_;
  std::vector<Idle> idle_;
  std::set<std::pair<std::uint64_t, BlockId>> leaves_;
};

}  // namespace

ReplayResult Replay(const Trace& trace, std::uint32_t block_count, std::unique_ptr<EvictionPolicy> eviction,
                    std::span<const double> tenant_shares, RecomputeCost cost) {
  return Player(trace, block_count, std::move(eviction), tenant_shares, cost).Play();
}

ReplayResult ReplayWithForesight(const Trace& trace, std::uint32_t block_count, RecomputeCost cost) {
  return Replay(trace, block_count, std::make_unique<Foresight>(trace, block_count), {}, cost);
}

}  // namespace roost::workload
