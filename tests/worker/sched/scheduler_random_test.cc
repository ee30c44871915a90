// Random events for a scheduler: sequences come with equal beginnings, fork at any token, are cancelled, pinned, run
// out of blocks and of time. Every row of every block is tracked: what a sequence reads is what its tokens say, and no
// sequence writes what another one reads. A failure prints its seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string_view>

#include "common/base/rng.h"
#include "tests/support/step_sample.h"
#include "worker/cache/eviction/eviction_factory.h"
#include "worker/sched/scheduler.h"

namespace roost::worker {
namespace {

constexpr std::uint32_t kBlockTokens = 4;
constexpr std::array<double, 2> kShares{0.3, 0.2};
constexpr std::array<std::string_view, 3> kTenants{"", "one", "two"};

// The rows of all blocks: each row identifies the tokens up to its own.
class RowsOfBlocks {
 public:
  explicit RowsOfBlocks(std::uint32_t block_count) : rows_(std::size_t{block_count} * kBlockTokens) {}

  void Copy(const ScheduledCopy& copy) {
    for (std::uint32_t row = 0; row < copy.row_count; ++row) At(copy.to, row) = At(copy.from, row);
  }

  // The tokens before the slice must be the sequence's own; then the slice is written.
  void Compute(const ScheduledSlice& slice) {
    const Sequence& sequence = *slice.sequence;
    std::uint64_t name = sequence.root.low;
    for (std::uint32_t position = 0; position < slice.first_position + slice.token_count; ++position) {
      name = Mix64(name + sequence.tokens[position]);
      std::uint64_t& row = At(sequence.blocks[position / kBlockTokens], position % kBlockTokens);
      if (position >= slice.first_position) row = name;
      ASSERT_EQ(row, name) << "sequence " << sequence.id.value() << " position " << position;
    }
  }

 private:
  std::uint64_t& At(BlockId block, std::uint32_t row) { return rows_[std::size_t{block.value()} * kBlockTokens + row]; }

  std::vector<std::uint64_t> rows_;
};

class RandomLife {
 public:
  explicit RandomLife(std::uint64_t seed)
      : rng_(seed),
        tenant_count_(Between(1, kTenants.size())),
        options_(RandomOptions()),
        pool_(Between(4, 40)),
        cache_(pool_,
               {.block_tokens = kBlockTokens,
                .pinned_share_limit = 0.7,
                .min_hold = std::chrono::milliseconds(Between(0, 1) * Between(50, 2000)),
                .held_share_limit = Between(0, 4) * 0.25,
                .group_shares = {kShares.begin(), kShares.end()}},
               MakeEvictionPolicy(kEvictionPolicyNames[rng_.Below(kEvictionPolicyNames.size())], pool_.block_count(),
                                  kShares)
                   .value()),
        rows_(pool_.block_count()) {
    options_.max_context_tokens = Between(kBlockTokens, pool_.block_count() * kBlockTokens);
    scheduler_ = std::make_unique<Scheduler>(cache_, options_);
  }

  void Act() {
    switch (rng_.Below(10)) {
      case 0:
      case 1: Submit(); break;
      case 2: RemoveOne(); break;
      case 3: PinOne(); break;
      default: Step();
    }
    const Result<void> sound = scheduler_->CheckInvariants();
    ASSERT_TRUE(sound.ok()) << sound.error().ToString();
  }

  // No more sequences arrive, and all present ones come to their end.
  void Finish() {
    constexpr int kMaxSteps = 20'000;
    for (int step = 0; step < kMaxSteps && !limits_.empty(); ++step) {
      Step();
      if (testing::Test::HasFatalFailure()) return;
    }
    ASSERT_TRUE(limits_.empty()) << limits_.size() << " sequences do not end";
    EXPECT_EQ(pool_.referenced_count(), 0U);
    EXPECT_EQ(scheduler_->waiting_count() + scheduler_->running_count(), 0U);
  }

  struct Seen {
    std::uint64_t forks = 0;
    std::uint64_t copies = 0;
    std::uint64_t scored_tokens = 0;
    std::uint64_t pauses = 0;  // steps without a token for a partly computed prompt
    SchedulerCounters counters;
    CacheCounters cache;
  };
  [[nodiscard]] Seen seen() const {
    Seen seen = seen_;
    seen.counters = scheduler_->counters();
    seen.cache = cache_.counters();
    return seen;
  }

 private:
  std::uint32_t Between(std::uint64_t low, std::uint64_t high) {
    return static_cast<std::uint32_t>(low + rng_.Below(high - low + 1));
  }

  SchedulerOptions RandomOptions() {
    return {.max_batch_tokens = Between(1, 40),
            .short_step_tokens = Between(0, 1) * Between(1, 20),
            .max_running = Between(1, 8),
            .max_waiting = Between(1, 12),
            .max_partial_prefills = Between(0, 3),
            .policy = static_cast<SchedulePolicy>(rng_.Below(3)),
            .first_token_target =
                rng_.Below(3) == 0 ? std::optional<Duration>(std::chrono::milliseconds(Between(1, 500))) : std::nullopt,
            .max_scored_tokens = Between(1, 12)};
  }

  RetentionHint RandomHint() {
    return {.priority = Between(0, kMaxRetentionPriority),
            .duration = std::chrono::milliseconds(Between(0, 1) * Between(1, 2000))};
  }

  void Submit() {
    std::vector<TokenId> prompt;
    if (!prompts_.empty() && rng_.Below(4) > 0) {
      prompt = prompts_[rng_.Below(prompts_.size())];
      if (rng_.Below(3) > 0) prompt.resize(1 + rng_.Below(prompt.size()));
    }
    for (std::uint32_t more = Between(0, 20); more > 0; --more) prompt.push_back(Between(0, 2));
    if (prompt.empty() || prompt.size() >= options_.max_context_tokens) return;
    prompts_.push_back(prompt);
    const auto limit = static_cast<std::uint32_t>(prompt.size()) + Between(1, 30);
    SequenceSpec spec{.root = {1, rng_.Below(2)}, .prompt = std::move(prompt)};
    spec.priority = Between(0, 1) * 50;
    spec.tenant = kTenants[rng_.Below(tenant_count_) * rng_.Below(2)];  // the first has most
    spec.cache_mode = rng_.Below(6) == 0 ? wire::CacheMode::kOff : wire::CacheMode::kOn;
    spec.group = EvictionGroup(Between(0, 2));
    spec.prompt_retention = RandomHint();
    spec.decode_retention = RandomHint();
    spec.session = Between(0, 6);
    spec.fork_count = rng_.Below(3) == 0 ? Between(0, 3) : 0;
    spec.scores_prompt = rng_.Below(6) == 0;
    const std::uint32_t scored_token_count =
        spec.scores_prompt ? static_cast<std::uint32_t>(spec.prompt.size()) - 1 : 0;
    const Result<SequenceId> id = scheduler_->Submit(std::move(spec));
    if (!id.ok()) return;
    limits_[*id] = std::min(limit, options_.max_context_tokens);
    scored_[*id] = {.token_count = scored_token_count};
  }

  void RemoveOne() {
    if (limits_.empty()) return;
    auto chosen = limits_.begin();
    std::advance(chosen, static_cast<std::ptrdiff_t>(rng_.Below(limits_.size())));
    Remove(chosen->first);
  }

  void Remove(SequenceId id) {
    scheduler_->Remove(id);
    limits_.erase(id);
  }

  void PinOne() {
    if (limits_.empty()) return;
    const Sequence& sequence = scheduler_->Get(limits_.begin()->first);
    if (rng_.Below(3) == 0) {
      cache_.claims().Unpin(sequence.hashes);
    } else {
      cache_.claims().Pin(sequence.hashes, now_ + std::chrono::milliseconds(Between(1, 5000)));
    }
  }

  void Step() {
    scheduler_->AdvanceTo(now_ += std::chrono::milliseconds(Between(0, 100)));
    const std::vector<ScheduledSlice>& slices = scheduler_->Schedule();
    ASSERT_TRUE(limits_.empty() || !slices.empty()) << "somebody waits, and nobody is served";
    CheckLimits(slices);
    CheckScored(slices);
    served_.clear();
    for (const ScheduledSlice& slice : slices) served_.push_back(slice.sequence->id);
    for (const ScheduledCopy& copy : scheduler_->copies()) rows_.Copy(copy);
    for (const ScheduledSlice& slice : slices) rows_.Compute(slice);
    CheckWriters(slices);
    seen_.copies += scheduler_->copies().size();
    scheduler_->NotePace(testing_support::SampleOf(slices, std::chrono::milliseconds(Between(0, 20))));
    scheduler_->Commit();
    CheckPartialPrefills();
    for (const ScheduledSlice& slice : slices) {
      if (slice.wants_logits) GoOn(slice.sequence->id);
    }
    (void)cache_.TakeEvents();
  }

  void CheckLimits(const std::vector<ScheduledSlice>& slices) {
    std::uint32_t tokens = 0;
    for (const ScheduledSlice& slice : slices) tokens += slice.token_count;
    ASSERT_LE(tokens, options_.max_batch_tokens);
    ASSERT_LE(scheduler_->running_count(), options_.max_running);
  }

  // Each token of a scored prompt is computed once as scored, in order, before there is output.
  void CheckScored(const std::vector<ScheduledSlice>& slices) {
    std::uint32_t tokens = 0;
    for (const ScheduledSlice& slice : slices) {
      Scored& scored = scored_[slice.sequence->id];
      tokens += slice.scored_token_count;
      ASSERT_TRUE(slice.scored_token_count == 0 || slice.first_scored == scored.so_far);
      scored.so_far += slice.scored_token_count;
      const std::uint32_t end = slice.first_position + slice.token_count;
      ASSERT_TRUE(slice.scored_token_count == 0 ||
                  slice.first_scored + slice.scored_token_count == std::min(end, scored.token_count));
      ASSERT_TRUE(!slice.wants_logits || scored.so_far == scored.token_count);
    }
    ASSERT_LE(tokens, options_.max_scored_tokens);
    seen_.scored_tokens += tokens;
  }

  // A sequence that was computed to its last token has nothing left before it gets the next one.
  void CheckPartialPrefills() {
    std::uint32_t partial = 0;
    std::uint32_t paused = 0;
    for (const auto& [id, limit] : limits_) {
      const Sequence& sequence = scheduler_->Get(id);
      if (sequence.state != Sequence::State::kRunning || sequence.remaining_count() == 0) continue;
      ++partial;
      if (std::find(served_.begin(), served_.end(), id) == served_.end()) ++paused;
    }
    seen_.pauses += paused;
    const bool is_bounded =
        options_.max_partial_prefills > 0 && options_.short_step_tokens == 0 && !options_.first_token_target;
    // Those of a tenant that yields come on top.
    const std::uint32_t most = options_.max_partial_prefills * (tenant_count_ > 1 ? 2 : 1);
    ASSERT_TRUE(!is_bounded || partial <= most) << partial;
  }

  // A block that is written in a step is in no other sequence's table.
  void CheckWriters(const std::vector<ScheduledSlice>& slices) {
    for (const ScheduledSlice& slice : slices) {
      for (std::size_t b = slice.first_position / kBlockTokens; b < slice.sequence->blocks.size(); ++b) {
        ASSERT_EQ(pool_.references(slice.sequence->blocks[b]), 1U);
      }
    }
  }

  // Appends a token to the sequence, or ends it; before that it may fork.
  void GoOn(SequenceId id) {
    const Sequence& sequence = scheduler_->Get(id);
    std::vector<SequenceId> all{id};
    while (rng_.Below(2) == 0 && scheduler_->CanFork(id) && (sequence.fork_count > 0 || rng_.Below(8) == 0)) {
      all.push_back(scheduler_->Fork(id));
      limits_[all.back()] = limits_[id];
      ++seen_.forks;
    }
    for (const SequenceId each : all) {
      if (scheduler_->Get(each).token_count() >= limits_[each]) {
        Remove(each);
      } else {
        scheduler_->Append(each, Between(0, 2));
      }
    }
  }

  Rng rng_;
  const std::uint32_t tenant_count_;
  SchedulerOptions options_;
  BlockPool pool_;
  PrefixCache cache_;
  RowsOfBlocks rows_;
  std::unique_ptr<Scheduler> scheduler_;
  Instant now_;
  std::vector<std::vector<TokenId>> prompts_;
  std::map<SequenceId, std::uint32_t> limits_;  // sequences that have not ended, and the tokens at which they do
  struct Scored {
    std::uint32_t token_count = 0;
    std::uint32_t so_far = 0;
  };
  std::map<SequenceId, Scored> scored_;
  std::vector<SequenceId> served_;  // in the latest step
  Seen seen_;
};

TEST(SchedulerRandomTest, EverySequenceReadsItsOwnTokensAndEnds) {
  constexpr std::uint64_t kSeeds = 1000;
  RandomLife::Seen seen;
  std::uint64_t given_up = 0;  // tokens computed although another was computing them
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomLife life(seed);
    for (int action = 0; action < 300; ++action) {
      life.Act();
      if (testing::Test::HasFatalFailure()) return;
    }
    life.Finish();
    if (testing::Test::HasFailure()) return;
    seen.forks += life.seen().forks;
    seen.copies += life.seen().copies;
    seen.pauses += life.seen().pauses;
    seen.scored_tokens += life.seen().scored_tokens;
    given_up += life.seen().counters.computed_prompt_tokens[IndexOf(MissReason::kInFlight)];
    seen.counters.preemptions += life.seen().counters.preemptions;
    seen.counters.tail_cached_tokens += life.seen().counters.tail_cached_tokens;
    seen.counters.returned_sessions += life.seen().counters.returned_sessions;
    seen.counters.dropped_pins += life.seen().counters.dropped_pins;
    seen.cache.evicted_blocks += life.seen().cache.evicted_blocks;
  }
  // A run in which nothing happens would prove nothing.
  EXPECT_GT(seen.forks, 1000U);
  EXPECT_GT(seen.copies, 1000U);
  EXPECT_GT(seen.pauses, 300U);
  EXPECT_GT(seen.scored_tokens, 10'000U);
  EXPECT_GT(seen.counters.returned_sessions, 1000U);
  EXPECT_GT(given_up, 0U);
  EXPECT_GT(seen.counters.preemptions, 1000U);
  EXPECT_GT(seen.counters.tail_cached_tokens, 1000U);
  EXPECT_GT(seen.counters.dropped_pins, 10U);
  EXPECT_GT(seen.cache.evicted_blocks, 10'000U);
}

}  // namespace
}  // namespace roost::worker
