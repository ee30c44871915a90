#include "worker/link/link_core.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <utility>

#include "common/base/rng.h"

namespace roost::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr PeerId kPeer{1};
constexpr PeerId kOther{2};

// Keeps what the core does, in order.
class RecordedEffects final : public LinkEffects {
 public:
  wire::SendOutcome Send(PeerId peer, const wire::WorkerMessage& message) override {
    if (outcome == wire::SendOutcome::kSent) sent.emplace_back(peer, message);
    return outcome;
  }
  bool Submit(EngineCommand command) override {
    if (inbox_is_full) return false;
    commands.emplace_back(std::move(command));
    return true;
  }
  void Command(EngineCommand command) override { commands.push_back(std::move(command)); }

  // The messages of type T sent since the last call, to any peer; forgets all others.
  template <typename T>
  std::vector<T> Take() {
    std::vector<T> taken;
    for (auto& [peer, message] : std::exchange(sent, {})) {
      if (auto* value = std::get_if<T>(&message)) taken.push_back(std::move(*value));
    }
    return taken;
  }
  template <typename T>
  std::vector<T> TakeCommands() {
    std::vector<T> taken;
    for (EngineCommand& command : std::exchange(commands, {})) {
      if (auto* value = std::get_if<T>(&command)) taken.push_back(std::move(*value));
    }
    return taken;
  }

  wire::SendOutcome outcome = wire::SendOutcome::kSent;
  bool inbox_is_full = false;
  std::vector<std::pair<PeerId, wire::WorkerMessage>> sent;
  std::vector<EngineCommand> commands;
};

wire::CacheEvent Stored(std::uint64_t name) {
  wire::CacheEvent event;
  event.stored.hashes = {BlockHash{0, name}};
  return event;
}

StepReport ReportWith(std::vector<wire::CacheEvent> events) {
  StepReport report;
  report.events = std::move(events);
  report.load.cached_block_count = 5;
  report.load.step_decode_tokens = 3;
  report.load.step_seconds = 0.5;
  return report;
}

RequestEvent TokensOf(LinkId link, std::uint64_t request, std::optional<wire::FinishReason> finish = std::nullopt) {
  RequestEvent event;
  event.link = link;
  event.event.request_id = RequestId(request);
  event.event.tokens = {42};
  event.event.finish = finish;
  return event;
}

wire::Generate GenerateNumber(std::uint64_t id) {
  wire::Generate generate;
  generate.request_id = RequestId(id);
  generate.prompt = {1, 2, 3};
  return generate;
}

class LinkCoreTest : public ::testing::Test {
 protected:
  LinkCoreTest() : core_(MakeSetup(), clock_, effects_) {}

  static LinkCore::Setup MakeSetup() {
    LinkCore::Setup setup;
    setup.hello.worker_id = "worker-1";
    setup.hello.block_count = 100;
    setup.tokenizer.digest = "digest";
    setup.first_epoch = 100;
    return setup;
  }

  // Adds the peer and lets it greet; returns the epoch of its hello.
  std::uint64_t Greet(PeerId peer) {
    core_.AddPeer(peer, "router");
    core_.Tick();
    return effects_.Take<wire::Hello>().at(0).epoch;
  }
  void Welcome(PeerId peer, std::uint64_t epoch, std::uint64_t instance = 1) {
    core_.OnMessage(peer, wire::Welcome{instance, epoch});
  }
  // The peer is up and has its snapshot. Returns the id of the link's life.
  LinkId BringUp(PeerId peer) {
    Welcome(peer, Greet(peer));
    return AnswerSnapshot();
  }
  // Answers the snapshot that the core asked the engine for.
  LinkId AnswerSnapshot() {
    const LinkId link = effects_.TakeCommands<SnapshotCommand>().at(0).link;
    core_.OnOutput(LinkSnapshot{link, {}});
    (void)effects_.Take<wire::Snapshot>();
    return link;
  }
  void Pass(Duration time) {
    clock_.Advance(time);
    core_.Tick();
  }
  std::uint64_t ResyncCount(ResyncReason reason) { return core_.counts().resyncs[static_cast<std::size_t>(reason)]; }

  ManualClock clock_;
  RecordedEffects effects_;
  LinkCore core_;
};

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

TEST_F(LinkCoreTest, IgnoresAWelcomeToAnotherEpoch) {
  const std::uint64_t epoch = Greet(kPeer);
  Welcome(kPeer, epoch + 1);
  EXPECT_EQ(core_.up_count(), 0U);
  Welcome(kPeer, epoch);
  EXPECT_EQ(core_.up_count(), 1U);
}

// ---- snapshot, sequence, events ----

TEST_F(LinkCoreTest, SendsEventsOnlyAfterTheSnapshot) {
  Welcome(kPeer, Greet(kPeer));
  core_.OnOutput(ReportWith({Stored(1)}));  // is part of the snapshot that the engine takes after it
  const auto before = effects_.Take<wire::Step>();
  ASSERT_EQ(before.size(), 1U);
  EXPECT_TRUE(before[0].events.empty());
  const LinkId link = effects_.TakeCommands<SnapshotCommand>().at(0).link;
  core_.OnOutput(LinkSnapshot{link, {wire::StoredRun{0, {BlockHash{0, 1}}}}});
  core_.OnOutput(ReportWith({Stored(2)}));
  ASSERT_EQ(effects_.sent.size(), 2U);
  const auto& snapshot = std::get<wire::Snapshot>(effects_.sent[0].second);
  EXPECT_TRUE(snapshot.last);
  EXPECT_EQ(snapshot.chunk_index, 0U);
  EXPECT_EQ(snapshot.runs, std::vector<wire::StoredRun>({{0, {BlockHash{0, 1}}}}));
  const auto& step = std::get<wire::Step>(effects_.sent[1].second);
  EXPECT_EQ(step.events, std::vector<wire::CacheEvent>({Stored(2)}));
}

TEST_F(LinkCoreTest, NumbersSnapshotsAndStepsWithoutGaps) {
  Welcome(kPeer, Greet(kPeer));
  core_.OnOutput(ReportWith({}));
  AnswerSnapshot();  // took number 2
  core_.OnOutput(ReportWith({}));
  Pass(milliseconds(250));
  const auto steps = effects_.Take<wire::Step>();
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0].sequence, 3U);
  EXPECT_EQ(steps[1].sequence, 4U);
  EXPECT_EQ(steps[0].epoch, 100U);
}

TEST_F(LinkCoreTest, WantSnapshotIsAnsweredInTheSameEpochAndKeepsRequests) {
  const LinkId link = BringUp(kPeer);
  core_.OnMessage(kPeer, GenerateNumber(7));
  core_.OnMessage(kPeer, wire::WantSnapshot{});
  core_.OnMessage(kPeer, wire::WantSnapshot{});  // one is on its way already
  EXPECT_TRUE(effects_.Take<wire::Hello>().empty());
  const auto asked = effects_.TakeCommands<SnapshotCommand>();
  ASSERT_EQ(asked.size(), 1U);
  core_.OnOutput(LinkSnapshot{link, {}});
  const auto snapshot = effects_.Take<wire::Snapshot>();
  ASSERT_EQ(snapshot.size(), 1U);
  EXPECT_EQ(snapshot[0].epoch, 100U);
  EXPECT_EQ(snapshot[0].sequence, 2U);
  EXPECT_EQ(core_.in_flight_request_count(), 1U);
  EXPECT_EQ(ResyncCount(ResyncReason::kAsked), 1U);
}

TEST_F(LinkCoreTest, LoadIsRepeatedAsHeartbeatWithoutTheStep) {
  BringUp(kPeer);
  core_.OnOutput(ReportWith({Stored(1)}));
  (void)effects_.Take<wire::Step>();
  Pass(milliseconds(249));
  EXPECT_TRUE(effects_.sent.empty());
  Pass(milliseconds(1));
  const auto steps = effects_.Take<wire::Step>();
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].load.cached_block_count, 5U);
  EXPECT_EQ(steps[0].load.step_decode_tokens, 0U);
  EXPECT_EQ(steps[0].load.step_seconds, 0.0);
  EXPECT_TRUE(steps[0].events.empty());
}

TEST_F(LinkCoreTest, TokensGoToTheirOwnRouterAlone) {
  const LinkId first = BringUp(kPeer);
  const LinkId second = BringUp(kOther);
  StepReport report = ReportWith({Stored(9)});
  report.tokens = {TokensOf(first, 1), TokensOf(second, 2)};
  core_.OnOutput(std::move(report));
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
  const LinkId link = BringUp(kPeer);
  core_.OnMessage(kPeer, GenerateNumber(7));
  core_.OnMessage(kPeer, wire::Cancel{RequestId(7)});
  core_.OnMessage(kPeer, wire::Cancel{RequestId(8)});  // unknown
  ASSERT_EQ(effects_.commands.size(), 2U);
  EXPECT_EQ(std::get<SubmitCommand>(effects_.commands[0]).link, link);
  EXPECT_EQ(std::get<CancelCommand>(effects_.commands[1]).key, (RequestKey{link, RequestId(7)}));
  EXPECT_EQ(core_.in_flight_request_count(), 1U);
  StepReport report;
  report.tokens = {TokensOf(link, 7, wire::FinishReason::kCancelled)};
  core_.OnOutput(std::move(report));
  EXPECT_EQ(core_.in_flight_request_count(), 0U);
  EXPECT_EQ(core_.counts().finished_requests[static_cast<std::size_t>(wire::FinishReason::kCancelled)], 1U);
}

TEST_F(LinkCoreTest, ARequestIsInFlightUntilItsLastChoiceEnds) {
  const LinkId link = BringUp(kPeer);
  wire::Generate generate = GenerateNumber(7);
  generate.sample_count = 3;
  core_.OnMessage(kPeer, generate);
  const auto end_choice = [&](std::uint32_t choice, wire::FinishReason reason) {
    StepReport report;
    report.tokens = {TokensOf(link, 7, reason)};
    report.tokens[0].event.choice = choice;
    core_.OnOutput(std::move(report));
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
  const LinkId link = BringUp(kPeer);
  wire::Generate generate = GenerateNumber(7);
  generate.sample_count = 3;
  core_.OnMessage(kPeer, generate);
  StepReport report;
  report.tokens = {TokensOf(link, 7, wire::FinishReason::kError)};
  core_.OnOutput(std::move(report));
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

TEST_F(LinkCoreTest, PinsBeforeTheWelcomeOrWithoutRoomAreDropped) {
  (void)Greet(kPeer);
  core_.OnMessage(kPeer, wire::Pin{{1, 2}, {{3, 4}}, 0});
  BringUp(kOther);
  effects_.inbox_is_full = true;
  core_.OnMessage(kOther, wire::Pin{{1, 2}, {{3, 4}}, 0});
  EXPECT_TRUE(effects_.TakeCommands<PinCommand>().empty());
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

// What every way to a new life must do: end the requests, drop the engine's words about them, greet under a new epoch.
class NewLifeTest : public LinkCoreTest {
 protected:
  void ExpectNewLifeAfter(const std::function<void()>& happening) {
    const LinkId old = BringUp(kPeer);
    core_.OnMessage(kPeer, GenerateNumber(7));
    (void)effects_.TakeCommands<SubmitCommand>();
    happening();
    effects_.outcome = wire::SendOutcome::kSent;
    const auto cancelled = effects_.TakeCommands<CancelLinkCommand>();
    ASSERT_EQ(cancelled.size(), 1U);
    EXPECT_EQ(cancelled[0].link, old);
    EXPECT_EQ(core_.in_flight_request_count(), 0U);
    EXPECT_EQ(core_.up_count(), 0U);
    effects_.sent.clear();
    StepReport late;
    late.tokens = {TokensOf(old, 7)};
    core_.OnOutput(std::move(late));
    core_.OnOutput(LinkSnapshot{old, {}});
    EXPECT_TRUE(effects_.sent.empty());
    Pass(seconds(1));
    const auto hellos = effects_.Take<wire::Hello>();
    ASSERT_EQ(hellos.size(), 1U);
    EXPECT_GT(hellos[0].epoch, 100U);
    Welcome(kPeer, hellos[0].epoch, instance_);
    EXPECT_EQ(core_.up_count(), 1U);
    EXPECT_NE(effects_.TakeCommands<SnapshotCommand>().at(0).link, old);
    core_.OnOutput(ReportWith({}));
    EXPECT_EQ(effects_.Take<wire::Step>().at(0).sequence, 1U);
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
    core_.OnOutput(ReportWith({Stored(1)}));
  });
  EXPECT_EQ(ResyncCount(ResyncReason::kOverflow), 1U);
}

TEST_F(NewLifeTest, RouterSendsAMalformedMessage) {
  ExpectNewLifeAfter([this] { core_.OnMalformed(kPeer); });
  EXPECT_EQ(core_.counts().malformed_messages, 1U);
}

TEST_F(NewLifeTest, ReportsAreLostBetweenEngineAndLink) {
  ExpectNewLifeAfter([this] { core_.OnOutput(OutputLost{}); });
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
  const LinkId link = BringUp(kPeer);
  core_.OnMessage(kPeer, GenerateNumber(7));
  (void)effects_.TakeCommands<SubmitCommand>();
  core_.RemovePeer(kPeer);
  EXPECT_EQ(effects_.TakeCommands<CancelLinkCommand>().at(0).link, link);
  EXPECT_EQ(core_.link_count(), 0U);
  core_.OnMessage(kPeer, wire::Ping{});
  core_.OnOutput(ReportWith({}));
  EXPECT_TRUE(effects_.sent.empty());
}

TEST_F(LinkCoreTest, OneBrokenLinkLeavesTheOtherAlone) {
  BringUp(kPeer);
  BringUp(kOther);
  core_.OnMessage(kPeer, wire::WantHello{});
  EXPECT_EQ(core_.up_count(), 1U);
  core_.OnOutput(ReportWith({Stored(1)}));
  ASSERT_EQ(effects_.sent.size(), 1U);
  EXPECT_EQ(effects_.sent[0].first, kOther);
}

// ---- draining ----

TEST_F(LinkCoreTest, DrainRefusesNewRequestsAndEndsOldOnes) {
  const LinkId link = BringUp(kPeer);
  core_.OnMessage(kPeer, GenerateNumber(7));
  core_.BeginDrain();
  const auto told = effects_.Take<wire::Step>();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_TRUE(told[0].load.draining);
  core_.OnMessage(kPeer, GenerateNumber(8));
  EXPECT_EQ(effects_.Take<wire::Step>().at(0).tokens.at(0).error->code, ErrorCode::kUnavailable);
  StepReport report;
  report.tokens = {TokensOf(link, 7, wire::FinishReason::kStop)};
  core_.OnOutput(std::move(report));
  EXPECT_TRUE(effects_.Take<wire::Step>().at(0).load.draining);
  EXPECT_EQ(core_.in_flight_request_count(), 0U);
  core_.SayBye();
  EXPECT_EQ(effects_.Take<wire::Bye>().at(0).epoch, 100U);
}

// ---- cutting snapshots ----

TEST(CutSnapshotTest, EmptyCacheIsOneEmptyChunk) { EXPECT_EQ(CutSnapshot({}, 10, 10).size(), 1U); }

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

}  // namespace
}  // namespace roost::worker
