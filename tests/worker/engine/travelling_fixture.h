// Two engines that send each other blocks, with small verbs.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/rng.h"
#include "tests/worker/engine/travelling_side.h"

namespace roost::worker {

class TravellingBlocksTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kBlockTokens = kTravelBlockTokens;

  void SetUp() override { Make({}); }

  void Make(const SideOptions& options, std::size_t frame_limit = 1000) {
    from_ = std::make_unique<Side>(options, clock_);
    to_ = std::make_unique<Side>(options, clock_);
    to_->source.Connect(&from_->readable, frame_limit);
    from_->source.Connect(&to_->readable, frame_limit);
  }

  static std::vector<TokenId> Text(std::size_t count, std::uint64_t stream) {
    Rng rng(stream);
    std::vector<TokenId> tokens(count);
    for (TokenId& token : tokens) token = static_cast<TokenId>(rng.Below(90));
    return tokens;
  }

  static wire::Hold HoldOf(const std::vector<TokenId>& prompt, std::uint32_t first = 0) {
    const std::vector<BlockHash> hashes = HashBlocks(testing_support::kRoot, prompt, kTravelBlockTokens);
    wire::Hold hold;
    hold.purpose = wire::HoldPurpose::kCopy;
    hold.root = testing_support::kRoot;
    hold.parent = first == 0 ? testing_support::kRoot : hashes[first - 1];
    hold.first_position = first;
    hold.hashes.assign(hashes.begin() + first, hashes.end());
    hold.patience_ms = 60'000;
    return hold;
  }

  static wire::Hold RequestHoldOf(const std::vector<TokenId>& prompt) {
    wire::Hold hold = HoldOf(prompt);
    hold.purpose = wire::HoldPurpose::kRequest;
    return hold;
  }

  // As the host does: the order, and the request for the blocks.
  std::optional<OrderReply> Order(Side& side, wire::Hold hold) {
    hold.answer_id = ++last_id_;
    const HoldReceipt receipt{HoldId(last_id_), clock_.Now()};
    FrameRequest request{.id = receipt.id, .chain = ChainOf(hold), .peer = {}};
    auto reply = side.harness.engine().CarryOut(testing_support::kLink, std::move(hold), receipt);
    side.source.Ask(std::move(request));
    return reply;
  }

  // Steps `side` and its source until the hold is answered.
  wire::HoldAnswer AwaitAnswer(Side& side, std::uint64_t answer_id) {
    for (int step = 0; step < 10'000; ++step) {
      side.source.TellAll();
      for (const EngineAnswer& answer : side.harness.Step().answers) {
        const auto* const held = std::get_if<wire::HoldAnswer>(&answer.answer);
        if (held != nullptr && held->answer_id == answer_id) return *held;
      }
    }
    ADD_FAILURE() << "no answer";
    return {};
  }
  wire::HoldAnswer Hold(Side& side, wire::Hold hold) {
    EXPECT_FALSE(Order(side, std::move(hold)).has_value());
    return AwaitAnswer(side, last_id_);
  }

  std::vector<TokenId> Reference(const std::vector<TokenId>& prompt, std::uint32_t output_count) const {
    std::vector<TokenId> all = prompt;
    for (std::uint32_t i = 0; i < output_count; ++i) {
      const std::vector<float> logits = to_->model.ReferenceLogits(all);
      all.push_back(static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    }
    return {all.begin() + static_cast<std::ptrdiff_t>(prompt.size()), all.end()};
  }

  // Serves the prompt and checks its answer. Returns the cached tokens.
  std::uint32_t Serve(Side& side, const std::vector<TokenId>& prompt) {
    const auto outcome = side.harness.Serve(testing_support::GreedyRequest(++last_id_, prompt, 5));
    EXPECT_EQ(outcome.tokens, Reference(prompt, 5));
    return outcome.cached_token_count.value_or(0);
  }

  std::uint64_t Submit(Side& side, const std::vector<TokenId>& prompt) {
    EXPECT_TRUE(side.harness.Submit(testing_support::GreedyRequest(++last_id_, prompt, 5)).ok());
    return last_id_;
  }
  // Prompt tokens that the side has computed for this reason.
  static std::uint64_t Computed(const Side& side, MissReason reason) {
    return side.harness.totals().computed_prompt_tokens[IndexOf(reason)];
  }
  static std::uint64_t Queued(Side& side) { return side.harness.Step().load.queued_prefill_tokens; }

  ManualClock clock_;
  std::unique_ptr<Side> from_;
  std::unique_ptr<Side> to_;
  std::uint64_t last_id_ = 0;
};

}  // namespace roost::worker
