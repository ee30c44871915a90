// Blocks that come for requests: what a request was promised and what it computes, and Holds whose requests go.
#include <gtest/gtest.h>

#include "tests/worker/engine/travelling_fixture.h"

namespace roost::worker {
namespace {

using testing_support::GreedyRequest;
using testing_support::kLink;
using testing_support::kRoot;
using wire::HoldOutcome;

class TravellingRequestsTest : public TravellingBlocksTest {};

// ---- what a request was promised ----

TEST_F(TravellingRequestsTest, ARequestAndItsHoldMayComeInAnyOrder) {
  for (const bool is_request_first : {false, true}) {
    Make({});
    const std::vector<TokenId> prompt = Text(10 * kBlockTokens, 1);
    Serve(*from_, prompt);
    std::uint64_t request = 0;
    if (is_request_first) request = Submit(*to_, prompt);
    Order(*to_, RequestHoldOf(prompt));
    if (!is_request_first) request = Submit(*to_, prompt);
    (void)to_->harness.Step();
    EXPECT_FALSE(to_->harness.engine().HasWork()) << "it waits for the blocks";
    to_->source.TellAll();
    to_->harness.Run();
    EXPECT_EQ(to_->harness.outcome(request).tokens, Reference(prompt, 5));
    EXPECT_EQ(to_->harness.outcome(request).cached_token_count, 10 * kBlockTokens - 1);
    EXPECT_EQ(Computed(*to_, MissReason::kNotArrived), 0U);
  }
}

TEST_F(TravellingRequestsTest, WhatASourceDoesNotBringIsComputedAsNotArrived) {
  const std::vector<TokenId> prompt = Text(10 * kBlockTokens + 3, 1);
  Serve(*from_, prompt);
  Order(*to_, RequestHoldOf(prompt));
  const std::uint64_t request = Submit(*to_, prompt);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(to_->source.Tell());
  to_->source.End(HoldOutcome::kBroken);
  to_->harness.Run();
  EXPECT_EQ(to_->harness.outcome(request).tokens, Reference(prompt, 5));
  EXPECT_EQ(to_->harness.outcome(request).cached_token_count, 4 * kBlockTokens);
  EXPECT_EQ(Computed(*to_, MissReason::kNotArrived), 6 * kBlockTokens);
  EXPECT_EQ(Computed(*to_, MissReason::kTail), 3U);
  EXPECT_EQ(Serve(*to_, prompt), 10 * kBlockTokens + 2) << "it is cached now";
  EXPECT_EQ(Computed(*to_, MissReason::kNotArrived), 6 * kBlockTokens);
}

// The source was quicker to fail than the request to come.
TEST_F(TravellingRequestsTest, AHoldThatEndedShortlyBeforeItsRequestIsRemembered) {
  const std::vector<TokenId> prompt = Text(10 * kBlockTokens + 3, 1);
  Serve(*from_, prompt);
  for (const bool is_short : {true, false}) {
    Order(*to_, RequestHoldOf(prompt));
    to_->source.End(HoldOutcome::kBusy);
    EXPECT_EQ(AwaitAnswer(*to_, last_id_).outcome, HoldOutcome::kBusy);
    clock_.Advance(is_short ? kUnwantedPatience / 2 : kUnwantedPatience);
    // Any other prompt is just cold.
    Serve(*to_, Text(10 * kBlockTokens, is_short ? 2 : 3));
    Serve(*to_, prompt);
    EXPECT_EQ(Computed(*to_, MissReason::kNotArrived), 10 * kBlockTokens);
    wire::Evict evict;
    evict.answer_id = ++last_id_;
    evict.what = wire::PromptToEvict{.root = kRoot, .tokens = prompt, .block_hashes = HoldOf(prompt).hashes};
    (void)to_->harness.engine().CarryOut(kLink, evict);
    to_->harness.Run();
  }
}

TEST_F(TravellingRequestsTest, TokensThatArriveAreNotQueuedAndThoseThatDoNotAre) {
  Make({.max_running_requests = 1});
  const std::vector<TokenId> first = Text(10 * kBlockTokens, 1);
  const std::vector<TokenId> second = Text(12 * kBlockTokens, 2);
  Serve(*from_, first);
  Serve(*from_, second);
  Order(*to_, RequestHoldOf(first));
  const std::uint64_t one = Submit(*to_, first);
  Order(*to_, RequestHoldOf(second));
  const std::uint64_t two = Submit(*to_, second);
  // The last block of each is computed for its logits.
  EXPECT_EQ(Queued(*to_), 2 * kBlockTokens);
  EXPECT_TRUE(to_->source.Tell());
  EXPECT_EQ(Queued(*to_), 2 * kBlockTokens);
  // The first arrival breaks while another request runs: the first request is not looked at.
  const std::vector<TokenId> other = Text(2 * kBlockTokens, 3);
  EXPECT_TRUE(to_->harness.Submit(GreedyRequest(++last_id_, other, 8)).ok());
  (void)to_->harness.Step();
  to_->source.End(HoldOutcome::kBroken);
  EXPECT_EQ(Queued(*to_), 9 * kBlockTokens + kBlockTokens) << "all that has not come, and the second one's last block";
  to_->source.TellAll();
  to_->harness.Run();
  EXPECT_EQ(to_->harness.outcome(one).tokens, Reference(first, 5));
  EXPECT_EQ(to_->harness.outcome(two).tokens, Reference(second, 5));
  EXPECT_EQ(Computed(*to_, MissReason::kNotArrived), 8 * kBlockTokens);
}

// Routers learn from it how fast blocks travel between the two.
TEST_F(TravellingRequestsTest, AStepUnderWayIsNoPartOfTheTimeThatBlocksTake) {
  Make({.step_duration = std::chrono::seconds(1)});
  const std::vector<TokenId> prompt = Text(10 * kBlockTokens, 1);
  Serve(*from_, prompt);
  EXPECT_TRUE(to_->harness.Submit(GreedyRequest(++last_id_, Text(30, 2), 5)).ok());
  (void)to_->harness.Step();
  Order(*to_, HoldOf(prompt));
  clock_.Advance(std::chrono::milliseconds(2));
  EXPECT_TRUE(to_->source.Tell());
  clock_.Advance(std::chrono::milliseconds(5));
  to_->source.TellAll();
  clock_.Advance(std::chrono::milliseconds(900));  // until the next step
  const wire::HoldAnswer answer = AwaitAnswer(*to_, last_id_);
  EXPECT_EQ(answer.first_frame_microseconds, 2000U);
  EXPECT_EQ(answer.microseconds, 7000U);
}

// ---- orders that end ----

TEST_F(TravellingRequestsTest, AHoldWhoseRequestNeverComesEndsASecondLater) {
  const std::vector<TokenId> prompt = Text(10 * kBlockTokens, 1);
  Serve(*from_, prompt);
  Order(*to_, RequestHoldOf(prompt));
  EXPECT_TRUE(to_->source.Tell());
  const Instant begin = clock_.Now();
  EXPECT_TRUE(to_->harness.Step().answers.empty());
  EXPECT_EQ(to_->harness.engine().AwaitsBlocksUntil(), begin + kUnwantedPatience) << "then the engine wakes up";
  clock_.Advance(kUnwantedPatience);
  const StepReport report = to_->harness.Step();
  ASSERT_EQ(report.answers.size(), 1U);
  EXPECT_EQ(std::get<wire::HoldAnswer>(report.answers[0].answer).outcome, HoldOutcome::kCancelled);
  EXPECT_EQ(std::get<wire::HoldAnswer>(report.answers[0].answer).arrived_block_count, 1U);
  EXPECT_EQ(to_->source.cancelled().size(), 1U);
}

TEST_F(TravellingRequestsTest, ACancelledRequestEndsItsHoldASecondLater) {
  const std::vector<TokenId> prompt = Text(10 * kBlockTokens, 1);
  Serve(*from_, prompt);
  Order(*to_, RequestHoldOf(prompt));
  const std::uint64_t request = ++last_id_;
  EXPECT_TRUE(to_->harness.Submit(GreedyRequest(request, prompt, 5)).ok());
  to_->source.Tell();
  while (to_->harness.engine().HasWork()) (void)to_->harness.Step();
  to_->harness.engine().Cancel({kLink, RequestId(request)});
  const Instant cancelled = clock_.Now();
  EXPECT_TRUE(to_->harness.Step().answers.empty());
  EXPECT_EQ(to_->harness.engine().AwaitsBlocksUntil(), cancelled + kUnwantedPatience) << "then the engine wakes up";
  clock_.Advance(kUnwantedPatience);
  const StepReport report = to_->harness.Step();
  ASSERT_EQ(report.answers.size(), 1U);
  const auto answer = std::get<wire::HoldAnswer>(report.answers[0].answer);
  EXPECT_EQ(answer.outcome, HoldOutcome::kCancelled);
  EXPECT_EQ(answer.arrived_block_count, 1U);
  EXPECT_EQ(to_->source.cancelled().size(), 1U);
  EXPECT_EQ(to_->harness.resident().size(), 1U) << "what has come stays";
}

TEST_F(TravellingRequestsTest, AHoldGoesOnWhileOthersWaitForIt) {
  const std::vector<TokenId> prompt = Text(10 * kBlockTokens, 1);
  Serve(*from_, prompt);
  Order(*to_, RequestHoldOf(prompt));
  const std::uint64_t first = ++last_id_;
  const std::uint64_t second = ++last_id_;
  for (const std::uint64_t request : {first, second}) {
    EXPECT_TRUE(to_->harness.Submit(GreedyRequest(request, prompt, 5)).ok());
  }
  (void)to_->harness.Step();
  to_->harness.engine().Cancel({kLink, RequestId(first)});
  (void)to_->harness.Step();
  clock_.Advance(2 * kUnwantedPatience);
  EXPECT_TRUE(to_->harness.Step().answers.empty());
  to_->source.TellAll();
  to_->harness.Run();
  EXPECT_EQ(to_->harness.outcome(second).cached_token_count, 10 * kBlockTokens - 1);
}

TEST_F(TravellingRequestsTest, ACopyNeedsNoRequest) {
  const std::vector<TokenId> prompt = Text(10 * kBlockTokens, 1);
  Serve(*from_, prompt);
  Order(*to_, HoldOf(prompt));
  const std::uint64_t request = ++last_id_;
  EXPECT_TRUE(to_->harness.Submit(GreedyRequest(request, prompt, 5)).ok());
  (void)to_->harness.Step();
  to_->harness.engine().Cancel({kLink, RequestId(request)});
  (void)to_->harness.Step();
  clock_.Advance(2 * kUnwantedPatience);
  EXPECT_TRUE(to_->harness.Step().answers.empty());
  EXPECT_EQ(AwaitAnswer(*to_, last_id_ - 1).outcome, HoldOutcome::kComplete);
}

TEST_F(TravellingRequestsTest, AHoldThatFollowsItsSourceNeedsNoRequest) {
  const std::vector<TokenId> prompt = Text(10 * kBlockTokens, 1);
  Serve(*from_, prompt);
  wire::Hold hold = RequestHoldOf(prompt);
  hold.source.follow = true;
  Order(*to_, hold);
  EXPECT_TRUE(to_->source.Tell());
  EXPECT_TRUE(to_->harness.Step().answers.empty());
  clock_.Advance(2 * kUnwantedPatience);
  EXPECT_TRUE(to_->harness.Step().answers.empty());
  EXPECT_EQ(AwaitAnswer(*to_, last_id_).outcome, HoldOutcome::kComplete);
}

TEST_F(TravellingRequestsTest, OneMoreHoldThanTheLimitIsRefused) {
  for (std::size_t i = 0; i < kMaxArrivals; ++i) {
    EXPECT_FALSE(Order(*to_, HoldOf(Text(2 * kBlockTokens, i))).has_value()) << i;
  }
  const auto reply = Order(*to_, HoldOf(Text(2 * kBlockTokens, 1000)));
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(std::get<wire::HoldAnswer>(*reply).outcome, HoldOutcome::kRefused);
  EXPECT_EQ(std::get<wire::HoldAnswer>(*reply).missing_block_count, 2U);
  EXPECT_TRUE(to_->source.cancelled().contains(HoldId(last_id_))) << "its source is told";
}

// At once: in the step that takes the order no block is readable any more, though the model still computes.
TEST_F(TravellingRequestsTest, AnEvictionRetractsAtTheSource) {
  for (const bool plan_ahead : {false, true}) {
    Make({.plan_ahead = plan_ahead});
    const std::vector<TokenId> prompt = Text(10 * kBlockTokens, 1);
    const std::vector<TokenId> other = Text(10 * kBlockTokens, 2);
    Serve(*from_, prompt);
    Serve(*from_, other);
    Order(*to_, HoldOf(prompt));
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(to_->source.Tell());
    EXPECT_TRUE(from_->harness.Submit(GreedyRequest(++last_id_, Text(9 * kBlockTokens, 3), 5)).ok());
    wire::Evict evict;
    evict.answer_id = ++last_id_;
    evict.what = wire::PromptToEvict{.root = kRoot, .tokens = prompt, .block_hashes = HoldOf(prompt).hashes};
    EXPECT_FALSE(from_->harness.engine().CarryOut(kLink, evict).has_value());
    (void)from_->harness.Step();
    FrameBuffer frame(from_->readable.sizes());
    for (const BlockHash hash : HoldOf(prompt).hashes) EXPECT_FALSE(from_->readable.Read(hash, 0, frame));
    for (const BlockHash hash : HoldOf(other).hashes) EXPECT_TRUE(from_->readable.Read(hash, 0, frame));
    to_->source.TellAll();
    const wire::HoldAnswer answer = AwaitAnswer(*to_, last_id_ - 2);
    EXPECT_EQ(answer.outcome, HoldOutcome::kMissing);
    EXPECT_EQ(answer.arrived_block_count, 3U);
  }
}

}  // namespace
}  // namespace roost::worker
