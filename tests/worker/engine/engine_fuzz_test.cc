// Random lives of an engine: requests come, are cancelled, lie about their hashes, run out of blocks. Whatever happens,
// each ends once with the right tokens, and all blocks come back. A failure prints its seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "common/base/rng.h"
#include "tests/support/engine_harness.h"
#include "tests/support/fake_model.h"

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
    harness_ = std::make_unique<EngineHarness>(
        *model_, clock_,
        worker::EngineOptions{.max_batch_tokens = static_cast<std::uint32_t>(1 + rng_.Below(80)),
                              .max_running_requests = static_cast<std::uint32_t>(1 + rng_.Below(10)),
                              .max_waiting_requests = static_cast<std::uint32_t>(1 + rng_.Below(20)),
                              .stop_tokens = {0, 1},
                              .check_invariants = true});
  }

  void Act() {
    switch (rng_.Below(8)) {
      case 0:
      case 1: Submit(); break;
      case 2: CancelOne(); break;
      default: harness_->Step();
    }
    if (rng_.Below(200) == 0) CancelLink(LinkId(static_cast<std::uint32_t>(rng_.Below(3))));
  }

  void Finish() {
    harness_->Run();
    for (const auto& [key, request] : accepted_) {
      SCOPED_TRACE(testing::Message() << "link " << key.link.value() << " request " << key.request.value());
      const EngineHarness::Outcome& outcome = harness_->outcome(key);
      ASSERT_TRUE(outcome.finish.has_value());
      CheckTokens(request, outcome);
      if (testing::Test::HasFatalFailure()) return;
    }
  }

  [[nodiscard]] const worker::StepCounts& totals() const { return harness_->totals(); }

 private:
  void Submit() {
    std::vector<TokenId> prompt;
    if (!prompts_.empty() && rng_.Below(3) > 0) {
      prompt = prompts_[rng_.Below(prompts_.size())];
      if (rng_.Below(3) > 0) prompt.resize(1 + rng_.Below(prompt.size()));
    }
    for (std::uint64_t more = rng_.Below(60) + 1; more > 0; --more) {
      prompt.push_back(static_cast<TokenId>(rng_.Below(40)));
    }
    prompts_.push_back(prompt);
    wire::Generate request = GreedyRequest(next_id_++, std::move(prompt),
                                           static_cast<std::uint32_t>(1 + rng_.Below(40)), BlockHash{1, rng_.Below(2)});
    request.ignore_eos = rng_.Below(2) == 0;
    if (rng_.Below(4) == 0) request.deadline_ms = 1 + rng_.Below(500);
    if (rng_.Below(6) == 0) Lie(request);
    const RequestKey key{LinkId(static_cast<std::uint32_t>(rng_.Below(3))), request.request_id};
    if (harness_->Submit(request, key.link).ok()) accepted_.emplace(key, std::move(request));
  }

  // Hashes of another prompt, of another scope, or all one.
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
    std::erase_if(accepted_, [&](const auto& entry) {
      return entry.first.link == link && !harness_->outcome(entry.first).finish.has_value();
    });
  }

  // The tokens are those of the definition, as far as they go, and the end is one that the request allows.
  void CheckTokens(const wire::Generate& request, const EngineHarness::Outcome& outcome) {
    std::vector<TokenId> tokens = request.prompt;
    const auto is_stop = [&](TokenId token) { return !request.ignore_eos && token <= 1; };
    for (const TokenId token : outcome.tokens) {
      ASSERT_EQ(token, Next(tokens));
      ASSERT_FALSE(is_stop(token));
      tokens.push_back(token);
    }
    if (outcome.finish == wire::FinishReason::kStop) {
      ASSERT_TRUE(is_stop(Next(tokens)));
    } else if (outcome.finish == wire::FinishReason::kLength) {
      const std::uint32_t context = harness_->engine().max_context_tokens();
      ASSERT_TRUE(outcome.tokens.size() == request.max_output_tokens || tokens.size() == context);
    } else if (outcome.finish == wire::FinishReason::kError && outcome.error->code == ErrorCode::kInternal) {
      ASSERT_EQ(tokens.back(), 39U);
    }
  }

  TokenId Next(const std::vector<TokenId>& tokens) const {
    const std::vector<float> logits = model_->ReferenceLogits(tokens);
    return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }

  Rng rng_;
  ManualClock clock_;
  std::unique_ptr<FakeModel> model_;
  std::unique_ptr<EngineHarness> harness_;
  std::uint64_t next_id_ = 0;
  std::vector<std::vector<TokenId>> prompts_;
  std::map<RequestKey, wire::Generate> accepted_;
};

TEST(EngineFuzzTest, EveryRequestEndsOnceWithTheRightTokensAndAllBlocksComeBack) {
  constexpr std::uint64_t kSeeds = 300;
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
  }
  // A fuzzer that never gets anywhere proves nothing.
  EXPECT_GT(seen.cached_prompt_tokens, 10'000U);
  EXPECT_GT(seen.evicted_blocks, 10'000U);
  EXPECT_GT(seen.preemptions, 500U);
  EXPECT_GT(seen.verification_misses, 500U);
}

}  // namespace
}  // namespace roost::testing_support
