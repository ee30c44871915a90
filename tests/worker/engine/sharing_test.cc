// Sharing among requests through the cache: tokens rather than blocks, one prompt for several choices, and the cache
// options of a request.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "common/base/rng.h"
#include "tests/support/engine_harness.h"
#include "tests/support/fake_model.h"
#include "tests/support/sanitized.h"

namespace roost::worker {
namespace {

using testing_support::EngineHarness;
using testing_support::FakeModel;
using testing_support::GreedyRequest;
using testing_support::kLink;
using testing_support::kRoot;

class SharingTest : public testing::Test {
 protected:
  void SetUp() override { Make({.block_count = 256}, {}); }

  void Make(FakeModel::Options model, EngineOptions engine) {
    model.clock = &clock_;
    harness_.reset();
    model_ = std::make_unique<FakeModel>(model);
    harness_ = std::make_unique<EngineHarness>(*model_, clock_, std::move(engine));
  }

  static std::vector<TokenId> Text(std::size_t count, std::uint64_t stream) {
    Rng rng(stream);
    std::vector<TokenId> tokens(count);
    for (TokenId& token : tokens) token = static_cast<TokenId>(rng.Below(90));
    return tokens;
  }

  [[nodiscard]] std::uint32_t CachedOf(std::vector<TokenId> prompt) {
    return harness_->Serve(GreedyRequest(next_id_++, std::move(prompt), 1)).cached_token_count.value_or(0);
  }
  // Fills the pool with other prompts, each used once.
  void Flood(std::uint32_t tokens) {
    for (std::uint32_t i = 0; i < tokens / 64; ++i) (void)CachedOf(Text(64, 1000 + next_id_));
  }
  [[nodiscard]] std::uint64_t Computed(MissReason reason) const {
    return harness_->totals().computed_prompt_tokens[IndexOf(reason)];
  }
  void ExpectAllPromptTokensCounted() const {
    const StepCounts& totals = harness_->totals();
    const std::uint64_t computed =
        std::accumulate(totals.computed_prompt_tokens.begin(), totals.computed_prompt_tokens.end(), std::uint64_t{0});
    EXPECT_EQ(computed + totals.cached_prompt_tokens, totals.prompt_tokens);
  }

  ManualClock clock_;
  std::unique_ptr<FakeModel> model_;
  std::unique_ptr<EngineHarness> harness_;
  std::uint64_t next_id_ = 1;
};

// ---- tokens, not blocks ----

TEST_F(SharingTest, AFullyCachedPromptComputesOneTokenAtEveryBlockSize) {
  for (std::uint32_t block_tokens = 4; block_tokens <= 256; block_tokens *= 2) {
    Make({.block_tokens = block_tokens, .block_count = 4096 / block_tokens}, {});
    for (const std::size_t length : {1UL, 3UL, 100UL, 256UL, 257UL, 511UL, 512UL}) {
      const auto prompt = Text(length, length);
      (void)CachedOf(prompt);
      const std::uint64_t before = model_->computed_token_count();
      EXPECT_EQ(CachedOf(prompt), length - 1) << block_tokens;
      EXPECT_EQ(model_->computed_token_count() - before, 1U) << block_tokens;
    }
    ExpectAllPromptTokensCounted();
  }
}

// Prompts branch off each other anywhere. The reusable part of each is known: the longest prefix that it shares with an
// earlier one.
TEST_F(SharingTest, LargeBlocksReuseAsManyTokensAsSmallOnes) {
  std::vector<std::vector<TokenId>> prompts;
  std::uint64_t reusable = 0;
  Rng rng(5);
  for (int i = 0; i < (testing_support::kSanitized ? 50 : 150); ++i) {
    std::vector<TokenId> prompt;
    if (i > 0 && rng.Below(5) > 0) {
      prompt = prompts[rng.Below(prompts.size())];
      prompt.resize(rng.Below(prompt.size() + 1));
    }
    const std::size_t more = 1 + rng.Below(700);
    while (prompt.size() < 900 && prompt.size() < more) prompt.push_back(static_cast<TokenId>(rng.Below(90)));
    prompt.push_back(static_cast<TokenId>(rng.Below(90)));
    std::size_t longest = 0;
    for (const auto& earlier : prompts) {
      const std::size_t limit = std::min(earlier.size(), prompt.size() - 1);
      std::size_t common = 0;
      while (common < limit && earlier[common] == prompt[common]) ++common;
      longest = std::max(longest, common);
    }
    reusable += longest;
    prompts.push_back(std::move(prompt));
  }
  for (const std::uint32_t block_tokens : {4U, 16U, 64U, 256U}) {
    Make({.block_tokens = block_tokens, .block_count = 400'000 / block_tokens}, {});
    std::uint64_t reused = 0;
    for (const auto& prompt : prompts) reused += CachedOf(prompt);
    EXPECT_EQ(reused, reusable) << block_tokens;
  }
}

// Others can use a block as soon as it is full, and a partial block when the request that fills it has ended.
TEST_F(SharingTest, PromptsThatArriveTogetherShareTheirPrefixToTheBlock) {
  const auto shared = Text(4097, 1);
  Make({.block_count = 1024, .max_context_tokens = 8192}, {.max_batch_tokens = 512});
  for (std::uint64_t i = 0; i < 4; ++i) {
    auto prompt = shared;
    prompt.insert(prompt.end(), 10, static_cast<TokenId>(90 + i));
    ASSERT_TRUE(harness_->Submit(GreedyRequest(next_id_++, prompt, 2)).ok());
  }
  harness_->Run();
  EXPECT_EQ(harness_->totals().cached_prompt_tokens, 3U * 4096);
  EXPECT_EQ(CachedOf(shared), 4096U);
  auto later = shared;
  later.push_back(96);
  EXPECT_EQ(CachedOf(later), 4097U);
  ExpectAllPromptTokensCounted();
}

// ---- choices ----

TEST_F(SharingTest, ChoicesShareThePromptWithItsPartialBlock) {
  wire::Generate request = GreedyRequest(1, Text(70, 1), 5);
  request.sample_count = 4;
  ASSERT_TRUE(harness_->Submit(request).ok());
  const StepReport first = harness_->Step();
  EXPECT_EQ(first.tokens.size(), 4U);
  EXPECT_EQ(first.referenced_blocks, 5U);  // 70 tokens, once
  const StepReport second = harness_->Step();
  EXPECT_EQ(second.referenced_blocks, 4U + 4U);  // the last choice that writes keeps the block
  harness_->Run();
  EXPECT_EQ(model_->computed_token_count(), 70U + 4U * 4);
  for (std::uint32_t choice = 0; choice < 4; ++choice) {
    EXPECT_EQ(harness_->choice(1, choice).tokens, harness_->choice(1, 0).tokens);
    EXPECT_EQ(harness_->choice(1, choice).finish, wire::FinishReason::kLength);
  }
  EXPECT_EQ(harness_->totals().prompt_tokens, 70U);
  EXPECT_EQ(harness_->totals().output_tokens, 20U);
}

TEST_F(SharingTest, CancellingARequestEndsAllItsChoices) {
  wire::Generate request = GreedyRequest(1, Text(70, 1), 50);
  request.sample_count = 3;
  ASSERT_TRUE(harness_->Submit(request).ok());
  harness_->Step();
  harness_->Step();
  harness_->engine().Cancel({kLink, RequestId(1)});
  harness_->Run();
  EXPECT_EQ(harness_->choice(1, 0).finish, wire::FinishReason::kCancelled);
}

// Two choices in one step; the first one's logits are broken.
TEST_F(SharingTest, AChoiceWithBrokenLogitsEndsTheOthersThatWereComputedWithIt) {
  wire::Generate request = GreedyRequest(1, Text(10, 1), 50);
  request.sampling = {.temperature = 1.5F, .seed = 1};
  request.sample_count = 2;
  ASSERT_TRUE(harness_->Submit(request).ok());
  harness_->Step();
  const TokenId first = harness_->choice(1, 0).tokens.at(0);
  ASSERT_NE(harness_->choice(1, 1).tokens.at(0), first);
  Make({.poison_token = first}, {});
  ASSERT_TRUE(harness_->Submit(request).ok());
  harness_->Run();
  EXPECT_EQ(harness_->choice(1, 0).finish, wire::FinishReason::kError);
  EXPECT_EQ(harness_->choice(1, 1).tokens.size(), 1U);
}

TEST_F(SharingTest, MoreChoicesThanRunTogetherAreRefused) {
  Make({}, {.max_running_requests = 4});
  wire::Generate request = GreedyRequest(1, Text(70, 1), 50);
  request.sample_count = 5;
  const Result<void> refused = harness_->Submit(request);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().field, "sample_count");
}

TEST_F(SharingTest, ChoicesSurviveAPoolThatHoldsOneOfThem) {
  Make({.block_count = 8}, {});
  wire::Generate request = GreedyRequest(1, Text(70, 1), 40);
  request.sample_count = 4;
  ASSERT_TRUE(harness_->Submit(request).ok());
  harness_->Run();
  for (std::uint32_t choice = 0; choice < 4; ++choice) {
    EXPECT_EQ(harness_->choice(1, choice).tokens.size(), 40U);
    EXPECT_EQ(harness_->choice(1, choice).tokens, harness_->choice(1, 0).tokens);
  }
  EXPECT_GT(harness_->totals().preemptions, 0U);
}

// ---- cache options of a request ----

TEST_F(SharingTest, CacheOffNeitherFindsNorLeavesBlocksAndIsCounted) {
  (void)CachedOf(Text(100, 1));
  const std::size_t resident = harness_->resident().size();
  wire::Generate request = GreedyRequest(500, Text(100, 1), 20);
  request.cache_mode = wire::CacheMode::kOff;
  EXPECT_EQ(harness_->Serve(request).cached_token_count, 0U);
  wire::Generate other = GreedyRequest(501, Text(100, 2), 20);
  other.cache_mode = wire::CacheMode::kOff;
  (void)harness_->Serve(other);
  EXPECT_EQ(harness_->resident().size(), resident);
  EXPECT_EQ(harness_->totals().uncached_requests, 2U);
  EXPECT_EQ(Computed(MissReason::kDisabled), 200U);
  ExpectAllPromptTokensCounted();
}

TEST_F(SharingTest, ComputedTokensAreCountedByReason) {
  Make({.block_count = 16}, {.eviction = "lru"});
  (void)CachedOf(Text(100, 1));
  EXPECT_EQ(Computed(MissReason::kCold), 96U);
  EXPECT_EQ(Computed(MissReason::kTail), 4U);
  Flood(256);
  (void)CachedOf(Text(100, 1));
  EXPECT_GT(Computed(MissReason::kEvicted), 60U);
  ExpectAllPromptTokensCounted();
}

TEST_F(SharingTest, PinnedPrefixesStayUnderAnyPressureAndGoWhenUnpinned) {
  Make({.block_count = 32}, {.eviction = "lru"});
  const auto prompt = Text(128, 1);
  (void)CachedOf(prompt);
  wire::Pin pin{.root = kRoot, .hashes = HashBlocks(kRoot, prompt, 16), .duration_ms = 0};
  (void)harness_->engine().CarryOut(LinkId(0), pin);
  Flood(2048);
  EXPECT_EQ(harness_->Step().load.pinned_block_count, 8U);
  EXPECT_EQ(CachedOf(prompt), 127U);
  (void)harness_->engine().CarryOut(LinkId(0), wire::Unpin{.root = kRoot, .hashes = pin.hashes});
  Flood(2048);
  EXPECT_EQ(harness_->Step().load.pinned_block_count, 0U);
  EXPECT_EQ(CachedOf(prompt), 0U);
}

TEST_F(SharingTest, PinsEndByThemselvesAndTakeNoMoreThanTheirShare) {
  Make({.block_count = 32}, {.pinned_share_limit = 0.25});
  const auto prompt = Text(256, 1);
  (void)harness_->engine().CarryOut(
      LinkId(0), wire::Pin{.root = kRoot, .hashes = HashBlocks(kRoot, prompt, 16), .duration_ms = 60'000});
  (void)CachedOf(prompt);
  const StepReport report = harness_->Step();
  EXPECT_EQ(report.load.pinned_block_count, 8U);
  EXPECT_EQ(harness_->totals().refused_pins, 8U);
  clock_.Advance(std::chrono::seconds(61));
  EXPECT_EQ(harness_->Step().load.pinned_block_count, 0U);
}

TEST_F(SharingTest, ARequestThatNeedsThePinnedBlocksEndsThePins) {
  Make({.block_count = 16}, {.pinned_share_limit = 1.0});
  const auto prompt = Text(160, 1);
  (void)harness_->engine().CarryOut(
      LinkId(0), wire::Pin{.root = kRoot, .hashes = HashBlocks(kRoot, prompt, 16), .duration_ms = 0});
  (void)CachedOf(prompt);
  EXPECT_EQ(harness_->Serve(GreedyRequest(900, Text(200, 2), 20)).tokens.size(), 20U);
  EXPECT_EQ(harness_->totals().dropped_pins, 1U);
}

TEST_F(SharingTest, RetentionHintsKeepBlocksForTheirTime) {
  Make({.block_count = 32}, {.eviction = "lru", .retained_share_limit = 1});
  wire::Generate kept = GreedyRequest(900, Text(128, 1), 1);
  kept.retention = wire::Retention{.prompt_priority = 80, .prompt_duration_ms = 3'600'000};
  (void)harness_->Serve(kept);
  Flood(1024);
  EXPECT_EQ(CachedOf(Text(128, 1)), 127U);
  clock_.Advance(std::chrono::hours(2));
  Flood(1024);
  EXPECT_EQ(CachedOf(Text(128, 1)), 0U);
}

TEST_F(SharingTest, RetentionHasCeilings) {
  Make({.block_count = 32}, {.eviction = "lru"});  // four blocks for each tenant, for an hour
  wire::Generate greedy = GreedyRequest(900, Text(128, 1), 1);
  greedy.retention = wire::Retention{.prompt_priority = 100, .prompt_duration_ms = wire::kMaxKeepMs};
  (void)harness_->Serve(greedy);
  EXPECT_EQ(harness_->totals().shortened_retentions, 1U);
  EXPECT_EQ(harness_->totals().refused_retentions, 4U);
  Flood(1024);
  EXPECT_EQ(CachedOf(Text(128, 1)), 64U) << "the front of the prompt";
  clock_.Advance(std::chrono::hours(2));
  Flood(1024);
  EXPECT_EQ(CachedOf(Text(128, 1)), 0U);
}

// ---- lifetimes ----

class LifetimeTest : public SharingTest {
 protected:
  void SetUp() override { Make({.block_count = 32}, {.eviction = "lru", .retained_share_limit = 0.5}); }

  // A request that asks for a lifetime of five minutes for its first 60 tokens.
  EngineHarness::Outcome Keep(std::vector<TokenId> prompt, std::uint64_t session = 0) {
    wire::Generate request = GreedyRequest(next_id_++, std::move(prompt), 1);
    request.lifetimes = {{.end_token = 60, .duration_ms = 300'000}};
    request.session_hash = session;
    return harness_->Serve(request);
  }
};

TEST_F(LifetimeTest, TheFrontOfAPromptStaysForItsLifetime) {
  (void)Keep(Text(128, 1));
  clock_.Advance(std::chrono::minutes(4));
  Flood(1024);
  EXPECT_EQ(CachedOf(Text(128, 1)), 64U) << "with the block in which the lifetime ends";
  clock_.Advance(std::chrono::minutes(6));
  Flood(1024);
  EXPECT_EQ(CachedOf(Text(128, 1)), 0U);
}

TEST_F(LifetimeTest, EachRequestThatFindsTheBlocksBeginsTheLifetimeAnew) {
  (void)Keep(Text(128, 1));
  for (int i = 0; i < 3; ++i) {
    clock_.Advance(std::chrono::minutes(4));
    Flood(1024);
    EXPECT_EQ(CachedOf(Text(80, 1)), 64U) << "time " << i;
  }
}

TEST_F(LifetimeTest, ALifetimeOutlivesTheSessionsReturn) {
  (void)Keep(Text(128, 1), 7);
  wire::Generate next = GreedyRequest(next_id_++, Text(64, 2), 1);
  next.session_hash = 7;
  next.expect_return_ms = 60'000;
  (void)harness_->Serve(next);
  wire::Generate last = GreedyRequest(next_id_++, Text(64, 3), 1);
  last.session_hash = 7;
  (void)harness_->Serve(last);
  Flood(1024);
  EXPECT_EQ(CachedOf(Text(128, 1)), 64U);
  EXPECT_EQ(CachedOf(Text(64, 2)), 0U) << "the return that was expected has come";
}

// The lifetime's and the session's retention have one end: when the session is back the longer promise stays.
TEST_F(LifetimeTest, ASessionsReturnEndsItsRetentionAndNoLifetime) {
  wire::Generate turn = GreedyRequest(next_id_++, Text(64, 1), 1);
  turn.session_hash = 7;
  turn.lifetimes = {{.end_token = 64, .duration_ms = 300'000}};
  turn.retention = wire::Retention{.prompt_priority = 90, .prompt_duration_ms = 300'000};
  (void)harness_->Serve(turn);
  clock_.Advance(std::chrono::minutes(1));
  wire::Generate next = GreedyRequest(next_id_++, Text(64, 2), 1);
  next.session_hash = 7;
  (void)harness_->Serve(next);
  Flood(1024);
  EXPECT_EQ(CachedOf(Text(64, 1)), 63U);
}

TEST_F(LifetimeTest, LongLifetimesAreShortenedAndFillNoMoreThanTheTenantsShare) {
  Make({.block_count = 32}, {.eviction = "lru", .max_retention = std::chrono::minutes(10)});  // four blocks
  wire::Generate request = GreedyRequest(next_id_++, Text(128, 1), 1);
  request.lifetimes = {{.end_token = 1000, .duration_ms = wire::kMaxKeepMs}};
  (void)harness_->Serve(request);
  EXPECT_EQ(harness_->totals().shortened_retentions, 1U);
  EXPECT_EQ(harness_->totals().refused_retentions, 4U);
  Flood(1024);
  EXPECT_EQ(CachedOf(Text(128, 1)), 64U);
  clock_.Advance(std::chrono::minutes(11));
  Flood(1024);
  EXPECT_EQ(CachedOf(Text(128, 1)), 0U);
}

// ---- what a request tells of the cache ----

TEST_F(SharingTest, WrittenTokensAreThoseThatWereComputedAndWhoseBlocksWereAdded) {
  const auto first = harness_->Serve(GreedyRequest(next_id_++, Text(100, 1), 1));
  EXPECT_EQ(first.written_token_count, 96U);
  EXPECT_EQ(first.miss, wire::PromptMiss::kCold);
  const auto again = harness_->Serve(GreedyRequest(next_id_++, Text(100, 1), 1));
  EXPECT_EQ(again.written_token_count, 0U);
  EXPECT_EQ(again.miss, wire::PromptMiss::kNone);
  // 70 tokens are found: four blocks, and six rows of the fifth.
  auto other = Text(70, 1);
  other.insert(other.end(), 30, TokenId{91});
  const auto branch = harness_->Serve(GreedyRequest(next_id_++, other, 1));
  EXPECT_EQ(branch.cached_token_count, 70U);
  EXPECT_EQ(branch.written_token_count, 26U);
  wire::Generate off = GreedyRequest(next_id_++, Text(100, 5), 1);
  off.cache_mode = wire::CacheMode::kOff;
  const auto uncached = harness_->Serve(off);
  EXPECT_EQ(uncached.written_token_count, 0U);
  EXPECT_EQ(uncached.miss, wire::PromptMiss::kDisabled);
}

TEST_F(SharingTest, AnEvictedPromptSaysSo) {
  Make({.block_count = 32}, {.eviction = "lru"});
  (void)CachedOf(Text(128, 1));
  Flood(512);
  EXPECT_EQ(harness_->Serve(GreedyRequest(next_id_++, Text(128, 1), 1)).miss, wire::PromptMiss::kEvicted);
}

TEST_F(SharingTest, LowPriorityBlocksGoFirst) {
  Make({.block_count = 32}, {.eviction = "lru"});
  (void)CachedOf(Text(128, 1));
  wire::Generate once = GreedyRequest(900, Text(128, 2), 1);
  once.retention = wire::Retention{.prompt_priority = 0, .prompt_duration_ms = 3'600'000};
  (void)harness_->Serve(once);
  (void)CachedOf(Text(320, 3));
  EXPECT_EQ(CachedOf(Text(128, 1)), 127U);
}

TEST_F(SharingTest, AConversationThatIsExpectedBackFindsItsBlocks) {
  Make({.block_count = 32}, {.eviction = "lru", .retained_share_limit = 1});
  wire::Generate turn = GreedyRequest(900, Text(128, 1), 20);
  turn.session_hash = 7;
  turn.expect_return_ms = 3'600'000;
  const auto answer = harness_->Serve(turn).tokens;
  Flood(1024);
  auto next = Text(128, 1);
  next.insert(next.end(), answer.begin(), answer.end());
  next.push_back(1);
  EXPECT_EQ(CachedOf(next), 147U);
}

TEST_F(SharingTest, HitsAreVerifiedAndWrongOnesFound) {
  Make({}, {.verify_hits_share = 1.0});
  (void)CachedOf(Text(100, 1));
  (void)CachedOf(Text(100, 1));
  EXPECT_EQ(harness_->totals().verified_hits, 1U);
  EXPECT_EQ(harness_->totals().wrong_hits, 0U);
  model_->CorruptKv();
  (void)CachedOf(Text(100, 1));
  EXPECT_EQ(harness_->totals().wrong_hits, 1U);
  EXPECT_EQ(CachedOf(Text(100, 1)), 0U) << "its blocks, which were computed here, have left";
  EXPECT_EQ(harness_->totals().wrong_hits, 1U);
}

// The logits of a prompt behind cached blocks differ by 1.5 % of the largest from those of the whole prompt.
TEST_F(SharingTest, HitsAreVerifiedUpToTheRoundingOfTheBackend) {
  for (const float tolerance : {0.01F, 0.02F}) {
    Make({.arithmetic = {.batch_tolerance = tolerance}, .rounding = 0.015F}, {.verify_hits_share = 1.0});
    (void)CachedOf(Text(100, 1));
    (void)CachedOf(Text(100, 1));
    EXPECT_EQ(harness_->totals().wrong_hits, tolerance < 0.015F ? 1U : 0U);
    EXPECT_EQ(harness_->totals().verified_hits, tolerance < 0.015F ? 0U : 1U);
    model_->CorruptKv();
    (void)CachedOf(Text(100, 1));
    (void)CachedOf(Text(100, 1));  // a wrong hit leaves nothing to find
    EXPECT_EQ(harness_->totals().wrong_hits, tolerance < 0.015F ? 2U : 1U);
  }
}

TEST_F(SharingTest, AVerificationIsItsRequestsTenants) {
  Make({}, {.max_running_requests = 2, .verify_hits_share = 1.0});
  (void)CachedOf(Text(100, 1));
  for (const std::uint64_t id : {901U, 902U}) {
    wire::Generate request = GreedyRequest(id, Text(100, 1), 30);
    request.tenant = "one";
    ASSERT_TRUE(harness_->Submit(request).ok());
  }
  harness_->Run();
  EXPECT_EQ(harness_->totals().verified_hits, 1U);
  EXPECT_EQ(harness_->totals().preemptions, 0U) << "another tenant would have had half of the places";
}

TEST_F(SharingTest, WhoWaitsTooLongIsRefused) {
  Make({}, {.max_running_requests = 1, .max_queue_wait = std::chrono::seconds(5)});
  ASSERT_TRUE(harness_->Submit(GreedyRequest(1, Text(10, 1), 600)).ok());
  ASSERT_TRUE(harness_->Submit(GreedyRequest(2, Text(10, 2), 600)).ok());
  harness_->Run();
  EXPECT_EQ(harness_->outcome(1).tokens.size(), 600U);
  EXPECT_EQ(harness_->outcome(2).error->code, ErrorCode::kOverloaded);
}

TEST_F(SharingTest, HigherPriorityIsTakenFirst) {
  Make({}, {.max_running_requests = 1});
  for (const std::uint32_t priority : {50U, 10U, 90U}) {
    wire::Generate request = GreedyRequest(priority, Text(10, priority), 3);
    request.priority = priority;
    ASSERT_TRUE(harness_->Submit(request).ok());
  }
  harness_->Step();
  EXPECT_EQ(harness_->outcome(90).tokens.size(), 1U);
  harness_->Run();
  EXPECT_LT(harness_->outcome(50).queue_wait_seconds, harness_->outcome(10).queue_wait_seconds);
}

TEST_F(SharingTest, ThePoolsHitRatesAreEstimated) {
  for (int round = 0; round < 3; ++round) {
    for (std::uint64_t i = 0; i < 5; ++i) (void)CachedOf(Text(160, i));
  }
  clock_.Advance(std::chrono::seconds(2));
  ASSERT_TRUE(harness_->Submit(GreedyRequest(900, Text(160, 1), 1)).ok());
  const StepReport report = harness_->Step();
  ASSERT_TRUE(report.hit_rates.has_value());
  EXPECT_NEAR((*report.hit_rates)[1], 0.66, 0.1);
  EXPECT_GE((*report.hit_rates)[3], (*report.hit_rates)[0]);
}

}  // namespace
}  // namespace roost::worker
