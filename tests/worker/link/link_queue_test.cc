// The news for each router about the queue that all routers fill.
#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "tests/worker/link/link_core_fixture.h"

namespace roost::worker {
namespace {

using std::chrono::milliseconds;

// Two links; each has sent requests that are still to be computed.
class LinkCoreQueueTest : public LinkCoreTest {
 protected:
  using Others = std::map<PeerId, std::vector<wire::OtherPrompt>>;

  // The last list that was sent to each peer.
  Others TakeOthers() {
    Others others;
    for (const auto& [peer, message] : std::exchange(effects_.sent, {})) {
      if (const auto* step = std::get_if<wire::Step>(&message)) others[peer] = step->load.other_prompts;
    }
    return others;
  }
  Others ReportQueue(std::vector<LinkPrompt> prompts) {
    StepReport report = cache_.Report({});
    report.prompts = std::move(prompts);
    report.submit_count = effects_.submit_count;
    core_.OnOutput(std::move(report));
    return TakeOthers();
  }
  [[nodiscard]] LinkPrompt Queued(LinkId link, std::uint64_t request, std::uint32_t uncached_tokens) const {
    return {{link, RequestId(request)}, submitted_, uncached_tokens};
  }
  // A request with two blocks, whose hashes contain its number.
  LinkId SubmitWithHashes(PeerId peer, std::uint64_t request, wire::CacheMode mode = wire::CacheMode::kOn) {
    wire::Generate generate = GenerateNumber(request);
    generate.block_hashes = HashesOf(request);
    generate.cache_mode = mode;
    core_.OnMessage(peer, std::move(generate));
    return effects_.TakeCommands<SubmitCommand>().at(0).link;
  }
  static std::vector<BlockHash> HashesOf(std::uint64_t request) { return {{request, 1}, {request, 2}}; }

  const Instant submitted_ = clock_.Now();
};

TEST_F(LinkCoreQueueTest, EachRouterIsToldWhatTheOthersHaveQueued) {
  BringUp(kPeer);
  BringUp(kOther);
  const LinkId first = Submit(kPeer, 1);
  const LinkId second = Submit(kOther, 2);
  Submit(kPeer, 3);
  clock_.Advance(milliseconds(30));
  Others others = ReportQueue({Queued(first, 1, 100), Queued(second, 2, 50), Queued(first, 3, 7000)});
  EXPECT_EQ(others[kPeer], (std::vector<wire::OtherPrompt>{{50, 30, 2}}));
  EXPECT_EQ(others[kOther], (std::vector<wire::OtherPrompt>{{100, 30, 1}, {7000, 30, 3}}));
  // They still wait, and a heartbeat says so.
  Pass(milliseconds(250));
  EXPECT_EQ(TakeOthers()[kPeer], (std::vector<wire::OtherPrompt>{{50, 280, 2}}));
  // A new peer is told too.
  core_.AddPeer(PeerId(3), "router");
  core_.Tick();
  Welcome(PeerId(3), effects_.Take<wire::Hello>().at(0).epoch);
  EXPECT_EQ(TakeOthers()[PeerId(3)].size(), 3U);
  for (const auto& [peer, prompts] : ReportQueue({})) EXPECT_TRUE(prompts.empty());
}

TEST_F(LinkCoreQueueTest, ARouterAloneIsToldHowMuchIsLeftOfItsPrompts) {
  BringUp(kPeer);
  const LinkId link = Submit(kPeer, 1);
  Submit(kPeer, 2);
  StepReport report = cache_.Report({});
  report.prompts = {Queued(link, 2, 40), Queued(link, 1, 7000)};
  report.submit_count = effects_.submit_count;
  core_.OnOutput(std::move(report));
  const auto step = effects_.Take<wire::Step>();
  ASSERT_EQ(step.size(), 1U);
  EXPECT_EQ(step[0].load.own_prompts, (std::vector<wire::OwnPrompt>{{RequestId(2), 40}, {RequestId(1), 7000}}));
  EXPECT_TRUE(step[0].load.other_prompts.empty());
}

TEST_F(LinkCoreQueueTest, APromptWhoseLogprobsAreToldInPartIsStillQueued) {
  BringUp(kPeer);
  BringUp(kOther);
  const LinkId link = Submit(kPeer, 1);
  StepReport report = cache_.Report({});
  report.prompts = {Queued(link, 1, 100)};
  report.submit_count = effects_.submit_count;
  RequestEvent& piece = report.tokens.emplace_back(RequestEvent{.link = link, .event = {}});
  piece.event.request_id = RequestId(1);
  piece.event.prompt_logprobs.resize(3);
  core_.OnOutput(std::move(report));
  EXPECT_EQ(TakeOthers()[kOther].size(), 1U);
}

TEST_F(LinkCoreQueueTest, WhatArrivesIsToldBeforeTheEngineReportsIt) {
  BringUp(kPeer);
  BringUp(kOther);
  Pass(milliseconds(100));
  SubmitWithHashes(kPeer, 1);
  EXPECT_EQ(core_.TimeToNextTick(), Duration(0));
  core_.Tick();
  const auto steps = std::exchange(effects_.sent, {});
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].first, kOther);
  const auto& step = std::get<wire::Step>(steps[0].second);
  EXPECT_EQ(step.load.other_prompts, (std::vector<wire::OtherPrompt>{{3, 0, 1, HashesOf(1)}}));
  EXPECT_EQ(step.load.queued_prefill_tokens, 3U);
  EXPECT_EQ(step.load.waiting_requests, 1U);
  EXPECT_TRUE(step.events.empty());
  core_.Tick();
  EXPECT_TRUE(effects_.sent.empty());
}

TEST_F(LinkCoreQueueTest, ABurstIsToldInOneMessage) {
  BringUp(kPeer);
  BringUp(kOther);
  Pass(milliseconds(100));
  Submit(kPeer, 1);
  core_.Tick();
  EXPECT_EQ(TakeOthers()[kOther].size(), 1U);
  for (std::uint64_t request = 2; request <= 5; ++request) {
    Submit(kPeer, request);
    Pass(milliseconds(2));
  }
  EXPECT_TRUE(effects_.sent.empty());
  EXPECT_EQ(core_.TimeToNextTick(), milliseconds(2));
  Pass(milliseconds(2));
  ASSERT_EQ(effects_.sent.size(), 1U);
  EXPECT_EQ(TakeOthers()[kOther].size(), 5U);
}

TEST_F(LinkCoreQueueTest, WhatIsComputedWithinAStepIsToldNoMore) {
  BringUp(kPeer);
  BringUp(kOther);
  const LinkId link = Submit(kPeer, 1);
  Submit(kPeer, 2);
  Report({}, {TokensOf(link, 1)});
  const auto others = TakeOthers()[kOther];
  ASSERT_EQ(others.size(), 1U);
  EXPECT_EQ(others[0].id, 2U);
  // Also to a link that is served before the link of that request.
  const LinkId second = Submit(kOther, 3);
  Report({}, {TokensOf(second, 3)});
  EXPECT_TRUE(TakeOthers()[kPeer].empty());
}

TEST_F(LinkCoreQueueTest, WhatHasArrivedGoesWithItsLink) {
  BringUp(kPeer);
  BringUp(kOther);
  Submit(kPeer, 1);
  core_.OnMessage(kPeer, wire::WantHello{});
  Pass(milliseconds(250));
  EXPECT_TRUE(TakeOthers()[kOther].empty());
}

TEST_F(LinkCoreQueueTest, HashesAreToldOnceInEachLifeOfALink) {
  BringUp(kPeer);
  BringUp(kOther);
  const LinkId link = SubmitWithHashes(kPeer, 1);
  Others others = ReportQueue({Queued(link, 1, 100)});
  EXPECT_TRUE(others[kPeer].empty());
  EXPECT_EQ(others[kOther], (std::vector<wire::OtherPrompt>{{100, 0, 1, HashesOf(1)}}));
  others = ReportQueue({Queued(link, 1, 60)});
  EXPECT_EQ(others[kOther], (std::vector<wire::OtherPrompt>{{60, 0, 1}}));

  core_.OnMessage(kOther, wire::WantHello{});
  core_.Tick();
  Welcome(kOther, effects_.Take<wire::Hello>().at(0).epoch);
  EXPECT_EQ(TakeOthers()[kOther], (std::vector<wire::OtherPrompt>{{60, 0, 1, HashesOf(1)}}));
}

TEST_F(LinkCoreQueueTest, PromptsThatLeaveNoBlocksHaveNoHashes) {
  BringUp(kPeer);
  BringUp(kOther);
  const LinkId link = SubmitWithHashes(kPeer, 1, wire::CacheMode::kOff);
  EXPECT_EQ(ReportQueue({Queued(link, 1, 100)})[kOther], (std::vector<wire::OtherPrompt>{{100, 0, 1}}));
}

TEST_F(LinkCoreQueueTest, PromptsOfALinkThatIsGoneHaveNoName) {
  BringUp(kPeer);
  BringUp(kOther);
  const LinkId link = SubmitWithHashes(kPeer, 1);
  EXPECT_EQ(ReportQueue({Queued(link, 1, 100)})[kOther].at(0).hashes, HashesOf(1));
  core_.OnMalformed(kPeer);
  // The engine does not know of it yet.
  EXPECT_EQ(ReportQueue({Queued(link, 1, 100)})[kOther], (std::vector<wire::OtherPrompt>{{100, 0, 0}}));
}

TEST_F(LinkCoreQueueTest, RoutersMayUseTheSameNumbers) {
  BringUp(kPeer);
  BringUp(kOther);
  BringUp(PeerId(3));
  const LinkId first = SubmitWithHashes(kPeer, 5);
  const LinkId second = SubmitWithHashes(kOther, 5);
  const auto told = ReportQueue({Queued(first, 5, 100), Queued(second, 5, 100)})[PeerId(3)];
  ASSERT_EQ(told.size(), 2U);
  EXPECT_NE(told[0].id, told[1].id);
  EXPECT_EQ(told[1].hashes, HashesOf(5));
}

// A report lists only the front of the queue, but its load counts all of it.
TEST_F(LinkCoreQueueTest, WhatTheEngineHasIsNotCountedAgainIfItsReportDoesNotListIt) {
  BringUp(kPeer);
  BringUp(kOther);
  const LinkId link = Submit(kPeer, 1);
  Submit(kPeer, 2);
  StepReport report = cache_.Report({});
  report.load.queued_prefill_tokens = 6;
  report.load.waiting_requests = 2;
  report.prompts = {Queued(link, 1, 3)};
  report.submit_count = 2;
  std::exchange(effects_.sent, {});
  core_.OnOutput(std::move(report));
  for (const auto& step : effects_.Take<wire::Step>()) {
    EXPECT_EQ(step.load.queued_prefill_tokens, 6U);
    EXPECT_EQ(step.load.waiting_requests, 2U);
  }
}

TEST_F(LinkCoreQueueTest, ALinkAloneIsToldNothing) {
  BringUp(kPeer);
  const LinkId link = SubmitWithHashes(kPeer, 1);
  EXPECT_TRUE(ReportQueue({Queued(link, 1, 100)})[kPeer].empty());
}

}  // namespace
}  // namespace roost::worker
