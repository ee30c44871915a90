// Two engines that serve requests, send each other blocks, evict, erase and lose each other, at random: every answer is
// the one that the model gives without any cache, and nothing is left over.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "common/base/rng.h"
#include "tests/worker/engine/travelling_side.h"

namespace roost::worker {
namespace {

using testing_support::GreedyRequest;
using testing_support::kLink;
using testing_support::kRoot;

constexpr BlockHash kOwnRoot{33, 44};
constexpr std::uint32_t kOutputTokens = 4;

class TravellingFuzzTest : public testing::TestWithParam<std::uint64_t> {
 protected:
  void SetUp() override {
    const SideOptions options{.block_count = 24 + static_cast<std::uint32_t>(rng_.Below(40)),
                              .max_batch_tokens = 16 + static_cast<std::uint32_t>(rng_.Below(64)),
                              .max_running_requests = 4,
                              .plan_ahead = rng_.Below(2) == 0,
                              .check_invariants = true};
    for (auto& side : sides_) side = std::make_unique<Side>(options, clock_);
    for (std::size_t i = 0; i < 2; ++i) sides_[i]->source.Connect(&sides_[1 - i]->readable, 1 + rng_.Below(12));
    for (std::uint64_t stream = 0; stream < 6; ++stream) texts_.push_back(Text(stream));
  }

  // Texts of up to 16 blocks, with common fronts.
  static std::vector<TokenId> Text(std::uint64_t stream) {
    std::vector<TokenId> tokens;
    Rng common(stream / 3);
    Rng own(stream + 100);
    for (int i = 0; i < 40; ++i) tokens.push_back(static_cast<TokenId>(common.Below(90)));
    for (int i = 0; i < 88; ++i) tokens.push_back(static_cast<TokenId>(own.Below(90)));
    return tokens;
  }

  std::vector<TokenId> RandomPrompt() {
    const std::vector<TokenId>& text = texts_[rng_.Below(texts_.size())];
    return {text.begin(), text.begin() + 1 + static_cast<std::ptrdiff_t>(rng_.Below(text.size()))};
  }
  // In some prompts a tenant's own scope begins behind the common front.
  std::optional<OwnScope> RandomScope() {
    if (rng_.Below(3) > 0) return std::nullopt;
    return OwnScope{.first_block = 4, .root = kOwnRoot};
  }

  void Submit(Side& side) {
    wire::Generate request = GreedyRequest(++last_id_, RandomPrompt(), kOutputTokens);
    request.own = RandomScope();
    request.tenant = request.own ? "acme" : "";
    request.block_hashes = HashBlocks(kRoot, request.own, request.prompt, kTravelBlockTokens);
    prompts_[last_id_] = request.prompt;
    EXPECT_TRUE(side.harness.Submit(std::move(request)).ok());
  }

  void Hold(Side& side) {
    const std::optional<OwnScope> own = RandomScope();
    const std::vector<BlockHash> hashes = HashBlocks(kRoot, own, RandomPrompt(), kTravelBlockTokens);
    if (hashes.empty()) return;
    const auto first = rng_.Below(3) == 0 ? static_cast<std::uint32_t>(rng_.Below(hashes.size())) : 0U;
    wire::Hold hold;
    hold.answer_id = ++last_id_;
    hold.root = kRoot;
    hold.own = own;
    hold.tenant = own ? "acme" : "";
    hold.parent = first == 0 ? kRoot : hashes[first - 1];
    hold.first_position = first;
    hold.hashes.assign(hashes.begin() + first, hashes.end());
    hold.patience_ms = 1 + rng_.Below(2000);
    const HoldReceipt receipt{HoldId(last_id_), clock_.Now()};
    FrameRequest request{.id = receipt.id, .chain = ChainOf(hold), .peer = {}};
    // News of the source may be there before the order.
    const bool is_early = rng_.Below(2) == 0;
    if (is_early) side.source.Ask(request);
    if (is_early) TellSome(side);
    if (!side.harness.engine().CarryOut(kLink, hold, receipt)) ++open_holds_;
    if (!is_early) side.source.Ask(std::move(request));
  }

  void TellSome(Side& side) {
    for (std::uint64_t count = rng_.Below(6); count > 0; --count) side.source.Tell();
    if (rng_.Below(20) == 0) side.source.End(wire::HoldOutcome::kBroken);
  }

  void Erase(Side& side) {
    wire::Evict evict;
    evict.answer_id = ++last_id_;
    const std::vector<TokenId> prompt = RandomPrompt();
    const std::vector<BlockHash> hashes = HashBlocks(kRoot, prompt, kTravelBlockTokens);
    switch (rng_.Below(3)) {
      case 0: evict.what = wire::TenantToEvict{.tenant = "acme"}; break;
      case 1: evict.what = wire::PromptToEvict{.root = kRoot, .tokens = prompt, .block_hashes = hashes}; break;
      default:
        if (hashes.empty()) return;
        evict.what = wire::BlockToEvict{.hash = hashes.back()};
    }
    (void)side.harness.engine().CarryOut(kLink, evict);
  }

  void Step(Side& side) {
    for (const EngineAnswer& answer : side.harness.Step().answers) {
      const auto* const held = std::get_if<wire::HoldAnswer>(&answer.answer);
      if (held == nullptr) continue;
      --open_holds_;
      arrived_ += held->arrived_block_count;
    }
  }

  std::vector<TokenId> Reference(const std::vector<TokenId>& prompt) const {
    std::vector<TokenId> all = prompt;
    for (std::uint32_t i = 0; i < kOutputTokens; ++i) {
      const std::vector<float> logits = sides_[0]->model.ReferenceLogits(all);
      all.push_back(static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    }
    return {all.begin() + static_cast<std::ptrdiff_t>(prompt.size()), all.end()};
  }

  Rng rng_{GetParam()};
  ManualClock clock_;
  std::array<std::unique_ptr<Side>, 2> sides_;
  std::vector<std::vector<TokenId>> texts_;
  std::map<std::uint64_t, std::vector<TokenId>> prompts_;
  std::uint64_t last_id_ = 0;
  std::int64_t open_holds_ = 0;
  std::uint64_t arrived_ = 0;
};

TEST_P(TravellingFuzzTest, AnswersAreThoseWithoutACacheAndNothingIsLeftOver) {
  for (int round = 0; round < 1500 && !HasFatalFailure(); ++round) {
    Side& side = *sides_[rng_.Below(2)];
    switch (rng_.Below(10)) {
      case 0:
        if (side.harness.outcomes().size() < 400) Submit(side);
        break;
      case 1: Hold(side); break;
      case 2:
      case 3: TellSome(side); break;
      case 4:
        if (rng_.Below(10) == 0) Erase(side);
        break;
      case 5: clock_.Advance(std::chrono::milliseconds(rng_.Below(50))); break;
      default: Step(side);
    }
  }
  // All sources end, and so does everything.
  for (const auto& side : sides_) {
    while (side->source.End(wire::HoldOutcome::kBroken)) {
    }
    Step(*side);
    side->harness.Run();
    EXPECT_EQ(side->source.used_frames(), 0U);
    EXPECT_FALSE(side->harness.engine().AwaitsBlocksUntil().has_value());
    for (const auto& [key, outcome] : side->harness.outcomes()) {
      ASSERT_EQ(outcome.tokens, Reference(prompts_.at(key.request.value()))) << "request " << key.request.value();
    }
  }
  EXPECT_GT(arrived_, 0U) << "nothing has travelled";
}

INSTANTIATE_TEST_SUITE_P(Seeds, TravellingFuzzTest, testing::Range<std::uint64_t>(0, 60));

}  // namespace
}  // namespace roost::worker
