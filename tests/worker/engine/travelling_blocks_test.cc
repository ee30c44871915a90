// Blocks that travel from one engine to another one: the answers are those of an engine that computes all itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/worker/engine/travelling_fixture.h"

namespace roost::worker {
namespace {

using testing_support::GreedyRequest;
using testing_support::kLink;
using testing_support::kRoot;
using wire::HoldOutcome;

TEST_F(TravellingBlocksTest, APrefixMovesAndIsUsed) {
  const std::vector<TokenId> prompt = Text(20 * kBlockTokens, 1);
  Serve(*from_, prompt);
  const wire::HoldAnswer answer = Hold(*to_, HoldOf(prompt));
  EXPECT_EQ(answer.outcome, HoldOutcome::kComplete);
  EXPECT_EQ(answer.held_block_count, 0U);
  EXPECT_EQ(answer.arrived_block_count, 20U);
  EXPECT_EQ(answer.missing_block_count, 0U);
  EXPECT_EQ(answer.bytes, 20 * to_->readable.sizes().frame_bytes());
  EXPECT_EQ(to_->model.computed_token_count(), 0U);
  EXPECT_EQ(to_->harness.resident().size(), 20U);
  EXPECT_EQ(Serve(*to_, prompt), 20 * kBlockTokens - 1);
  EXPECT_EQ(to_->source.used_frames(), 0U);
}

TEST_F(TravellingBlocksTest, MovesOnFromThereToAThird) {
  const std::vector<TokenId> prompt = Text(6 * kBlockTokens + 3, 1);
  Serve(*from_, prompt);
  Hold(*to_, HoldOf(prompt));
  Side third({}, clock_);
  third.source.Connect(&to_->readable, 100);
  EXPECT_EQ(Hold(third, HoldOf(prompt)).arrived_block_count, 6U);
  EXPECT_EQ(Serve(third, prompt), 6 * kBlockTokens);
}

// A worker that leaves tells of its prefixes, and another one holds them as they were: of a tenant, in its scope, and
// found as often. That one can hand them over again before any request has found them.
TEST_F(TravellingBlocksTest, APrefixIsHandedOverWithItsScopeItsTenantAndItsHits) {
  const std::vector<TokenId> prompt = Text(6 * kBlockTokens, 1);
  wire::Generate request = GreedyRequest(++last_id_, prompt, 2);
  request.tenant = "acme";
  request.own = {.first_block = 2, .root = {7, 7}};
  request.block_hashes = HashBlocks(kRoot, request.own, prompt, kBlockTokens);
  for (int visit = 0; visit < 4; ++visit) {
    request.request_id = RequestId(++last_id_);
    from_->harness.Serve(request);
  }
  const auto ask = [](Side& side) {
    const auto reply = side.harness.engine().CarryOut(
        kLink, wire::WantPrefixes{.answer_id = 1, .most = 10, .with_hashes = wire::PrefixHashes::kTell}, std::nullopt);
    return std::get<wire::Prefixes>(*reply).prefixes;
  };
  clock_.Advance(std::chrono::seconds(90));
  std::vector<wire::UsedPrefix> told = ask(*from_);
  ASSERT_EQ(told.size(), 1U);
  const std::size_t blocks = told[0].block_count;
  EXPECT_GE(blocks, 5U);
  EXPECT_GE(told[0].hits, 3U);
  EXPECT_EQ(told[0].hashes.size(), blocks);
  EXPECT_EQ(told[0].hashes.back(), request.block_hashes[blocks - 1]);
  EXPECT_EQ(told[0].root, kRoot);
  EXPECT_EQ(told[0].own, request.own);
  EXPECT_EQ(told[0].tenant, "acme");
  EXPECT_GE(told[0].age_ms, 90'000U);

  wire::Hold hold;
  hold.root = hold.parent = told[0].root;
  hold.own = told[0].own;
  hold.tenant = told[0].tenant;
  hold.hashes = told[0].hashes;
  hold.hits = 3;
  hold.patience_ms = 60'000;
  hold.purpose = wire::HoldPurpose::kCopy;
  EXPECT_EQ(Hold(*to_, hold).arrived_block_count, blocks);
  FrameChain chain = ChainOf(hold);
  EXPECT_EQ(to_->readable.CountFront(chain), blocks);
  for (const std::uint64_t stranger : {std::uint64_t{0}, TenantHash("other")}) {
    chain.tenant = stranger;
    EXPECT_EQ(to_->readable.CountFront(chain), 2U) << "only what all share";
  }
  told = ask(*to_);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].hashes, hold.hashes);
  EXPECT_EQ(told[0].hits, 3U);
  EXPECT_EQ(told[0].tenant, "acme");
  EXPECT_EQ(told[0].own, hold.own);
}

// Nothing of a tenant comes for a Hold in another one's name.
TEST_F(TravellingBlocksTest, ATenantsPrefixDoesNotComeForAnother) {
  const std::vector<TokenId> prompt = Text(6 * kBlockTokens, 1);
  wire::Generate request = GreedyRequest(++last_id_, prompt, 2);
  request.tenant = "acme";
  from_->harness.Serve(request);
  wire::Hold hold = HoldOf(prompt);
  hold.tenant = "other";
  EXPECT_EQ(Hold(*to_, hold).arrived_block_count, 0U);
  hold.tenant = "";
  EXPECT_EQ(Hold(*to_, hold).arrived_block_count, 0U);
  EXPECT_TRUE(to_->harness.resident().empty());
}

TEST_F(TravellingBlocksTest, WhatIsHeldIsNotWrittenAgain) {
  const std::vector<TokenId> prompt = Text(10 * kBlockTokens, 1);
  Serve(*from_, prompt);
  Serve(*to_, {prompt.begin(), prompt.begin() + 4 * kBlockTokens});
  const wire::HoldAnswer answer = Hold(*to_, HoldOf(prompt));
  EXPECT_EQ(answer.held_block_count, 4U);
  EXPECT_EQ(answer.arrived_block_count, 6U);
  const wire::HoldAnswer again = Hold(*to_, HoldOf(prompt));
  EXPECT_EQ(again.held_block_count, 10U);
  EXPECT_EQ(again.arrived_block_count, 0U);
  EXPECT_EQ(again.outcome, HoldOutcome::kComplete);
}

TEST_F(TravellingBlocksTest, APartOfAChainFollowsWhatIsHeld) {
  const std::vector<TokenId> prompt = Text(10 * kBlockTokens, 1);
  Serve(*from_, prompt);
  EXPECT_EQ(Hold(*to_, HoldOf(prompt, 4)).outcome, HoldOutcome::kRefused);
  Serve(*to_, {prompt.begin(), prompt.begin() + 4 * kBlockTokens});
  EXPECT_EQ(Hold(*to_, HoldOf(prompt, 4)).arrived_block_count, 6U);
  EXPECT_EQ(Serve(*to_, prompt), 10 * kBlockTokens - 1);
}

TEST_F(TravellingBlocksTest, WhatTheSourceLacksIsMissingAndTheRestStays) {
  const std::vector<TokenId> prompt = Text(10 * kBlockTokens, 1);
  Serve(*from_, {prompt.begin(), prompt.begin() + 7 * kBlockTokens});
  const wire::HoldAnswer answer = Hold(*to_, HoldOf(prompt));
  EXPECT_EQ(answer.outcome, HoldOutcome::kMissing);
  EXPECT_EQ(answer.arrived_block_count, 7U);
  EXPECT_EQ(answer.missing_block_count, 3U);
  EXPECT_EQ(Serve(*to_, prompt), 7 * kBlockTokens);
}

TEST_F(TravellingBlocksTest, ASourceThatBreaksLeavesWhatHasCome) {
  const std::vector<TokenId> prompt = Text(10 * kBlockTokens, 1);
  Serve(*from_, prompt);
  Order(*to_, HoldOf(prompt));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(to_->source.Tell());
  to_->source.End(HoldOutcome::kBroken);
  const wire::HoldAnswer answer = AwaitAnswer(*to_, last_id_);
  EXPECT_EQ(answer.outcome, HoldOutcome::kBroken);
  EXPECT_EQ(answer.arrived_block_count, 3U);
  EXPECT_EQ(Serve(*to_, prompt), 3 * kBlockTokens);
  EXPECT_EQ(to_->source.used_frames(), 0U);
}

TEST_F(TravellingBlocksTest, PatienceEnds) {
  const std::vector<TokenId> prompt = Text(4 * kBlockTokens, 1);
  Serve(*from_, prompt);
  const Instant end = clock_.Now() + std::chrono::seconds(60);
  Order(*to_, HoldOf(prompt));
  to_->source.Tell();
  EXPECT_TRUE(to_->harness.Step().answers.empty());
  EXPECT_EQ(to_->harness.engine().AwaitsBlocksUntil(), end);
  clock_.Advance(std::chrono::seconds(61));
  const StepReport report = to_->harness.Step();
  ASSERT_EQ(report.answers.size(), 1U);
  const auto answer = std::get<wire::HoldAnswer>(report.answers[0].answer);
  EXPECT_EQ(answer.outcome, HoldOutcome::kSlow);
  EXPECT_EQ(answer.arrived_block_count, 1U);
  EXPECT_EQ(to_->source.cancelled().size(), 1U);
}

// A request behind an arrival waits for it while it brings blocks faster than computing would, and computes the rest
// when it falls behind.
TEST_F(TravellingBlocksTest, ARequestWaitsByThePaceOfTheArrival) {
  Make({.max_batch_tokens = 8, .step_duration = std::chrono::milliseconds(80)});  // 10 ms a token
  const std::vector<TokenId> prompt = Text(20 * kBlockTokens, 1);
  Serve(*from_, prompt);
  Serve(*to_, Text(4 * kBlockTokens, 2));  // the pace is known
  const std::uint64_t computed = to_->model.computed_token_count();
  Order(*to_, HoldOf(prompt));
  const std::uint64_t request = ++last_id_;
  EXPECT_TRUE(to_->harness.Submit(GreedyRequest(request, prompt, 5)).ok());
  const Instant begin = clock_.Now();
  (void)to_->harness.Step();
  EXPECT_FALSE(to_->harness.engine().HasWork()) << "it sleeps until a block comes";
  for (int block = 0; block < 5; ++block) {
    clock_.Advance(
        std::chrono::milliseconds(10));  // with the step that writes the block: 90 ms, and computing takes 80
    to_->source.Tell();
    EXPECT_TRUE(to_->harness.engine().HasWork());
    while (to_->harness.engine().HasWork()) (void)to_->harness.Step();
  }
  EXPECT_EQ(to_->model.computed_token_count(), computed);
  // Nothing more comes: it has 5 blocks, and a tenth of the 19 that it can use is 1.9.
  const Instant until = *to_->harness.engine().AwaitsBlocksUntil();
  EXPECT_NEAR(ToSeconds(until - begin), 6.9 * 0.08, 1e-6);
  ASSERT_GT(until, clock_.Now());
  clock_.Advance(until - clock_.Now());
  (void)to_->harness.Step();
  EXPECT_TRUE(to_->harness.engine().HasWork());
  EXPECT_GT(to_->model.computed_token_count(), computed);
  to_->source.End(HoldOutcome::kBroken);
  to_->harness.Run();
  EXPECT_EQ(to_->harness.outcome(request).tokens, Reference(prompt, 5));
  EXPECT_EQ(to_->harness.outcome(request).cached_token_count, 5 * kBlockTokens);
  EXPECT_EQ(Computed(*to_, MissReason::kNotArrived), 14 * kBlockTokens);
  EXPECT_EQ(Computed(*to_, MissReason::kCold), 4 * kBlockTokens + kBlockTokens) << "the last block can not be a hit";
}

// One request waits for blocks, and another one for the room of the request that has just ended.
TEST_F(TravellingBlocksTest, TheEngineDoesNotSleepWhileAnotherRequestCanRun) {
  for (const bool plan_ahead : {false, true}) {
    Make({.block_count = 24, .plan_ahead = plan_ahead});
    const std::vector<TokenId> prompt = Text(20 * kBlockTokens, 1);
    Serve(*from_, prompt);
    EXPECT_TRUE(to_->harness.Submit(GreedyRequest(++last_id_, Text(15 * kBlockTokens, 2), 3)).ok());
    (void)to_->harness.Step();
    Order(*to_, HoldOf(prompt));
    EXPECT_TRUE(to_->harness.Submit(GreedyRequest(++last_id_, prompt, 5)).ok());
    const std::uint64_t third = ++last_id_;
    EXPECT_TRUE(to_->harness.Submit(GreedyRequest(third, Text(10 * kBlockTokens, 3), 5)).ok());
    for (int step = 0; step < 100 && to_->harness.engine().HasWork(); ++step) (void)to_->harness.Step();
    EXPECT_EQ(to_->harness.outcome(third).tokens, Reference(Text(10 * kBlockTokens, 3), 5))
        << "plan ahead: " << plan_ahead;
    to_->source.TellAll();
    to_->harness.Run();
    EXPECT_EQ(to_->harness.outcome(third - 1).tokens, Reference(prompt, 5));
  }
}

TEST_F(TravellingBlocksTest, ARequestStartsAsSoonAsItsBlocksHaveCome) {
  const std::vector<TokenId> prompt = Text(20 * kBlockTokens, 1);
  Serve(*from_, prompt);
  Order(*to_, HoldOf(prompt));
  const std::uint64_t request = ++last_id_;
  EXPECT_TRUE(to_->harness.Submit(GreedyRequest(request, prompt, 5)).ok());
  (void)to_->harness.Step();
  EXPECT_FALSE(to_->harness.engine().HasWork());
  to_->source.TellAll();
  to_->harness.Run();
  EXPECT_EQ(to_->harness.outcome(request).tokens, Reference(prompt, 5));
  EXPECT_EQ(to_->harness.outcome(request).cached_token_count, 20 * kBlockTokens - 1);
}

// The pool has no room for both: the running request gets it, and nothing is preempted.
TEST_F(TravellingBlocksTest, AnArrivalGivesWayToARunningRequest) {
  Make({.block_count = 24});
  const std::vector<TokenId> prompt = Text(12 * kBlockTokens, 1);
  Serve(*from_, prompt);
  Order(*to_, HoldOf(prompt));
  for (int i = 0; i < 10; ++i) to_->source.Tell();
  (void)to_->harness.Step();
  const std::vector<TokenId> other = Text(13 * kBlockTokens, 2);
  const std::uint64_t request = ++last_id_;
  EXPECT_TRUE(to_->harness.Submit(GreedyRequest(request, other, 5 * kBlockTokens)).ok());
  const wire::HoldAnswer answer = [&] {
    for (int step = 0; step < 200; ++step) {
      for (const EngineAnswer& each : to_->harness.Step().answers) {
        if (const auto* const held = std::get_if<wire::HoldAnswer>(&each.answer)) return *held;
      }
    }
    return wire::HoldAnswer();
  }();
  EXPECT_EQ(answer.outcome, HoldOutcome::kNoRoom);
  EXPECT_EQ(answer.arrived_block_count, 10U);
  to_->harness.Run();
  EXPECT_EQ(to_->harness.outcome(request).tokens, Reference(other, 5 * kBlockTokens));
  EXPECT_EQ(to_->harness.totals().preemptions, 0U);
  EXPECT_EQ(to_->source.cancelled().size(), 1U);
}

TEST_F(TravellingBlocksTest, AnErasedPromptEndsItsHold) {
  const std::vector<TokenId> prompt = Text(10 * kBlockTokens, 1);
  Serve(*from_, prompt);
  Order(*to_, HoldOf(prompt));
  for (int i = 0; i < 3; ++i) to_->source.Tell();
  (void)to_->harness.Step();
  wire::Evict evict;
  evict.answer_id = ++last_id_;
  evict.what = wire::PromptToEvict{.root = kRoot, .tokens = prompt, .block_hashes = HoldOf(prompt).hashes};
  EXPECT_FALSE(to_->harness.engine().CarryOut(kLink, evict).has_value());
  to_->source.TellAll();
  const StepReport report = to_->harness.Step();
  bool is_cancelled = false;
  for (const EngineAnswer& answer : report.answers) {
    const auto* const held = std::get_if<wire::HoldAnswer>(&answer.answer);
    if (held != nullptr) is_cancelled = held->outcome == HoldOutcome::kCancelled;
  }
  EXPECT_TRUE(is_cancelled);
  EXPECT_TRUE(to_->harness.resident().empty());
  to_->source.TellAll();
  to_->harness.Run();
  EXPECT_TRUE(to_->harness.resident().empty()) << "what came later was not taken";
  EXPECT_EQ(to_->readable.size(), 0U);
}

// A block that the source still computes is not told: with plan_ahead it is ready a step before it is written.
TEST_F(TravellingBlocksTest, OnlyFinishedBlocksAreReadable) {
  Make({.max_batch_tokens = 2 * kBlockTokens, .plan_ahead = true});
  const std::vector<TokenId> prompt = Text(6 * kBlockTokens, 1);
  EXPECT_TRUE(from_->harness.Submit(GreedyRequest(++last_id_, prompt, 1)).ok());
  std::uint32_t finished = 0;
  for (int step = 1; step <= 3; ++step) {
    (void)from_->harness.Step();
    EXPECT_EQ(from_->harness.resident().size(), 2U * static_cast<unsigned>(step));
    EXPECT_EQ(from_->readable.size(), finished);
    finished += 2;
  }
  from_->harness.Run();
  EXPECT_EQ(from_->readable.size(), 6U);
}

// Until then the step may still read the frames, and what it writes is not there yet.
TEST_F(TravellingBlocksTest, FramesAreFreeAndBlocksReadableOnceTheStepThatWritesThemHasFinished) {
  Make({.plan_ahead = true});
  const std::vector<TokenId> prompt = Text(3 * kBlockTokens, 1);
  Serve(*from_, prompt);
  EXPECT_FALSE(Order(*to_, HoldOf(prompt)).has_value());
  to_->source.TellAll();
  (void)to_->harness.Step();
  EXPECT_EQ(to_->harness.resident().size(), 3U);
  EXPECT_EQ(to_->source.used_frames(), 3U);
  EXPECT_EQ(to_->readable.size(), 0U);
  (void)to_->harness.Step();
  EXPECT_EQ(to_->source.used_frames(), 0U);
  EXPECT_EQ(to_->readable.size(), 3U);
}

// ---- a source that computes wrong ----

TEST_F(TravellingBlocksTest, AWrongHitDiscardsAllThatCameFromItsSource) {
  Make({.check_invariants = true, .verify_hits_share = 1});
  Side third({}, clock_);
  const std::vector<TokenId> right = Text(6 * kBlockTokens, 3);
  third.harness.Serve(GreedyRequest(++last_id_, right, 1));
  const std::vector<TokenId> own = Text(6 * kBlockTokens, 4);
  Serve(*to_, own);
  const auto hold_from = [&](const char* name, const std::vector<TokenId>& prompt) {
    wire::Hold hold = HoldOf(prompt);
    hold.source.worker_id = name;
    EXPECT_EQ(Hold(*to_, hold).outcome, HoldOutcome::kComplete);
  };
  to_->source.Connect(&third.readable, 100);
  hold_from("third", right);
  const std::vector<TokenId> wrong = Text(6 * kBlockTokens, 1);
  const std::vector<TokenId> also = Text(5 * kBlockTokens, 2);
  from_->harness.Serve(GreedyRequest(++last_id_, wrong, 1));
  from_->harness.Serve(GreedyRequest(++last_id_, also, 1));
  from_->model.CorruptKv();
  to_->source.Connect(&from_->readable, 100);
  hold_from("from", wrong);
  hold_from("from", also);
  // A request goes on behind the wrong blocks, and another one is under way from there.
  std::vector<TokenId> longer = wrong;
  for (const TokenId token : Text(2 * kBlockTokens, 5)) longer.push_back(token);
  Order(*to_, HoldOf(Text(3 * kBlockTokens, 6)));
  (void)to_->harness.Serve(GreedyRequest(++last_id_, longer, 5));
  EXPECT_EQ(to_->harness.totals().wrong_hits, 1U);
  EXPECT_EQ(to_->harness.totals().distrusted_blocks, 6U + 2U + 5U) << "with what was computed behind them";
  for (const std::vector<TokenId>& gone : {longer, also}) {
    for (const BlockHash hash : HoldOf(gone).hashes) EXPECT_FALSE(to_->harness.resident().contains(hash));
  }
  for (const std::vector<TokenId>& kept : {own, right}) {
    for (const BlockHash hash : HoldOf(kept).hashes) EXPECT_TRUE(to_->harness.resident().contains(hash));
  }
  EXPECT_EQ(Serve(*to_, wrong), 0U) << "computed again, and right";
  EXPECT_EQ(to_->harness.totals().wrong_hits, 1U);
  EXPECT_EQ(to_->source.distrusted, (std::set<std::string>{"from"})) << "it is left alone";
}

TEST_F(TravellingBlocksTest, BlocksThatAreNoNumbersDiscardAllThatCameFromTheirSource) {
  Make({.check_invariants = true});
  const std::vector<TokenId> broken = Text(6 * kBlockTokens, 1);
  const std::vector<TokenId> also = Text(5 * kBlockTokens, 2);
  const std::vector<TokenId> own = Text(6 * kBlockTokens, 4);
  Serve(*to_, own);
  for (const std::vector<TokenId>& prompt : {broken, also}) {
    from_->harness.Serve(GreedyRequest(++last_id_, prompt, 1));
    from_->model.BreakKv();
    wire::Hold hold = HoldOf(prompt);
    hold.source.worker_id = "from";
    EXPECT_EQ(Hold(*to_, hold).outcome, HoldOutcome::kComplete);
  }
  EXPECT_EQ(Serve(*to_, broken), 0U) << "computed again, and right";
  EXPECT_EQ(to_->harness.totals().distrusted_blocks, 6U + 5U);
  EXPECT_EQ(to_->source.distrusted, (std::set<std::string>{"from"}));
  for (const BlockHash hash : HoldOf(own).hashes) EXPECT_TRUE(to_->harness.resident().contains(hash));
}

// Its first rows were copied from a block that came; the rest was computed here.
TEST_F(TravellingBlocksTest, ABlockWithRowsOfAWrongOneIsDiscardedToo) {
  Make({.check_invariants = true, .verify_hits_share = 1});
  const std::vector<TokenId> wrong = Text(3 * kBlockTokens, 1);
  from_->harness.Serve(GreedyRequest(++last_id_, wrong, 1));
  from_->model.CorruptKv();
  wire::Hold hold = HoldOf(wrong);
  hold.source.worker_id = "from";
  EXPECT_EQ(Hold(*to_, hold).arrived_block_count, 3U);
  std::vector<TokenId> other(wrong.begin(), wrong.begin() + 5);
  for (const TokenId token : Text(2 * kBlockTokens, 2)) other.push_back(token);
  (void)to_->harness.Serve(GreedyRequest(++last_id_, other, 5));
  EXPECT_EQ(to_->harness.totals().tail_cached_tokens, 5U);
  EXPECT_EQ(to_->harness.totals().wrong_hits, 1U);
  EXPECT_TRUE(to_->harness.resident().empty());
  EXPECT_EQ(Serve(*to_, other), 0U);
}

TEST_F(TravellingBlocksTest, WhatStillComesFromAWrongSourceIsNotTaken) {
  Make({.check_invariants = true, .verify_hits_share = 1});
  const std::vector<TokenId> wrong = Text(3 * kBlockTokens, 1);
  const std::vector<TokenId> coming = Text(4 * kBlockTokens, 2);
  for (const std::vector<TokenId>& prompt : {wrong, coming}) {
    from_->harness.Serve(GreedyRequest(++last_id_, prompt, 1));
  }
  from_->model.CorruptKv();
  EXPECT_EQ(Hold(*to_, HoldOf(wrong)).arrived_block_count, 3U);
  Order(*to_, HoldOf(coming));
  const std::uint64_t under_way = last_id_;
  EXPECT_TRUE(to_->source.Tell());
  EXPECT_TRUE(to_->harness.Submit(GreedyRequest(++last_id_, wrong, 5)).ok());
  std::optional<HoldOutcome> outcome;
  for (int step = 0; step < 100 && to_->harness.engine().HasWork(); ++step) {
    for (const EngineAnswer& answer : to_->harness.Step().answers) {
      const auto* const held = std::get_if<wire::HoldAnswer>(&answer.answer);
      if (held != nullptr && held->answer_id == under_way) outcome = held->outcome;
    }
  }
  EXPECT_EQ(outcome, HoldOutcome::kWrong);
  to_->source.TellAll();
  to_->harness.Run();
  EXPECT_TRUE(to_->harness.resident().empty());
  EXPECT_EQ(to_->source.used_frames(), 0U);
}

TEST_F(TravellingBlocksTest, WithoutWaysOfBlocksAHoldIsRefused) {
  testing_support::EngineHarness alone(to_->model, clock_, {});
  wire::Hold hold = HoldOf(Text(4 * kBlockTokens, 1));
  hold.answer_id = 3;
  const auto reply = alone.engine().CarryOut(kLink, hold, HoldReceipt{HoldId(1), clock_.Now()});
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(std::get<wire::HoldAnswer>(*reply).outcome, HoldOutcome::kRefused);
  EXPECT_EQ(std::get<wire::HoldAnswer>(*reply).missing_block_count, 4U);
}

}  // namespace
}  // namespace roost::worker
