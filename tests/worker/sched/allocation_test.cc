// A step in steady state allocates nothing on the heap, neither in the scheduler nor in the cache.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

#include "tests/support/allocation_count.h"
#include "tests/support/step_sample.h"
#include "worker/cache/eviction/eviction_factory.h"
#include "worker/cache/prefix_cache.h"
#include "worker/sched/scheduler.h"

namespace roost::worker {
namespace {

constexpr std::uint32_t kBlockTokens = 4;
constexpr std::uint32_t kBlockCount = 16'384;
constexpr std::uint32_t kSequenceCount = 64;
constexpr std::uint32_t kPromptTokens = 80;
constexpr std::uint32_t kWarmUpSteps = 200;
constexpr std::uint32_t kMeasuredSteps = 400;

class AllocationTest : public testing::TestWithParam<std::string_view> {
 protected:
  AllocationTest()
      : cache_(pool_, {.block_tokens = kBlockTokens}, MakeEvictionPolicy(GetParam(), kBlockCount).value()),
        scheduler_(cache_, {.max_batch_tokens = 512,
                            .max_running = kSequenceCount,
                            .max_context_tokens = 4 * kBlockCount,
                            .policy = SchedulePolicy::kShortestUncached,
                            .first_token_target = std::chrono::seconds(1)}) {}

  // A prompt that continues the first tokens of an earlier one with a new text each time.
  SequenceId Submit(std::uint32_t max_output_tokens) {
    const auto number = static_cast<TokenId>(next_prompt_++);
    std::vector<TokenId> prompt;
    for (TokenId i = 0; i < kPromptTokens; ++i) {
      const TokenId text = i < kPromptTokens / 2 ? number % 50 : i < kPromptTokens / 4 * 3 ? number % 700 : number;
      prompt.push_back(text * 1000 + i);
    }
    return scheduler_.Submit({.root = {1, 1}, .prompt = std::move(prompt), .max_output_tokens = max_output_tokens})
        .value();
  }

  void Step() {
    scheduler_.AdvanceTo(now_ += std::chrono::milliseconds(20));
    const std::vector<ScheduledSlice>& slices = scheduler_.Schedule();
    scheduler_.NotePace(testing_support::SampleOf(slices, std::chrono::milliseconds(20)));
    scheduler_.Commit();
    for (const ScheduledSlice& slice : slices) {
      if (slice.wants_logits) scheduler_.Append(slice.sequence->id, ++sampled_);
    }
  }

  // Requests come and go until the pool is full of their blocks.
  void FillPool() {
    while (cache_.pool().free_count() > 0) {
      std::vector<SequenceId> sequences;
      for (std::uint32_t i = 0; i < kSequenceCount; ++i) sequences.push_back(Submit(2 * kBlockTokens));
      for (std::uint32_t i = 0; i < 20; ++i) Step();
      for (const SequenceId sequence : sequences) scheduler_.Remove(sequence);
    }
  }

  // Events are allocated for their receiver, in proportion to their content. Returns the blocks stored.
  std::uint64_t TakeEvents() {
    std::uint64_t stored = 0;
    for (const wire::CacheEvent& event : cache_.TakeEvents()) stored += event.stored.hashes.size();
    return stored;
  }

  Instant now_;
  BlockPool pool_{kBlockCount};
  PrefixCache cache_;
  Scheduler scheduler_;
  std::uint32_t next_prompt_ = 0;
  TokenId sampled_ = 0;
};

TEST_P(AllocationTest, DecodingAllocatesNothingWhileBlocksFillAndOthersAreEvicted) {
  FillPool();
  for (std::uint32_t i = 0; i < kSequenceCount; ++i) (void)Submit(kWarmUpSteps + kMeasuredSteps);
  for (std::uint32_t i = 0; i < kWarmUpSteps; ++i) Step();
  ASSERT_EQ(scheduler_.running_count(), kSequenceCount);
  (void)TakeEvents();
  const std::uint64_t evicted = cache_.counters().evicted_blocks;
  std::uint64_t stored = 0;
  std::uint64_t allocated = 0;
  for (std::uint32_t i = 0; i < kMeasuredSteps; ++i) {
    const std::uint64_t before = testing_support::AllocationCount();
    Step();
    allocated += testing_support::AllocationCount() - before;
    stored += TakeEvents();
  }
  EXPECT_EQ(allocated, 0U);
  EXPECT_EQ(scheduler_.counters().preemptions, 0U);
  constexpr std::uint64_t kFilled = kSequenceCount * kMeasuredSteps / kBlockTokens;
  EXPECT_EQ(stored, kFilled);
  EXPECT_EQ(cache_.counters().evicted_blocks - evicted, kFilled);
}

INSTANTIATE_TEST_SUITE_P(Policies, AllocationTest, testing::ValuesIn(kEvictionPolicyNames), [](const auto& policy) {
  std::string name(policy.param);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace roost::worker
