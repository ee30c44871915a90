#include "deploy/roostctl/generate/offline_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/roostctl/generate/offline_models.h"
#include "tests/support/fake_model.h"

namespace roost::roostctl {
namespace {

using testing_support::FakeModel;

constexpr std::uint32_t kBlockTokens = 4;
constexpr std::uint32_t kContextTokens = 512;
constexpr std::uint32_t kVocabulary = 90;  // the characters in the demo model's tokenizer
constexpr TokenId kPoison = 95;

class OfflineRunTest : public ::testing::Test {
 protected:
  struct Wishes {
    OfflineScheduler scheduler = OfflineScheduler::kOnline;
    wire::CacheMode cache = wire::CacheMode::kOn;
    worker::EngineOptions engine = {.max_batch_tokens = 64, .max_running_requests = 4};
    std::uint32_t block_count = 512;
    std::optional<TokenId> poison_token = std::nullopt;
  };

  static std::vector<TokenId> Prompt(std::uint64_t seed, std::uint32_t token_count) {
    Rng rng(seed);
    std::vector<TokenId> tokens(token_count);
    for (TokenId& token : tokens) token = static_cast<TokenId>(rng.Below(kVocabulary));
    return tokens;
  }
  OfflineRequest Ask(std::vector<TokenId> prompt, router::SamplingFields fields) {
    OfflineRequest request;
    request.spec = router::MakeGenerateSpec(served_, std::move(prompt), fields, {.field = "prompt"}).value();
    request.stop = fields.stop;
    return request;
  }
  // A greedy request for exactly this many tokens.
  OfflineRequest Ask(std::uint64_t seed, std::uint32_t prompt_tokens, std::uint32_t output_tokens) {
    return Ask(Prompt(seed, prompt_tokens), Greedy(output_tokens));
  }
  static router::SamplingFields Greedy(std::uint32_t output_tokens) {
    router::SamplingFields fields;
    fields.max_output_tokens = output_tokens;
    fields.given.emplace_back([](wire::Sampling& sampling) { sampling.temperature = 0.0F; });
    fields.generate.ignore_eos = true;
    return fields;
  }

  RecordedRun Run(const Wishes& wishes, std::vector<OfflineRequest> requests) {
    FakeModel model({.block_tokens = kBlockTokens,
                     .block_count = wishes.block_count,
                     .vocab_size = 97,
                     .max_context_tokens = kContextTokens,
                     .poison_token = wishes.poison_token,
                     .clock = &clock_});
    RecordedRun run;
    totals_ = RunOffline({.model = model,
                          .clock = clock_,
                          .engine = wishes.engine,
                          .scheduler = wishes.scheduler,
                          .cache = wishes.cache},
                         std::move(requests), run);
    return run;
  }

  // The most choices that got a further token in the same step.
  static std::uint64_t MostAtOnce(const RecordedRun& run) {
    std::uint64_t most = 0;
    std::uint64_t before = 0;
    for (const OfflineTotals& step : run.steps) {
      most = std::max(most, step.decode_tokens - before);
      before = step.decode_tokens;
    }
    return most;
  }
  // Prompt tokens that were computed, or found in the cache, while `ended` requests had ended.
  static std::uint64_t PromptsWhen(const RecordedRun& run, std::size_t ended) {
    std::uint64_t tokens = 0;
    for (const OfflineTotals& step : run.steps) {
      if (step.ended_count == ended) tokens = step.prompt_tokens;
    }
    return tokens;
  }

  ManualClock clock_;
  OfflineTotals totals_;
  std::shared_ptr<const router::ServedModel> served_ = ServedDemo(kBlockTokens, kContextTokens);
};

TEST_F(OfflineRunTest, EverySchedulerWithAndWithoutCacheGivesTheSameAnswersInTheOrderOfTheRequests) {
  const auto make = [this] {
    std::vector<OfflineRequest> requests;
    for (std::uint32_t i = 0; i < 11; ++i) requests.push_back(Ask(i % 3, 20 + 7 * (i % 4), 3 + 5 * (i % 3)));
    return requests;
  };
  const RecordedRun expected = Run({.scheduler = OfflineScheduler::kNaive, .cache = wire::CacheMode::kOff}, make());
  ASSERT_EQ(expected.answers.size(), 11U);
  for (const auto& [name, scheduler] : kOfflineSchedulers) {
    for (const wire::CacheMode cache : {wire::CacheMode::kOn, wire::CacheMode::kOff}) {
      const RecordedRun run = Run({.scheduler = scheduler, .cache = cache}, make());
      ASSERT_EQ(run.answers.size(), 11U) << name;
      for (std::size_t i = 0; i < run.answers.size(); ++i) {
        EXPECT_EQ(run.answers[i].index, i) << name;
        EXPECT_EQ(run.answers[i].prompt_token_count, 20 + 7 * (i % 4)) << name;
        ASSERT_EQ(run.answers[i].choices.size(), 1U) << name;
        EXPECT_EQ(run.answers[i].choices[0].tokens, expected.answers[i].choices[0].tokens) << name;
        EXPECT_EQ(run.answers[i].choices[0].text, expected.answers[i].choices[0].text) << name;
        EXPECT_EQ(run.answers[i].choices[0].tokens.size(), 3 + 5 * (i % 3)) << name;
        EXPECT_EQ(run.answers[i].choices[0].finish, wire::FinishReason::kLength) << name;
      }
    }
  }
}

TEST_F(OfflineRunTest, NaiveRunsOneRequestAtATime) {
  EXPECT_EQ(MostAtOnce(Run({.scheduler = OfflineScheduler::kNaive}, {Ask(1, 8, 5), Ask(2, 8, 5), Ask(3, 8, 5)})), 1U);
  EXPECT_EQ(MostAtOnce(Run({.scheduler = OfflineScheduler::kOnline}, {Ask(1, 8, 5), Ask(2, 8, 5), Ask(3, 8, 5)})), 3U);
}

TEST_F(OfflineRunTest, WaveBeginsWhenAllOfTheLastHaveEnded) {
  const Wishes wishes{.scheduler = OfflineScheduler::kOffline,
                      .engine = {.max_batch_tokens = 64, .max_running_requests = 2}};
  const RecordedRun run = Run(wishes, {Ask(1, 10, 2), Ask(2, 10, 20), Ask(3, 10, 2), Ask(4, 10, 2)});
  EXPECT_EQ(MostAtOnce(run), 2U);
  EXPECT_EQ(PromptsWhen(run, 1), 20U);  // the first has ended, and its place stays empty
  EXPECT_EQ(PromptsWhen(run, 4), 40U);
}

TEST_F(OfflineRunTest, OnlineGivesAPlaceThatIsFreeToTheNext) {
  const Wishes wishes{.scheduler = OfflineScheduler::kOnline,
                      .engine = {.max_batch_tokens = 64, .max_running_requests = 2}};
  const RecordedRun run = Run(wishes, {Ask(1, 10, 2), Ask(2, 10, 20), Ask(3, 10, 2), Ask(4, 10, 2)});
  EXPECT_EQ(PromptsWhen(run, 3), 40U);  // all were computed during the long answer
  EXPECT_EQ(run.answers.at(1).index, 1U);
}

TEST_F(OfflineRunTest, WaveHoldsNoMoreThanTheBlocksDo) {
  const Wishes wishes{.scheduler = OfflineScheduler::kOffline, .block_count = 16};
  // Each needs six blocks.
  const RecordedRun run = Run(wishes, {Ask(1, 20, 4), Ask(2, 20, 4), Ask(3, 20, 4), Ask(4, 20, 4), Ask(5, 20, 4)});
  EXPECT_EQ(MostAtOnce(run), 2U);
  EXPECT_EQ(run.answers.size(), 5U);
  EXPECT_EQ(totals_.failed_count, 0U);
}

TEST_F(OfflineRunTest, WithoutCacheEachPromptIsComputedWhole) {
  const auto make = [this] { return std::vector{Ask(1, 40, 4), Ask(1, 40, 4), Ask(1, 40, 4)}; };
  const RecordedRun with = Run({.scheduler = OfflineScheduler::kNaive}, make());
  EXPECT_EQ(with.answers[0].cached_token_count, 0U);
  EXPECT_EQ(with.answers[1].cached_token_count, 39U);
  EXPECT_EQ(totals_.cached_tokens, 78U);
  EXPECT_EQ(totals_.computed_prompt_tokens, 42U);
  const RecordedRun without = Run({.scheduler = OfflineScheduler::kNaive, .cache = wire::CacheMode::kOff}, make());
  EXPECT_EQ(without.answers[2].cached_token_count, 0U);
  EXPECT_EQ(totals_.cached_tokens, 0U);
  EXPECT_EQ(totals_.computed_prompt_tokens, 120U);
}

TEST_F(OfflineRunTest, StopStringCutsTheTextAndEndsTheRequest) {
  const std::string whole = Run({}, {Ask(1, 12, 30)}).answers[0].choices[0].text;
  ASSERT_GT(whole.size(), 12U);
  router::SamplingFields fields = Greedy(30);
  fields.stop = {whole.substr(6, 3)};
  const RecordedRun run = Run({}, {Ask(Prompt(1, 12), fields)});
  const OfflineChoice& choice = run.answers.at(0).choices.at(0);
  EXPECT_EQ(choice.text, whole.substr(0, whole.find(fields.stop[0])));
  EXPECT_EQ(choice.finish, wire::FinishReason::kStop);
  EXPECT_LE(choice.tokens.size(), 9U);
  EXPECT_LT(totals_.output_tokens, 15U);
}

TEST_F(OfflineRunTest, RequestThatFailsLeavesTheOthersAlone) {
  std::vector<TokenId> poisoned = Prompt(2, 10);
  poisoned.push_back(kPoison);
  const RecordedRun run =
      Run({.poison_token = kPoison}, {Ask(1, 10, 4), Ask(std::move(poisoned), Greedy(4)), Ask(3, 10, 4)});
  ASSERT_EQ(run.answers.size(), 3U);
  EXPECT_FALSE(run.answers[0].error.has_value());
  ASSERT_TRUE(run.answers[1].error.has_value());
  EXPECT_TRUE(run.answers[1].choices.empty());
  EXPECT_EQ(run.answers[2].choices.at(0).tokens.size(), 4U);
  EXPECT_EQ(totals_.failed_count, 1U);
  EXPECT_EQ(totals_.ended_count, 3U);
}

TEST_F(OfflineRunTest, ChoiceDrawsAsARequestWithItsSeedDoes) {
  router::SamplingFields fields = Greedy(8);
  fields.given.emplace_back([](wire::Sampling& sampling) { sampling.temperature = 1.0F; });
  fields.given.emplace_back([](wire::Sampling& sampling) { sampling.seed = 7; });
  fields.generate.sample_count = 2;
  const RecordedRun both = Run({}, {Ask(Prompt(1, 10), fields)});
  fields.generate.sample_count = 1;
  const RecordedRun first = Run({}, {Ask(Prompt(1, 10), fields)});
  fields.given.emplace_back([](wire::Sampling& sampling) { sampling.seed = 8; });
  const RecordedRun second = Run({}, {Ask(Prompt(1, 10), fields)});
  ASSERT_EQ(both.answers.at(0).choices.size(), 2U);
  EXPECT_EQ(both.answers[0].choices[0].tokens, first.answers.at(0).choices.at(0).tokens);
  EXPECT_EQ(both.answers[0].choices[1].tokens, second.answers.at(0).choices.at(0).tokens);
  EXPECT_NE(both.answers[0].choices[0].tokens, both.answers[0].choices[1].tokens);
}

TEST_F(OfflineRunTest, MoreRequestsThanTheQueueHoldsWaitTheirTurn) {
  for (const auto& [name, scheduler] : kOfflineSchedulers) {
    std::vector<OfflineRequest> requests;
    for (std::uint32_t i = 0; i < 12; ++i) requests.push_back(Ask(i, 10, 3));
    const Wishes wishes{.scheduler = scheduler,
                        .engine = {.max_batch_tokens = 64, .max_running_requests = 2, .max_waiting_requests = 3}};
    EXPECT_EQ(Run(wishes, std::move(requests)).answers.size(), 12U) << name;
    EXPECT_EQ(totals_.failed_count, 0U) << name;
  }
}

// Steps of the fake model take 10 ms.
TEST_F(OfflineRunTest, TimeOfAStepIsDividedByItsTokens) {
  Run({.scheduler = OfflineScheduler::kNaive}, {Ask(1, 10, 3)});
  EXPECT_EQ(totals_.prompt_tokens, 10U);
  EXPECT_EQ(totals_.output_tokens, 3U);
  EXPECT_EQ(totals_.decode_tokens, 2U);
  EXPECT_NEAR(totals_.prefill_seconds, 0.010, 1e-9);
  EXPECT_NEAR(totals_.decode_seconds, 0.020, 1e-9);
  EXPECT_NEAR(totals_.total_seconds, 0.030, 1e-9);
  EXPECT_NEAR(totals_.prefill_rate(), 1000, 1e-6);
  EXPECT_NEAR(totals_.decode_rate(), 100, 1e-6);
  EXPECT_NEAR(totals_.total_rate(), 13 / 0.030, 1e-6);
}

}  // namespace
}  // namespace roost::roostctl
