// Requests, pins, evictions and questions on their way from a router to the engine, and the answers.
#include <gtest/gtest.h>

#include <utility>
#include <variant>
#include <vector>

#include "tests/worker/link/link_core_fixture.h"

namespace roost::worker {
namespace {

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
  EXPECT_EQ(std::get<OrderCommand>(effects_.commands[0]).order, EngineOrder(pin));
  EXPECT_EQ(std::get<OrderCommand>(effects_.commands[1]).order, EngineOrder(unpin));
}

TEST_F(LinkCoreTest, AnswersGoToTheLinkThatAsked) {
  BringUp(kPeer);
  BringUp(kOther);
  core_.OnMessage(kOther, wire::Pin{{1, 2}, {{3, 4}}, 0, 9});
  const LinkId asked = effects_.TakeCommands<OrderCommand>().at(0).link;
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
  const LinkId asked = effects_.TakeCommands<OrderCommand>().at(0).link;
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
  EXPECT_EQ(effects_.TakeCommands<OrderCommand>().at(0).order, EngineOrder(evict));
  effects_.sent.clear();
  effects_.inbox_is_full = true;
  core_.OnMessage(kPeer, evict);
  const wire::EvictAnswer refused{.answer_id = 9, .outcome = wire::EvictOutcome::kRefused};
  EXPECT_EQ(effects_.Take<wire::EvictAnswer>(), std::vector<wire::EvictAnswer>{refused});
}

TEST_F(LinkCoreTest, HoldsGoToTheEngineAndAreRefusedWithoutRoom) {
  BringUp(kPeer);
  const wire::Hold hold{.answer_id = 9, .root = {1, 2}, .parent = {1, 2}, .hashes = {{3, 4}, {5, 6}}};
  core_.OnMessage(kPeer, hold);
  EXPECT_EQ(effects_.TakeCommands<OrderCommand>().at(0).order, EngineOrder(hold));
  effects_.sent.clear();
  effects_.inbox_is_full = true;
  core_.OnMessage(kPeer, hold);
  const wire::HoldAnswer refused{.answer_id = 9, .missing_block_count = 2, .outcome = wire::HoldOutcome::kRefused};
  EXPECT_EQ(effects_.Take<wire::HoldAnswer>(), std::vector<wire::HoldAnswer>{refused});
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
  EXPECT_TRUE(effects_.TakeCommands<OrderCommand>().empty());
}

TEST_F(LinkWithoutPrefixesTest, NoRouterIsToldWhatAnothersPromptWillLeave) {
  BringUp(kPeer);
  BringUp(kOther);
  wire::Generate generate = GenerateNumber(1);
  generate.block_hashes = {{1, 1}};
  core_.OnMessage(kPeer, std::move(generate));
  Pass(PeerPromptBoard::kNewsInterval);
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
