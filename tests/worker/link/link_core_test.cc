#include "worker/link/link_core.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <utility>

#include "common/base/rng.h"
#include "tests/worker/link/link_core_fixture.h"

namespace roost::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// ---- greeting ----

TEST_F(LinkCoreTest, SaysHelloEachSecondUntilWelcomed) {
  const std::uint64_t epoch = Greet(kPeer);
  EXPECT_EQ(epoch, 100U);
  Pass(milliseconds(999));
  EXPECT_TRUE(effects_.Take<wire::Hello>().empty());
  Pass(milliseconds(1));
  const auto again = effects_.Take<wire::Hello>();
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].epoch, epoch);
  EXPECT_EQ(again[0].worker_id, "worker-1");
  Welcome(kPeer, epoch);
  Pass(seconds(1));
  EXPECT_TRUE(effects_.Take<wire::Hello>().empty());
}

TEST_F(LinkCoreTest, RetriesSoonWhileNoConnectionStands) {
  effects_.outcome = wire::SendOutcome::kFull;
  core_.AddPeer(kPeer, "router");
  core_.Tick();
  effects_.outcome = wire::SendOutcome::kSent;
  EXPECT_EQ(core_.TimeToNextTick(), milliseconds(50));
  Pass(milliseconds(50));
  EXPECT_EQ(effects_.Take<wire::Hello>().size(), 1U);
  EXPECT_EQ(ResyncCount(ResyncReason::kOverflow), 0U);
}

TEST_F(LinkCoreTest, ASilentRouterIsDialledAnewAndAgain) {
  BringUp(kPeer);
  Pass(milliseconds(2999));
  EXPECT_TRUE(effects_.redialled.empty());
  Pass(milliseconds(1));
  EXPECT_EQ(effects_.redialled, (std::vector<PeerId>{kPeer}));
  EXPECT_EQ(core_.up_count(), 0U);
  Pass(seconds(3));  // it does not answer hellos either
  EXPECT_EQ(effects_.redialled.size(), 2U);
}

TEST_F(LinkCoreTest, ARouterThatRefusesIsAskedEachSecondAndNotDialledAnew) {
  const std::uint64_t epoch = Greet(kPeer);
  for (int i = 0; i < 10; ++i) {
    core_.OnMessage(kPeer, wire::Refused{epoch, "another process serves under this name"});
    Pass(seconds(1));
  }
  EXPECT_TRUE(effects_.redialled.empty());
  EXPECT_EQ(effects_.Take<wire::Hello>().size(), 10U);
  EXPECT_EQ(core_.up_count(), 0U);
  Welcome(kPeer, epoch);
  EXPECT_EQ(core_.up_count(), 1U);
}

TEST_F(LinkCoreTest, EachReportOfTheEngineIsProgressAndAHeartbeatIsNone) {
  BringUp(kPeer);
  Report({});
  const std::uint64_t first = effects_.Take<wire::Step>().at(0).load.progress;
  Report({});
  EXPECT_EQ(effects_.Take<wire::Step>().at(0).load.progress, first + 1);
  Pass(milliseconds(250));
  EXPECT_EQ(effects_.Take<wire::Step>().at(0).load.progress, first + 1);
}

TEST_F(LinkCoreTest, IgnoresAWelcomeToAnotherEpoch) {
  const std::uint64_t epoch = Greet(kPeer);
  Welcome(kPeer, epoch + 1);
  EXPECT_EQ(core_.up_count(), 0U);
  Welcome(kPeer, epoch);
  EXPECT_EQ(core_.up_count(), 1U);
}

// ---- sequence, load, tokens ----

TEST_F(LinkCoreTest, NumbersSnapshotsAndStepsWithoutGaps) {
  Welcome(kPeer, Greet(kPeer));  // message 1: the load
  Report({});
  core_.Tick();  // message 3: the snapshot
  Report({});
  Pass(milliseconds(250));
  const auto steps = effects_.Take<wire::Step>();
  ASSERT_EQ(steps.size(), 4U);
  EXPECT_EQ(steps[1].sequence, 2U);
  EXPECT_EQ(steps[2].sequence, 4U);
  EXPECT_EQ(steps[3].sequence, 5U);
  EXPECT_EQ(steps[0].epoch, 100U);
}

TEST_F(LinkCoreTest, ARouterIsToldTheLoadAtOnce) {
  StepReport report = cache_.Report({Stored(1)});
  report.load.free_block_count = 99;
  core_.OnOutput(std::move(report));
  Welcome(kPeer, Greet(kPeer));
  const auto steps = effects_.Take<wire::Step>();
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].sequence, 1U);
  EXPECT_EQ(steps[0].load.free_block_count, 99U);
  EXPECT_EQ(steps[0].load.step_seconds, 0.0);
}

TEST_F(LinkCoreTest, LoadIsRepeatedAsHeartbeatWithoutTheStep) {
  BringUp(kPeer);
  Report({Stored(1)});
  EXPECT_EQ(effects_.Take<wire::Step>().at(0).load.step_seconds, 0.5);
  Pass(milliseconds(249));
  EXPECT_TRUE(effects_.sent.empty());
  Pass(milliseconds(1));
  const auto steps = effects_.Take<wire::Step>();
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].load.cached_block_count, 1U);
  EXPECT_EQ(steps[0].load.step_decode_tokens, 0U);
  EXPECT_EQ(steps[0].load.step_seconds, 0.0);
  EXPECT_TRUE(steps[0].events.empty());
}

TEST_F(LinkCoreTest, TokensGoToTheirOwnRouterAlone) {
  BringUp(kPeer);
  BringUp(kOther);
  const LinkId first = Submit(kPeer, 1);
  const LinkId second = Submit(kOther, 2);
  Report({Stored(9)}, {TokensOf(first, 1), TokensOf(second, 2)});
  ASSERT_EQ(effects_.sent.size(), 2U);
  std::map<PeerId, std::uint64_t> requests;
  for (const auto& [peer, message] : effects_.sent) {
    const auto& step = std::get<wire::Step>(message);
    ASSERT_EQ(step.tokens.size(), 1U);
    requests[peer] = step.tokens[0].request_id.value();
    EXPECT_EQ(step.events.size(), 1U);
  }
  EXPECT_EQ(requests, (std::map<PeerId, std::uint64_t>{{kPeer, 1}, {kOther, 2}}));
}

// ---- requests ----

TEST_F(LinkCoreTest, PassesRequestsAndCancelsToTheEngine) {
  BringUp(kPeer);
  core_.OnMessage(kPeer, GenerateNumber(7));
  core_.OnMessage(kPeer, wire::Cancel{RequestId(7)});
  core_.OnMessage(kPeer, wire::Cancel{RequestId(8)});  // unknown
  ASSERT_EQ(effects_.commands.size(), 2U);
  const auto& submitted = std::get<SubmitCommand>(effects_.commands[0]);
  EXPECT_EQ(submitted.received, clock_.Now());
  const LinkId link = submitted.link;
  EXPECT_EQ(std::get<CancelCommand>(effects_.commands[1]).key, (RequestKey{link, RequestId(7)}));
  EXPECT_EQ(core_.in_flight_request_count(), 1U);
  Report({}, {TokensOf(link, 7, wire::FinishReason::kCancelled)});
  EXPECT_EQ(core_.in_flight_request_count(), 0U);
  EXPECT_EQ(core_.counts().finished_requests[static_cast<std::size_t>(wire::FinishReason::kCancelled)], 1U);
}

TEST_F(LinkCoreTest, ARequestIsInFlightUntilItsLastChoiceEnds) {
  BringUp(kPeer);
  wire::Generate generate = GenerateNumber(7);
  generate.sample_count = 3;
  core_.OnMessage(kPeer, generate);
  const LinkId link = effects_.TakeCommands<SubmitCommand>().at(0).link;
  const auto end_choice = [&](std::uint32_t choice, wire::FinishReason reason) {
    RequestEvent event = TokensOf(link, 7, reason);
    event.event.choice = choice;
    Report({}, {event});
  };
  end_choice(2, wire::FinishReason::kStop);
  end_choice(0, wire::FinishReason::kLength);
  EXPECT_EQ(core_.in_flight_request_count(), 1U);
  end_choice(1, wire::FinishReason::kStop);
  EXPECT_EQ(core_.in_flight_request_count(), 0U);
  EXPECT_EQ(core_.counts().finished_requests[static_cast<std::size_t>(wire::FinishReason::kStop)], 1U);
  EXPECT_EQ(core_.counts().finished_requests[static_cast<std::size_t>(wire::FinishReason::kLength)], 0U);
}

TEST_F(LinkCoreTest, AnErrorEndsARequestWithAllItsChoices) {
  BringUp(kPeer);
  wire::Generate generate = GenerateNumber(7);
  generate.sample_count = 3;
  core_.OnMessage(kPeer, generate);
  const LinkId link = effects_.TakeCommands<SubmitCommand>().at(0).link;
  Report({}, {TokensOf(link, 7, wire::FinishReason::kError)});
  EXPECT_EQ(core_.in_flight_request_count(), 0U);
}

TEST_F(LinkCoreTest, PassesPinsToTheEngine) {
  BringUp(kPeer);
  const wire::Pin pin{{1, 2}, {{3, 4}, {5, 6}}, 1000};
  const wire::Unpin unpin{{1, 2}, {{3, 4}}};
  core_.OnMessage(kPeer, pin);
  core_.OnMessage(kPeer, unpin);
  ASSERT_EQ(effects_.commands.size(), 2U);
  EXPECT_EQ(std::get<PinCommand>(effects_.commands[0]).pin, pin);
  EXPECT_EQ(std::get<UnpinCommand>(effects_.commands[1]).unpin, unpin);
}

TEST_F(LinkCoreTest, AnswersGoToTheLinkThatAsked) {
  BringUp(kPeer);
  BringUp(kOther);
  core_.OnMessage(kOther, wire::Pin{{1, 2}, {{3, 4}}, 0, 9});
  const LinkId asked = effects_.TakeCommands<PinCommand>().at(0).link;
  effects_.sent.clear();
  const wire::PinAnswer answer{9, 0, 1, 0};
  core_.OnOutput(EngineAnswer{asked, answer});
  ASSERT_EQ(effects_.sent.size(), 1U);
  EXPECT_EQ(effects_.sent[0].first, kOther);
  EXPECT_EQ(std::get<wire::PinAnswer>(effects_.sent[0].second), answer);
}

TEST_F(LinkCoreTest, AnAnswerForAnEarlierLifeOfTheLinkIsDropped) {
  BringUp(kPeer);
  core_.OnMessage(kPeer, wire::WantPrefixes{9, 5, wire::PrefixTokens::kOmit});
  const LinkId asked = effects_.TakeCommands<WantPrefixesCommand>().at(0).link;
  core_.OnMessage(kPeer, wire::WantHello{});
  core_.Tick();
  Welcome(kPeer, effects_.Take<wire::Hello>().at(0).epoch);
  ASSERT_EQ(core_.up_count(), 1U);
  effects_.sent.clear();
  core_.OnOutput(EngineAnswer{asked, wire::Prefixes{9, {}}});
  EXPECT_TRUE(effects_.sent.empty());
}

TEST_F(LinkCoreTest, EvictionsGoToTheEngineAndAreRefusedWithoutRoom) {
  BringUp(kPeer);
  const wire::Evict evict{wire::TenantToEvict{"a"}, 9};
  core_.OnMessage(kPeer, evict);
  EXPECT_EQ(effects_.TakeCommands<EvictCommand>().at(0).evict, evict);
  effects_.sent.clear();
  effects_.inbox_is_full = true;
  core_.OnMessage(kPeer, evict);
  const wire::EvictAnswer refused{.answer_id = 9, .outcome = wire::EvictOutcome::kRefused};
  EXPECT_EQ(effects_.Take<wire::EvictAnswer>(), std::vector<wire::EvictAnswer>{refused});
}

TEST_F(LinkCoreTest, PinsBeforeTheWelcomeOrWithoutRoomAreDropped) {
  (void)Greet(kPeer);
  core_.OnMessage(kPeer, wire::Pin{{1, 2}, {{3, 4}}, 0});
  BringUp(kOther);
  effects_.inbox_is_full = true;
  core_.OnMessage(kOther, wire::Pin{{1, 2}, {{3, 4}}, 0});
  core_.OnMessage(kOther, wire::WantPrefixes{9, 5, wire::PrefixTokens::kOmit});
  EXPECT_TRUE(effects_.commands.empty());
}

TEST_F(LinkCoreTest, FullInboxIsAnsweredAtOnce) {
  BringUp(kPeer);
  effects_.inbox_is_full = true;
  core_.OnMessage(kPeer, GenerateNumber(7));
  const auto steps = effects_.Take<wire::Step>();
  ASSERT_EQ(steps.size(), 1U);
  ASSERT_EQ(steps[0].tokens.size(), 1U);
  EXPECT_EQ(steps[0].tokens[0].request_id, RequestId(7));
  EXPECT_EQ(steps[0].tokens[0].finish, wire::FinishReason::kError);
  EXPECT_EQ(steps[0].tokens[0].error->code, ErrorCode::kOverloaded);
  EXPECT_EQ(core_.in_flight_request_count(), 0U);
}

TEST_F(LinkCoreTest, RequestThatThisVersionDoesNotUnderstandIsRefusedAlone) {
  BringUp(kPeer);
  wire::Generate generate = GenerateNumber(7);
  generate.refusal = Error{ErrorCode::kInvalidArgument, "why", "response_format"};
  core_.OnMessage(kPeer, std::move(generate));
  core_.OnMessage(kPeer, GenerateNumber(8));
  const auto steps = effects_.Take<wire::Step>();
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].tokens.at(0).request_id, RequestId(7));
  EXPECT_EQ(steps[0].tokens.at(0).error, (Error{ErrorCode::kInvalidArgument, "why", "response_format"}));
  EXPECT_EQ(effects_.TakeCommands<SubmitCommand>().size(), 1U);
  core_.OnMessage(kPeer, wire::Ping{DigestOf({7, 8})});
  EXPECT_EQ(core_.up_count(), 1U);
}

TEST_F(LinkCoreTest, WelcomeOfAnotherMajorVersionIsNotTaken) {
  const std::uint64_t epoch = Greet(kPeer);
  core_.OnMessage(kPeer, wire::Welcome{1, epoch, {.major = wire::kProtocolMajor + 1, .minor = 0}});
  EXPECT_EQ(core_.up_count(), 0U);
  Welcome(kPeer, epoch);
  EXPECT_EQ(core_.up_count(), 1U);
}

TEST_F(LinkCoreTest, SecondRequestUnderARunningIdIsIgnored) {
  BringUp(kPeer);
  core_.OnMessage(kPeer, GenerateNumber(7));
  core_.OnMessage(kPeer, GenerateNumber(7));
  EXPECT_EQ(effects_.TakeCommands<SubmitCommand>().size(), 1U);
  EXPECT_EQ(core_.counts().malformed_messages, 1U);
}

TEST_F(LinkCoreTest, RequestsBeforeTheWelcomeAreOfADeadLife) {
  (void)Greet(kPeer);
  core_.OnMessage(kPeer, GenerateNumber(7));
  EXPECT_TRUE(effects_.commands.empty());
}

TEST_F(LinkCoreTest, TokenizerIsSentToWhoAsks) {
  (void)Greet(kPeer);
  core_.OnMessage(kPeer, wire::WantTokenizer{});
  const auto sent = effects_.Take<wire::Tokenizer>();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].digest, "digest");
}

// ---- new lives ----

// What every way to a new life must do: end the requests, drop the engine's output for them, greet with a new epoch.
class NewLifeTest : public LinkCoreTest {
 protected:
  void ExpectNewLifeAfter(const std::function<void()>& happening) {
    BringUp(kPeer);
    const LinkId old = Submit(kPeer, 7);
    happening();
    effects_.outcome = wire::SendOutcome::kSent;
    const auto cancelled = effects_.TakeCommands<CancelLinkCommand>();
    ASSERT_EQ(cancelled.size(), 1U);
    EXPECT_EQ(cancelled[0].link, old);
    EXPECT_EQ(core_.in_flight_request_count(), 0U);
    EXPECT_EQ(core_.up_count(), 0U);
    effects_.sent.clear();
    Report({}, {TokensOf(old, 7)});
    EXPECT_TRUE(effects_.sent.empty());
    Pass(seconds(1));
    const auto hellos = effects_.Take<wire::Hello>();
    ASSERT_EQ(hellos.size(), 1U);
    EXPECT_GT(hellos[0].epoch, 100U);
    Welcome(kPeer, hellos[0].epoch, instance_);
    EXPECT_EQ(core_.up_count(), 1U);
    EXPECT_EQ(effects_.Take<wire::Step>().at(0).sequence, 1U);
    EXPECT_NE(Submit(kPeer, 7), old);
  }

  std::uint64_t instance_ = 1;  // of the router that welcomes the new life
};

TEST_F(NewLifeTest, RouterAsksForAHello) {
  ExpectNewLifeAfter([this] {
    core_.OnMessage(kPeer, wire::WantHello{});
    core_.OnMessage(kPeer, wire::WantHello{});  // the hello is on its way
  });
  EXPECT_EQ(ResyncCount(ResyncReason::kAsked), 1U);
}

TEST_F(NewLifeTest, RouterIsSilent) {
  ExpectNewLifeAfter([this] {
    Pass(milliseconds(2999));
    EXPECT_EQ(core_.up_count(), 1U);
    Pass(milliseconds(1));
  });
  EXPECT_EQ(ResyncCount(ResyncReason::kSilent), 1U);
}

TEST_F(NewLifeTest, RouterRestarted) {
  instance_ = 2;
  ExpectNewLifeAfter([this] { core_.OnMessage(kPeer, wire::WantHello{}); });
  EXPECT_EQ(ResyncCount(ResyncReason::kRouterRestart), 1U);
  EXPECT_EQ(ResyncCount(ResyncReason::kAsked), 0U);
}

TEST_F(NewLifeTest, AnotherRouterProcessWelcomesTheRunningEpoch) {
  instance_ = 2;
  ExpectNewLifeAfter([this] { Welcome(kPeer, 100, 2); });
}

TEST_F(NewLifeTest, RouterDoesNotTakeItsMessages) {
  ExpectNewLifeAfter([this] {
    effects_.outcome = wire::SendOutcome::kFull;
    Report({Stored(1)});
  });
  EXPECT_EQ(ResyncCount(ResyncReason::kUnsent), 1U);
  EXPECT_EQ(ResyncCount(ResyncReason::kOverflow), 0U);
}

// The core notices a broken connection when it can not send a message; only the welcome reveals the router's restart.
TEST_F(NewLifeTest, RouterRestartedAndTheConnectionBroke) {
  instance_ = 2;
  ExpectNewLifeAfter([this] {
    effects_.outcome = wire::SendOutcome::kFull;
    Pass(milliseconds(250));
  });
  EXPECT_EQ(ResyncCount(ResyncReason::kRouterRestart), 1U);
  EXPECT_EQ(ResyncCount(ResyncReason::kUnsent), 0U);
  EXPECT_EQ(ResyncCount(ResyncReason::kOverflow), 0U);
}

TEST_F(NewLifeTest, RouterSendsAMalformedMessage) {
  ExpectNewLifeAfter([this] { core_.OnMalformed(kPeer); });
  EXPECT_EQ(core_.counts().malformed_messages, 1U);
}

TEST_F(NewLifeTest, ReportsAreLostBetweenEngineAndLink) {
  ExpectNewLifeAfter([this] { core_.OnOutput(OutputLost{}); });
  EXPECT_EQ(ResyncCount(ResyncReason::kOverflow), 1U);
}

TEST_F(NewLifeTest, GenerateIsLost) {
  ExpectNewLifeAfter([this] { core_.OnMessage(kPeer, wire::Ping{.generate_digest = DigestOf({7, 8})}); });
  EXPECT_EQ(ResyncCount(ResyncReason::kGap), 1U);
}

// Without mixing, the xor of the lost ids would be zero.
TEST_F(NewLifeTest, GeneratesThatFollowEachOtherAreLost) {
  ExpectNewLifeAfter([this] { core_.OnMessage(kPeer, wire::Ping{.generate_digest = DigestOf({7, 8, 9, 10, 11})}); });
}

// The router sent it after a welcome that never arrived, so the worker did not accept it.
TEST_F(LinkCoreTest, GenerateThatCameBeforeItsWelcomeIsLost) {
  const std::uint64_t epoch = Greet(kPeer);
  core_.OnMessage(kPeer, GenerateNumber(7));
  core_.OnMessage(kPeer, wire::Ping{.generate_digest = DigestOf({7})});  // no life is up that could end
  Welcome(kPeer, epoch);
  EXPECT_EQ(core_.up_count(), 1U);
  core_.OnMessage(kPeer, wire::Ping{.generate_digest = DigestOf({7})});
  EXPECT_EQ(core_.up_count(), 0U);
  EXPECT_EQ(core_.in_flight_request_count(), 0U);
}

// The same request again after its end: the worker would compute it again.
TEST_F(LinkCoreTest, GenerateInThePlaceOfALostOneIsNoticed) {
  BringUp(kPeer);
  const LinkId link = Submit(kPeer, 7);
  Report({}, {TokensOf(link, 7, wire::FinishReason::kStop)});
  Submit(kPeer, 7);
  core_.OnMessage(kPeer, wire::Ping{.generate_digest = DigestOf({7, 8})});
  EXPECT_EQ(core_.up_count(), 0U);
}

TEST_F(LinkCoreTest, PingAfterWhatCameChangesNothing) {
  BringUp(kPeer);
  core_.OnMessage(kPeer, wire::Ping{.generate_digest = 0});
  const LinkId link = Submit(kPeer, 7);
  effects_.inbox_is_full = true;
  core_.OnMessage(kPeer, GenerateNumber(8));  // refused, but not lost
  core_.OnMessage(kPeer, wire::Ping{.generate_digest = DigestOf({7, 8})});
  core_.OnMessage(kPeer, wire::Ping{});  // from a router that sends no digest
  effects_.inbox_is_full = false;
  EXPECT_EQ(Submit(kPeer, 9), link);
}

TEST_F(LinkCoreTest, PingsKeepALinkUp) {
  BringUp(kPeer);
  for (int i = 0; i < 10; ++i) {
    Pass(seconds(1));
    core_.OnMessage(kPeer, wire::Ping{});
  }
  EXPECT_EQ(core_.up_count(), 1U);
  EXPECT_TRUE(effects_.Take<wire::Hello>().empty());
}

TEST_F(LinkCoreTest, SecondWelcomeOfTheSameProcessChangesNothing) {
  BringUp(kPeer);
  Welcome(kPeer, 100);
  EXPECT_EQ(core_.up_count(), 1U);
  EXPECT_TRUE(effects_.commands.empty());
}

TEST_F(LinkCoreTest, VanishedAddressEndsItsRequests) {
  BringUp(kPeer);
  const LinkId link = Submit(kPeer, 7);
  core_.RemovePeer(kPeer);
  EXPECT_EQ(effects_.TakeCommands<CancelLinkCommand>().at(0).link, link);
  EXPECT_EQ(core_.link_count(), 0U);
  core_.OnMessage(kPeer, wire::Ping{});
  Report({});
  EXPECT_TRUE(effects_.sent.empty());
}

TEST_F(LinkCoreTest, OneBrokenLinkLeavesTheOtherAlone) {
  BringUp(kPeer);
  BringUp(kOther);
  core_.OnMessage(kPeer, wire::WantHello{});
  EXPECT_EQ(core_.up_count(), 1U);
  Report({Stored(1)});
  ASSERT_EQ(effects_.sent.size(), 1U);
  EXPECT_EQ(effects_.sent[0].first, kOther);
}

// ---- draining ----

TEST_F(LinkCoreTest, DrainRefusesNewRequestsAndEndsOldOnes) {
  BringUp(kPeer);
  const LinkId link = Submit(kPeer, 7);
  core_.BeginDrain();
  const auto told = effects_.Take<wire::Step>();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_TRUE(told[0].load.draining);
  core_.OnMessage(kPeer, GenerateNumber(8));
  EXPECT_EQ(effects_.Take<wire::Step>().at(0).tokens.at(0).error->code, ErrorCode::kUnavailable);
  Report({}, {TokensOf(link, 7, wire::FinishReason::kStop)});
  EXPECT_TRUE(effects_.Take<wire::Step>().at(0).load.draining);
  EXPECT_EQ(core_.in_flight_request_count(), 0U);
  core_.SayBye();
  EXPECT_EQ(effects_.Take<wire::Bye>().at(0).epoch, 100U);
}

// ---- cutting snapshots ----

TEST(CutSnapshotTest, EmptyCacheIsOneEmptyChunk) { EXPECT_EQ(CutSnapshot({}, 10, 10).size(), 1U); }

TEST(CutSnapshotTest, RunsThatAreNotSplitAreNotCopied) {
  std::vector<wire::StoredRun> runs{{0, {BlockHash{0, 1}, BlockHash{0, 2}}}, {2, {BlockHash{0, 3}}}};
  const BlockHash* const first = runs[0].hashes.data();
  const BlockHash* const second = runs[1].hashes.data();
  const auto chunks = CutSnapshot(std::move(runs), 3, 2);
  ASSERT_EQ(chunks.size(), 1U);
  EXPECT_EQ(chunks[0].at(0).hashes.data(), first);
  EXPECT_EQ(chunks[0].at(1).hashes.data(), second);
}

TEST(CutSnapshotTest, ChunksKeepToTheLimitsAndLoseNothing) {
  Rng rng(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<wire::StoredRun> runs(rng.Below(8));
    std::vector<std::pair<std::uint32_t, BlockHash>> expected;
    for (wire::StoredRun& run : runs) {
      run.first_position = static_cast<std::uint32_t>(rng.Below(5));
      for (std::uint64_t n = rng.Below(12); n > 0; --n) {
        run.hashes.push_back({rng(), rng()});
        expected.emplace_back(run.first_position + run.hashes.size() - 1, run.hashes.back());
      }
    }
    const std::size_t max_hashes = 1 + rng.Below(6);
    const std::size_t max_runs = 1 + rng.Below(3);
    std::vector<std::pair<std::uint32_t, BlockHash>> found;
    for (const auto& chunk : CutSnapshot(runs, max_hashes, max_runs)) {
      EXPECT_LE(chunk.size(), max_runs);
      std::size_t hashes = 0;
      for (const wire::StoredRun& run : chunk) {
        hashes += run.hashes.size();
        for (std::size_t i = 0; i < run.hashes.size(); ++i) {
          found.emplace_back(run.first_position + static_cast<std::uint32_t>(i), run.hashes[i]);
        }
      }
      EXPECT_LE(hashes, max_hashes);
    }
    EXPECT_EQ(found, expected) << "round " << round;
  }
}

// ---- without a prefix cache ----

class LinkWithoutPrefixesTest : public LinkCoreTest {
 protected:
  LinkWithoutPrefixesTest() : LinkCoreTest(SetupWithoutPrefixes()) {}
  static LinkCore::Setup SetupWithoutPrefixes() {
    LinkCore::Setup setup = MakeSetup();
    setup.hello.keeps_prefixes = false;
    return setup;
  }
};

TEST_F(LinkWithoutPrefixesTest, EveryRequestLeavesTheCacheAloneAndPinsAreDropped) {
  Welcome(kPeer, Greet(kPeer));
  core_.OnMessage(kPeer, GenerateNumber(1));
  core_.OnMessage(kPeer, wire::Pin{{1, 1}, {{1, 2}}, 0});
  const auto submitted = effects_.TakeCommands<SubmitCommand>();
  ASSERT_EQ(submitted.size(), 1U);
  EXPECT_EQ(submitted[0].request.cache_mode, wire::CacheMode::kOff);
  EXPECT_TRUE(effects_.TakeCommands<PinCommand>().empty());
}

TEST_F(LinkWithoutPrefixesTest, NoRouterIsToldWhatAnothersPromptWillLeave) {
  BringUp(kPeer);
  BringUp(kOther);
  wire::Generate generate = GenerateNumber(1);
  generate.block_hashes = {{1, 1}};
  core_.OnMessage(kPeer, std::move(generate));
  Pass(PromptBoard::kNewsInterval);
  std::size_t told = 0;
  for (const auto& [peer, message] : effects_.sent) {
    const auto* step = std::get_if<wire::Step>(&message);
    if (peer != kOther || step == nullptr) continue;
    for (const wire::OtherPrompt& prompt : step->load.other_prompts) {
      ++told;
      EXPECT_TRUE(prompt.hashes.empty());
    }
  }
  EXPECT_GT(told, 0U);
}

}  // namespace
}  // namespace roost::worker
