// Random events for an engine: requests with several choices, tenants and priorities come, are cancelled, have wrong
// hashes, ask for retention or for no caching; prefixes are pinned, prompts, blocks and tenants evicted, time passes,
// blocks run out. Whatever happens, each request ends once with the right tokens, and all blocks come back. A failure
// prints its seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/rng.h"
#include "tests/model/naive_penalties.h"
#include "tests/support/engine_harness.h"
#include "tests/support/fake_model.h"
#include "tests/support/sanitized.h"
#include "worker/sample/sampler.h"

namespace roost::testing_support {
namespace {

using worker::LinkId;
using worker::RequestKey;

class EngineFuzz {
 public:
  explicit EngineFuzz(std::uint64_t seed) : rng_(seed) {
    FakeModel::Options options;
    options.block_tokens = 4U << rng_.Below(3);
    options.block_count = static_cast<std::uint32_t>(2 + rng_.Below(30));
    options.vocab_size = 40;
    options.max_context_tokens = static_cast<std::uint32_t>(20 + rng_.Below(150));
    options.clock = &clock_;
    if (rng_.Below(2) == 0) options.poison_token = 39;
    model_ = std::make_unique<FakeModel>(options);
    harness_ = std::make_unique<EngineHarness>(*model_, clock_, RandomOptions());
  }

  void Act() {
    switch (rng_.Below(17)) {
      case 0:
      case 1:
      case 2:
      case 3: Submit(); break;
      case 4:
      case 5: CancelOne(); break;
      case 6: PinOne(); break;
      case 7: clock_.Advance(std::chrono::milliseconds(Between(0, 1000))); break;
      case 8: EvictOne(); break;
      default: harness_->Step();
    }
    if (rng_.Below(200) == 0) CancelLink(LinkId(Between(0, 2)));
  }

  void Finish() {
    harness_->Run();
    for (const auto& [key, request] : accepted_) {
      SCOPED_TRACE(testing::Message() << "link " << key.link.value() << " request " << key.request.value());
      ASSERT_TRUE(HasEnded(key, request));
      for (std::uint32_t choice = 0; choice < request.sample_count; ++choice) {
        CheckTokens(request, choice, harness_->choice(key, choice));
      }
      if (testing::Test::HasFatalFailure()) return;
    }
  }

  [[nodiscard]] const worker::StepCounts& totals() const { return harness_->totals(); }

 private:
  std::uint32_t Between(std::uint64_t low, std::uint64_t high) {
    return static_cast<std::uint32_t>(low + rng_.Below(high - low + 1));
  }

  worker::EngineOptions RandomOptions() {
    worker::EngineOptions options{.max_batch_tokens = Between(1, 80),
                                  .max_running_requests = Between(1, 10),
                                  .max_waiting_requests = Between(1, 20),
                                  .stop_tokens = {0, 1}};
    options.eviction = worker::kEvictionPolicyNames[rng_.Below(worker::kEvictionPolicyNames.size())];
    options.pinned_share_limit = 0.3 * Between(1, 3);
    options.min_hold = std::chrono::milliseconds(Between(0, 1) * 50);
    options.held_share_limit = 0.25 * Between(0, 4);
    options.schedule_policy = static_cast<worker::SchedulePolicy>(rng_.Below(3));
    options.max_partial_prefills = Between(0, 3);
    options.short_step_tokens = Between(0, 1) * Between(1, 40);
    if (rng_.Below(2) == 0) options.tenant_shares = {{"a", 0.3}, {"b", 0.2}};
    if (rng_.Below(4) == 0) options.max_queue_wait = std::chrono::milliseconds(Between(50, 2000));
    if (rng_.Below(4) == 0) options.verify_hits_share = 1.0;
    options.plan_ahead = options.verify_hits_share == 0 && rng_.Below(2) == 0;
    options.check_invariants = true;
    return options;
  }

  std::vector<TokenId> RandomPrompt() {
    std::vector<TokenId> prompt;
    if (!prompts_.empty() && rng_.Below(3) > 0) {
      prompt = prompts_[rng_.Below(prompts_.size())];
      if (rng_.Below(3) > 0) prompt.resize(1 + rng_.Below(prompt.size()));
    }
    for (std::uint32_t more = Between(1, 60); more > 0; --more) prompt.push_back(Between(0, 39));
    prompts_.push_back(prompt);
    return prompt;
  }

  void Submit() {
    wire::Generate request = GreedyRequest(next_id_++, RandomPrompt(), Between(1, 40), BlockHash{1, rng_.Below(2)});
    request.ignore_eos = rng_.Below(2) == 0;
    if (rng_.Below(4) == 0) request.deadline_ms = 1 + rng_.Below(500);
    Ask(request);
    if (rng_.Below(6) == 0) Lie(request);
    const RequestKey key{LinkId(Between(0, 2)), request.request_id};
    if (harness_->Submit(request, key.link).ok()) accepted_.emplace(key, std::move(request));
  }

  // Random options of a request.
  void Ask(wire::Generate& request) {
    if (rng_.Below(2) == 0) request.sampling = {.temperature = 1.5F, .seed = rng_.Below(1000)};
    if (rng_.Below(3) == 0) Penalize(request.sampling);
    if (rng_.Below(3) == 0) request.sample_count = Between(1, 4);
    if (rng_.Below(6) == 0) request.cache_mode = wire::CacheMode::kOff;
    if (rng_.Below(3) == 0) request.priority = Between(0, 100);
    request.tenant = std::vector<std::string>{"", "a", "b"}[rng_.Below(3)];
    if (rng_.Below(3) == 0) {
      request.retention = wire::Retention{.prompt_priority = Between(0, 100),
                                          .prompt_duration_ms = rng_.Below(5000),
                                          .decode_priority = Between(0, 100),
                                          .decode_duration_ms = rng_.Below(5000)};
    }
    if (rng_.Below(6) == 0) request.expect_return_ms = rng_.Below(5000);
  }

  // Multiples of a quarter, so that rounding plays no role.
  void Penalize(wire::Sampling& sampling) {
    const auto quarters = [this](std::uint32_t low, std::uint32_t high) {
      return static_cast<float>(Between(low, high)) / 4;
    };
    sampling.min_p = quarters(0, 1);
    sampling.repetition_penalty = quarters(3, 8);
    sampling.presence_penalty = quarters(0, 16) - 2;
    sampling.frequency_penalty = quarters(0, 16) - 2;
    if (rng_.Below(2) == 0) sampling.logit_bias = {{.token = Between(0, 30), .bias = quarters(0, 40) - 5}};
  }

  // A prompt, its last full block, or all of a tenant.
  void EvictOne() {
    wire::Evict order{wire::TenantToEvict{std::vector<std::string>{"", "a", "b"}[rng_.Below(3)]}, 1};
    if (!prompts_.empty() && rng_.Below(4) > 0) {
      std::vector<TokenId> prompt = prompts_[rng_.Below(prompts_.size())];
      prompt.resize(1 + rng_.Below(prompt.size()));
      const BlockHash root{1, rng_.Below(2)};
      const std::vector<BlockHash> hashes = HashBlocks(root, prompt, model_->block_tokens());
      if (!hashes.empty() && rng_.Below(3) == 0) {
        order.what = wire::BlockToEvict{hashes.back()};
      } else {
        order.what = wire::PromptToEvict{root, std::move(prompt), {}};
      }
    }
    (void)harness_->engine().CarryOut(LinkId(0), std::move(order));
  }

  // Pins a part of a prompt that has been seen.
  void PinOne() {
    if (prompts_.empty()) return;
    const BlockHash root{1, rng_.Below(2)};
    std::vector<BlockHash> hashes = HashBlocks(root, prompts_[rng_.Below(prompts_.size())], model_->block_tokens());
    if (hashes.empty()) return;
    hashes.resize(1 + rng_.Below(hashes.size()));
    if (rng_.Below(3) == 0) {
      (void)harness_->engine().CarryOut(LinkId(0), wire::Unpin{.root = root, .hashes = std::move(hashes)});
    } else {
      (void)harness_->engine().CarryOut(
          LinkId(0), wire::Pin{.root = root, .hashes = std::move(hashes), .duration_ms = rng_.Below(5000)});
    }
  }

  // Wrong hashes: of another prompt, of another scope, or all equal.
  void Lie(wire::Generate& request) {
    const std::size_t count = request.prompt.size() / model_->block_tokens();
    const auto& other = prompts_[rng_.Below(prompts_.size())];
    request.block_hashes = HashBlocks(BlockHash{1, rng_.Below(2)}, other, model_->block_tokens());
    request.block_hashes.resize(count, BlockHash{9, rng_.Below(3)});
  }

  void CancelOne() {
    if (accepted_.empty()) return;
    auto chosen = accepted_.begin();
    std::advance(chosen, static_cast<std::ptrdiff_t>(rng_.Below(accepted_.size())));
    harness_->engine().Cancel(chosen->first);  // it may have ended long ago
  }

  void CancelLink(LinkId link) {
    harness_->engine().CancelLink(link);
    std::erase_if(accepted_,
                  [&](const auto& entry) { return entry.first.link == link && !HasEnded(entry.first, entry.second); });
  }

  // True if each choice has ended, or one has ended them all.
  bool HasEnded(RequestKey key, const wire::Generate& request) {
    std::uint32_t ended = 0;
    for (std::uint32_t choice = 0; choice < request.sample_count; ++choice) {
      const auto finish = harness_->choice(key, choice).finish;
      if (finish && wire::EndsAllChoices(*finish)) return true;
      ended += finish ? 1 : 0;
    }
    return ended == request.sample_count;
  }

  // The tokens equal the definition's, as far as they go, and the request allows this end.
  void CheckTokens(const wire::Generate& request, std::uint32_t choice, const EngineHarness::Outcome& outcome) {
    std::vector<TokenId> tokens = request.prompt;
    const auto is_stop = [&](TokenId token) { return !request.ignore_eos && token <= 1; };
    for (const TokenId token : outcome.tokens) {
      ASSERT_EQ(token, Next(request, choice, tokens));
      ASSERT_FALSE(is_stop(token));
      tokens.push_back(token);
    }
    if (outcome.finish == wire::FinishReason::kStop) {
      ASSERT_TRUE(is_stop(Next(request, choice, tokens)));
    } else if (outcome.finish == wire::FinishReason::kLength) {
      const std::uint32_t context = harness_->engine().max_context_tokens();
      ASSERT_TRUE(outcome.tokens.size() == request.max_output_tokens || tokens.size() == context);
    } else if (outcome.finish == wire::FinishReason::kError && outcome.error->code == ErrorCode::kInternal) {
      ASSERT_EQ(tokens.back(), 39U);
    }
  }

  TokenId Next(const wire::Generate& request, std::uint32_t choice, const std::vector<TokenId>& tokens) {
    wire::Sampling sampling = request.sampling;
    sampling.seed += choice;
    const std::span<const TokenId> text = tokens;
    const auto [prompt, output] = std::pair(text.first(request.prompt.size()), text.subspan(request.prompt.size()));
    const std::vector<float> logits =
        testing_support::NaivePenalized(model_->ReferenceLogits(tokens), sampling, prompt, output);
    return worker::SampleToken(logits, sampling, output.size(), scratch_).value();
  }

  Rng rng_;
  ManualClock clock_;
  std::unique_ptr<FakeModel> model_;
  std::unique_ptr<EngineHarness> harness_;
  std::uint64_t next_id_ = 0;
  std::vector<std::vector<TokenId>> prompts_;
  std::map<RequestKey, wire::Generate> accepted_;
  kernels::SampleScratch scratch_;
};

TEST(EngineFuzzTest, EveryRequestEndsOnceWithTheRightTokensAndAllBlocksComeBack) {
  constexpr std::uint64_t kSeeds = testing_support::kSanitized ? 400 : 1000;
  worker::StepCounts seen;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    EngineFuzz fuzz(seed);
    for (int action = 0; action < 400; ++action) {
      fuzz.Act();
      if (testing::Test::HasFatalFailure()) return;
    }
    fuzz.Finish();
    if (testing::Test::HasFailure()) return;
    seen.cached_prompt_tokens += fuzz.totals().cached_prompt_tokens;
    seen.evicted_blocks += fuzz.totals().evicted_blocks;
    seen.preemptions += fuzz.totals().preemptions;
    seen.verification_misses += fuzz.totals().verification_misses;
    seen.tail_cached_tokens += fuzz.totals().tail_cached_tokens;
    seen.uncached_requests += fuzz.totals().uncached_requests;
    seen.dropped_pins += fuzz.totals().dropped_pins;
    seen.verified_hits += fuzz.totals().verified_hits;
    seen.wrong_hits += fuzz.totals().wrong_hits;
  }
  // A fuzzer in which nothing happens would prove nothing.
  EXPECT_GT(seen.cached_prompt_tokens, 10'000U);
  EXPECT_GT(seen.evicted_blocks, 10'000U);
  EXPECT_GT(seen.preemptions, 500U);
  EXPECT_GT(seen.verification_misses, 500U);
  EXPECT_GT(seen.tail_cached_tokens, 1000U);
  EXPECT_GT(seen.uncached_requests, 1000U);
  EXPECT_GT(seen.dropped_pins, 5U);
  EXPECT_GT(seen.verified_hits, 100U);
  EXPECT_EQ(seen.wrong_hits, 0U);
}

}  // namespace
}  // namespace roost::testing_support
