#include "router/route/replication.h"

#include <gtest/gtest.h>

#include "router/route/candidates.h"
#include "tests/router/route/fleets.h"

namespace roost::router {
namespace {

constexpr std::uint32_t kPromptTokens = 1600;
constexpr std::uint32_t kPrefixBlocks = 90;
constexpr int kManyRequests = 500;

class ReplicationTest : public ::testing::Test {
 protected:
  // Another request with this prefix, a second later.
  Decision Ask(const FleetView& fleet, std::vector<WorkerMatch> matches) {
    now_ += std::chrono::seconds(1);
    return policy_
        ->Choose({.prompt_token_count = kPromptTokens,
                  .matches = matches,
                  .block_hashes = chain_,
                  .min_copies = min_copies_,
                  .now = now_},
                 fleet)
        .value();
  }
  int CopiesAmongMany(const FleetView& fleet, const std::vector<WorkerMatch>& matches) {
    int copies = 0;
    for (int i = 0; i < kManyRequests; ++i) copies += Ask(fleet, matches).reason == DecisionReason::kReplicate ? 1 : 0;
    return copies;
  }
  static WorkerView Queued(std::uint32_t slot, std::uint64_t tokens) {
    WorkerView worker = Idle(slot);
    worker.queued_prefill_tokens = tokens;
    return worker;
  }

  std::unique_ptr<Policy> policy_ = Make("cache-aware");
  std::vector<BlockHash> chain_ = Chain(1, kPromptTokens / 16);
  Instant now_{};
  std::uint32_t min_copies_ = 1;
};

// Each turn belongs to another conversation, whose blocks one worker alone holds. They share a system prompt.
TEST_F(ReplicationTest, WhatConversationsShareIsCopiedForTheWaitsOfTheirTurns) {
  const FleetView fleet = FleetOf({Idle(0), Queued(1, 400), Queued(2, 400)});
  constexpr std::uint32_t kSystemBlocks = 40;
  const std::vector<BlockHash> system = Chain(1, kSystemBlocks);
  std::optional<PrefixCopy> copy;
  for (TokenId turn = 2; turn < 30 && !copy.has_value(); ++turn) {
    chain_ = system;
    const std::vector<BlockHash> rest = Chain(turn, kPromptTokens / 16 - kSystemBlocks);
    chain_.insert(chain_.end(), rest.begin(), rest.end());
    const Decision decision = Ask(fleet, {Holds(1, kPrefixBlocks), Holds(2, kSystemBlocks)});
    EXPECT_EQ(decision.slot.value(), 1U);
    copy = decision.copy;
  }
  ASSERT_TRUE(copy.has_value());
  EXPECT_EQ(copy->worker.value(), 0U);
  EXPECT_EQ(copy->block_count, kSystemBlocks);
}

TEST_F(ReplicationTest, KeepsAPrefixOfManyRequestsAtAsManyWorkersAsAskedFor) {
  FleetView fleet = FleetOf({Idle(0), Idle(1), Idle(2)});
  EXPECT_EQ(CopiesAmongMany(fleet, {Holds(1, kPrefixBlocks)}), 0);  // no request waits
  min_copies_ = 2;
  int asked = 1;
  while (!Ask(fleet, {Holds(1, kPrefixBlocks)}).copy.has_value() && asked < 10) ++asked;
  EXPECT_LE(asked, 4);
  WorkerView receiving = Idle(0);
  receiving.receives_copy = true;
  fleet.Set(receiving);
  EXPECT_EQ(CopiesAmongMany(fleet, {Holds(1, kPrefixBlocks)}), 0);  // one at a time, though worker 2 is free
  fleet.Set(Idle(0));
  EXPECT_EQ(CopiesAmongMany(fleet, {Holds(0, kPrefixBlocks), Holds(1, kPrefixBlocks)}), 0);
  EXPECT_GT(CopiesAmongMany(fleet, {Holds(1, kPrefixBlocks)}), 0);  // the second holder has evicted it
}

TEST_F(ReplicationTest, APrefixOfFewRequestsGetsNoCopyThoughTwoAreAskedFor) {
  const FleetView fleet = FleetOf({Idle(0), Idle(1)});
  min_copies_ = 2;
  for (TokenId seed = 10; seed < 60; ++seed) {
    chain_ = Chain(seed, kPromptTokens / 16);
    EXPECT_FALSE(Ask(fleet, {Holds(1, kPrefixBlocks)}).copy.has_value());
  }
}

// Each waits 0.2 s for 400 tokens, and for the decodes of those steps. The copy costs 0.72 s of prefill and its steps,
// and this counts twice because it evicts as much.
TEST_F(ReplicationTest, CopiesWhenWhatWasWaitedForPaysForTheCopy) {
  const FleetView fleet = FleetOf({Idle(0), Queued(1, 400)});
  for (int i = 0; i < 8; ++i) {
    const Decision before = Ask(fleet, {Holds(1, kPrefixBlocks)});
    EXPECT_EQ(before.slot.value(), 1U) << i;
    EXPECT_EQ(before.reason, DecisionReason::kDeepestMatch) << i;
  }
  const Decision last = Ask(fleet, {Holds(1, kPrefixBlocks)});
  EXPECT_EQ(last.slot.value(), 1U);  // the request does not wait for the copy
  EXPECT_EQ(last.reason, DecisionReason::kReplicate);
  EXPECT_EQ(last.matched_tokens, kPrefixBlocks * 16);
  ASSERT_TRUE(last.copy.has_value());
  EXPECT_EQ(last.copy->worker.value(), 0U);
  EXPECT_EQ(last.copy->held_block_count, 0U);
  EXPECT_EQ(last.copy->block_count, kPrefixBlocks);
  EXPECT_EQ(Ask(fleet, {Holds(1, kPrefixBlocks)}).reason,
            DecisionReason::kDeepestMatch);  // the next copy needs new waits
}

TEST_F(ReplicationTest, WhereNobodyWaitsNothingIsCopied) {
  EXPECT_EQ(CopiesAmongMany(FleetOf({Idle(0), Idle(1)}), {Holds(1, kPrefixBlocks)}), 0);
}

TEST_F(ReplicationTest, WhereTheOthersAreAsBusyNothingIsCopied) {
  EXPECT_EQ(CopiesAmongMany(FleetOf({Queued(0, 400), Queued(1, 400)}), {Holds(1, kPrefixBlocks)}), 0);
}

TEST_F(ReplicationTest, AWorkerReceivesOneCopyAtATime) {
  WorkerView receiver = Idle(0);
  receiver.receives_copy = true;
  EXPECT_EQ(CopiesAmongMany(FleetOf({receiver, Queued(1, 400)}), {Holds(1, kPrefixBlocks)}), 0);
}

TEST_F(ReplicationTest, SeldomWaitsAreForgotten) {
  const FleetView fleet = FleetOf({Idle(0), Queued(1, 400)});
  for (int i = 0; i < kManyRequests; ++i) {
    now_ += 2 * kRecentTime;
    ASSERT_NE(Ask(fleet, {Holds(1, kPrefixBlocks)}).reason, DecisionReason::kReplicate);
  }
}

// As a holder, the receiver would have less to compute than the prompts that wait there, so this prompt would overtake
// them. That is not a gain of the copy.
TEST_F(ReplicationTest, WhatAShorterPromptOvertakesIsNoReasonForACopy) {
  PromptQueue queue;
  for (std::uint64_t number = 1; number <= 20; ++number) queue.Add(number, 1000, now_);
  WorkerView receiver = Idle(0);
  receiver.queued_prefill_tokens = 20 * 1000;
  receiver.waiting_requests = 20;
  receiver.ageing_tokens = 1000;
  receiver.prompts = &queue;
  const FleetView fleet = FleetOf({receiver, Idle(1)});
  const RouteQuery query{.prompt_token_count = kPromptTokens, .matches = {}, .block_hashes = chain_, .now = now_};
  const PromptOnWorker held{.prompt_token_count = kPromptTokens, .matched_block_count = kPrefixBlocks};
  const PromptOnWorker none{.prompt_token_count = kPromptTokens};
  const WorkerView& view = *fleet.Find(receiver.slot);
  ASSERT_GT(PredictCost(held, view, fleet.speed(), query.now).delay_seconds,
            PredictCost(none, view, fleet.speed(), query.now).delay_seconds);
  EXPECT_EQ(CopiesAmongMany(fleet, {Holds(1, kPrefixBlocks)}), 0);
}

TEST_F(ReplicationTest, WaitsOfAConversationAddUpToNothing) {
  const FleetView fleet = FleetOf({Idle(0), Queued(1, 300)});
  for (std::uint32_t turn = 1; turn < kPrefixBlocks; ++turn) {
    ASSERT_NE(Ask(fleet, {Holds(1, turn)}).reason, DecisionReason::kReplicate) << turn;
  }
}

TEST_F(ReplicationTest, CopiesAreBounded) {
  std::vector<WorkerView> workers{Idle(0)};
  std::vector<WorkerMatch> matches;
  for (std::uint32_t slot = 1; slot <= kMaxHolders; ++slot) {
    workers.push_back(Queued(slot, 400));
    matches.push_back(Holds(slot, kPrefixBlocks));
  }
  EXPECT_EQ(CopiesAmongMany(FleetOf(workers), matches), 0);
  matches.pop_back();
  EXPECT_GT(CopiesAmongMany(FleetOf(workers), matches), 0);
}

TEST_F(ReplicationTest, QuestionsLeaveNoTrace) {
  const FleetView fleet = FleetOf({Idle(0), Queued(1, 400)});
  const std::vector<WorkerMatch> matches{Holds(1, kPrefixBlocks)};
  for (int i = 0; i < kManyRequests; ++i) {
    const RouteQuery question{.prompt_token_count = kPromptTokens, .matches = matches, .block_hashes = chain_};
    ASSERT_EQ(policy_->Choose(question, fleet).value().slot.value(), 1U);
  }
  EXPECT_EQ(Ask(fleet, matches).slot.value(), 1U);
}

}  // namespace
}  // namespace roost::router
