// A scheduler over a small cache with blocks of four tokens, and small verbs for its tests. All invariants are checked
// after every step.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/cache_user.h"
#include "tests/support/step_sample.h"
#include "worker/cache/eviction/eviction_factory.h"
#include "worker/cache/prefix_cache.h"
#include "worker/sched/scheduler.h"

namespace roost::worker {

class SchedulerTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kBlockTokens = 4;
  static constexpr BlockHash kRoot{1, 1};

  struct Setup {
    std::uint32_t block_count = 64;
    CacheOptions cache = {.block_tokens = kBlockTokens};
    std::string_view eviction = "lru";
    std::uint32_t max_batch_tokens = 512;
    std::uint32_t short_step_tokens = 0;
    std::uint32_t max_running = 64;
    std::uint32_t max_waiting = 1024;
    std::uint32_t max_partial_prefills = 4;
    SchedulePolicy policy = SchedulePolicy::kFcfs;
    std::optional<Duration> first_token_target = std::nullopt;
  };

  void SetUp() override { Make({}); }

  void Make(Setup setup) {
    scheduler_.reset();
    pool_ = std::make_unique<BlockPool>(setup.block_count);
    cache_ = std::make_unique<PrefixCache>(
        *pool_, setup.cache, MakeEvictionPolicy(setup.eviction, setup.block_count, setup.cache.group_shares).value());
    scheduler_ = std::make_unique<Scheduler>(
        *cache_, SchedulerOptions{.max_batch_tokens = setup.max_batch_tokens,
                                  .short_step_tokens = setup.short_step_tokens,
                                  .max_running = setup.max_running,
                                  .max_waiting = setup.max_waiting,
                                  .max_context_tokens = setup.block_count * setup.cache.block_tokens,
                                  .max_partial_prefills = setup.max_partial_prefills,
                                  .policy = setup.policy,
                                  .first_token_target = setup.first_token_target});
  }

  // `count` tokens that only prompts of the same `stream` begin with.
  static std::vector<TokenId> Text(std::uint32_t count, TokenId stream) {
    std::vector<TokenId> tokens;
    for (std::uint32_t i = 0; i < count; ++i) tokens.push_back(stream * 1000 + i);
    return tokens;
  }
  static std::vector<TokenId> Join(std::vector<TokenId> front, const std::vector<TokenId>& back) {
    front.insert(front.end(), back.begin(), back.end());
    return front;
  }

  SequenceId Submit(SequenceSpec spec) { return scheduler_->Submit(std::move(spec)).value(); }
  SequenceId Submit(std::vector<TokenId> prompt, std::optional<Instant> deadline = std::nullopt) {
    return Submit(SequenceSpec{.root = kRoot, .prompt = std::move(prompt), .deadline = deadline});
  }

  // Plans a step and treats it as computed. Returns the number of computed tokens by sequence.
  std::map<SequenceId, std::uint32_t> Compute(Duration step_time = Duration(0)) {
    std::map<SequenceId, std::uint32_t> computed;
    const std::vector<ScheduledSlice>& slices = scheduler_->Schedule();
    for (const ScheduledSlice& slice : slices) computed[slice.sequence->id] = slice.token_count;
    scheduler_->NotePace(testing_support::SampleOf(slices, step_time));
    scheduler_->Commit();
    CheckInvariants();
    return computed;
  }

  // Compute, and then a next token for each sequence that wants logits.
  std::map<SequenceId, std::uint32_t> Step(TokenId sampled = 7) {
    std::map<SequenceId, std::uint32_t> computed = Compute();
    for (const auto& [id, token_count] : computed) {
      if (scheduler_->Get(id).remaining_count() == 0) scheduler_->Append(id, sampled);
    }
    return computed;
  }
  void Steps(int count) {
    for (int i = 0; i < count; ++i) Step();
  }

  void CheckInvariants() {
    const Result<void> sound = scheduler_->CheckInvariants();
    EXPECT_TRUE(sound.ok()) << sound.error().ToString();
  }

  // Another user of the same cache computes `tokens` and leaves. Returns the blocks that it left.
  std::vector<BlockId> CommitElsewhere(const std::vector<TokenId>& tokens) {
    testing_support::CacheUser user(kRoot, tokens, kBlockTokens);
    user.Use(*cache_);
    std::vector<BlockId> blocks = user.blocks;
    user.Release(*cache_);
    return blocks;
  }

  [[nodiscard]] bool IsCached(const std::vector<TokenId>& tokens) {
    testing_support::CacheUser user(kRoot, tokens, kBlockTokens);
    std::vector<BlockRef> matched;
    cache_->Match(user.chain(), static_cast<std::uint32_t>(user.hashes.size()), matched);
    return matched.size() == user.hashes.size();
  }

  [[nodiscard]] bool Waits(SequenceId id) const { return scheduler_->Get(id).state == Sequence::State::kWaiting; }
  [[nodiscard]] const std::vector<BlockId>& BlocksOf(SequenceId id) const { return scheduler_->Get(id).blocks; }
  [[nodiscard]] std::uint64_t Computed(MissReason reason) const {
    return scheduler_->counters().computed_prompt_tokens[IndexOf(reason)];
  }

  std::unique_ptr<BlockPool> pool_;
  std::unique_ptr<PrefixCache> cache_;
  std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace roost::worker
