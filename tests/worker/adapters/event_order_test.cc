#include "worker/adapters/events/event_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/base/clock.h"

namespace roost::worker::adapters {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Duration kPatience = std::chrono::seconds(5);

class EventOrderTest : public testing::Test {
 protected:
  void Begin(EventOrder::Replay replay, std::size_t max_waiting_bytes = 10'000) {
    order_.emplace(EventOrder::Options{.replay = replay, .patience = kPatience, .max_waiting_bytes = max_waiting_bytes},
                   clock_.Now());
  }
  // With a replay that brought messages 0 to count - 1.
  void BeginWith(std::uint64_t count) {
    Begin(EventOrder::Replay::kCanAsk);
    for (std::uint64_t i = 0; i < count; ++i) Replayed(i);
    End();
    Steps();
  }
  void Live(std::uint64_t number) { Live(number, Text(number)); }
  void Live(std::uint64_t number, std::string payload) { order_->TakeLive(number, std::move(payload), clock_.Now()); }
  void Replayed(std::uint64_t number) { order_->TakeReplayed(number, Text(number), clock_.Now()); }
  void End() { order_->TakeReplayEnd(clock_.Now()); }
  void Pass(Duration time) {
    clock_.Advance(time);
    order_->Tick(clock_.Now());
  }
  static std::string Text(std::uint64_t number) { return "life 1: " + std::to_string(number); }

  // The steps since the last call, in words.
  std::vector<std::string> Steps() {
    std::vector<std::string> words;
    while (const auto step = order_->Next()) {
      if (const auto* apply = std::get_if<EventOrder::Apply>(&*step)) {
        words.push_back(apply->payload.starts_with("life 1: ") ? apply->payload.substr(8) : apply->payload);
      } else if (const auto* ask = std::get_if<EventOrder::AskReplay>(&*step)) {
        words.push_back("ask " + std::to_string(ask->first));
      } else {
        words.emplace_back(std::holds_alternative<EventOrder::EndReplay>(*step) ? "end" : "nothing");
      }
    }
    return words;
  }

  ManualClock clock_;
  std::optional<EventOrder> order_;
};

TEST_F(EventOrderTest, BeginsWithAReplayOfEverything) {
  Begin(EventOrder::Replay::kCanAsk);
  EXPECT_THAT(Steps(), ElementsAre("ask 0"));
  Live(2);
  EXPECT_THAT(Steps(), IsEmpty()) << "it waits";
  EXPECT_FALSE(order_->exact());
  Replayed(0);
  Replayed(1);
  EXPECT_THAT(Steps(), ElementsAre("0", "1"));
  End();
  EXPECT_THAT(Steps(), ElementsAre("end", "2"));
  EXPECT_TRUE(order_->exact());
  EXPECT_EQ(order_->counts(), (EventOrder::Counts{.replays = 1}));
}

TEST_F(EventOrderTest, AnEngineThatHasSentNothingIsKnownExactly) {
  BeginWith(0);
  EXPECT_TRUE(order_->exact());
  Live(0);
  Live(1);
  EXPECT_THAT(Steps(), ElementsAre("0", "1"));
  EXPECT_TRUE(order_->exact());
}

TEST_F(EventOrderTest, ALiveMessageThatTheReplayBroughtIsNotAppliedAgain) {
  BeginWith(3);
  Live(1);
  Live(2);
  Live(3);
  EXPECT_THAT(Steps(), ElementsAre("3"));
  EXPECT_EQ(order_->counts().restarts, 0U);
}

TEST_F(EventOrderTest, AGapIsAskedFor) {
  BeginWith(2);
  Live(2);
  Live(5);
  Live(6);
  EXPECT_THAT(Steps(), ElementsAre("2", "ask 3"));
  for (std::uint64_t i = 3; i <= 5; ++i) Replayed(i);
  End();
  EXPECT_THAT(Steps(), ElementsAre("3", "4", "5", "end", "6"));
  EXPECT_TRUE(order_->exact());
  EXPECT_EQ(order_->counts(), (EventOrder::Counts{.gaps = 1, .replays = 2}));
}

TEST_F(EventOrderTest, StartsFromNothingWhereTheBufferBeginsLater) {
  BeginWith(2);
  Live(9);
  Steps();
  Replayed(7);
  Replayed(8);
  End();
  EXPECT_THAT(Steps(), ElementsAre("nothing", "7", "8", "end", "9"));
  EXPECT_FALSE(order_->exact());
  EXPECT_EQ(order_->counts(), (EventOrder::Counts{.gaps = 1, .replays = 2, .replay_failures = 1, .lost = 5}));
}

TEST_F(EventOrderTest, ALateStartIsPartialUntilTheEngineClears) {
  Begin(EventOrder::Replay::kCanAsk);
  Replayed(400);
  End();
  EXPECT_THAT(Steps(), ElementsAre("ask 0", "nothing", "400", "end"));
  EXPECT_FALSE(order_->exact());
  order_->OnCleared();
  EXPECT_TRUE(order_->exact());
  Live(402);
  Steps();
  End();
  EXPECT_THAT(Steps(), ElementsAre("end", "nothing", "402"));
  EXPECT_FALSE(order_->exact());
}

TEST_F(EventOrderTest, ALostEndMarkerIsAskedForAgain) {
  BeginWith(2);
  Live(9);
  Steps();
  Replayed(2);
  Replayed(3);
  Pass(kPatience / 2);
  EXPECT_THAT(Steps(), ElementsAre("2", "3"));
  Replayed(4);
  Pass(kPatience / 2);
  EXPECT_THAT(Steps(), ElementsAre("4")) << "the engine was heard";
  Pass(kPatience / 2);
  EXPECT_THAT(Steps(), ElementsAre("ask 5"));
  for (std::uint64_t i = 5; i <= 9; ++i) Replayed(i);
  End();
  EXPECT_THAT(Steps(), ElementsAre("5", "6", "7", "8", "9", "end"));
  EXPECT_TRUE(order_->exact());
}

TEST_F(EventOrderTest, AnswersThatAreLostInTheMiddleAreAskedForAgain) {
  BeginWith(2);
  Live(9);
  Steps();
  Replayed(2);
  Replayed(6);
  EXPECT_THAT(Steps(), ElementsAre("2", "ask 3"));
  for (std::uint64_t i = 3; i <= 8; ++i) Replayed(i);
  End();
  EXPECT_TRUE(order_->exact());
  EXPECT_EQ(order_->counts().lost, 0U);
}

TEST_F(EventOrderTest, GivesUpOnAReplayThatBringsNothing) {
  BeginWith(2);
  Live(5);
  Live(6);
  Steps();
  EXPECT_EQ(order_->deadline(), clock_.Now() + kPatience);
  Pass(kPatience);
  EXPECT_THAT(Steps(), ElementsAre("end", "nothing", "5", "6"));
  EXPECT_FALSE(order_->exact());
  EXPECT_EQ(order_->deadline(), std::nullopt);
  EXPECT_EQ(order_->counts(), (EventOrder::Counts{.gaps = 1, .replays = 2, .replay_failures = 1, .lost = 3}));
}

TEST_F(EventOrderTest, AnEngineThatStartsLaterIsKnownExactly) {
  Begin(EventOrder::Replay::kCanAsk);
  Pass(kPatience);
  EXPECT_THAT(Steps(), ElementsAre("ask 0", "end"));
  EXPECT_FALSE(order_->exact());
  Live(0);
  EXPECT_THAT(Steps(), ElementsAre("0"));
  EXPECT_TRUE(order_->exact());
}

TEST_F(EventOrderTest, ANumberThatFallsIsANewLife) {
  BeginWith(0);
  Live(0);
  Live(1);
  Steps();
  Live(0, "new 0");
  Live(1, "new 1");
  EXPECT_THAT(Steps(), ElementsAre("nothing", "new 0", "new 1"));
  EXPECT_TRUE(order_->exact());
  EXPECT_EQ(order_->counts(), (EventOrder::Counts{.replays = 1, .restarts = 1}));
}

TEST_F(EventOrderTest, TheFirstMessagesOfANewLifeAreAskedFor) {
  BeginWith(0);
  for (std::uint64_t i = 0; i < 5; ++i) Live(i);
  Steps();
  Live(2, "new 2");
  EXPECT_THAT(Steps(), ElementsAre("nothing", "ask 0"));
  EXPECT_FALSE(order_->exact());
  for (std::uint64_t i = 0; i <= 2; ++i) order_->TakeReplayed(i, "new " + std::to_string(i), clock_.Now());
  End();
  EXPECT_THAT(Steps(), ElementsAre("new 0", "new 1", "new 2", "end"));
  EXPECT_TRUE(order_->exact());
}

TEST_F(EventOrderTest, ANewLifeDuringAReplayEndsIt) {
  BeginWith(2);
  Live(5);
  Steps();
  Live(0, "new 0");
  EXPECT_THAT(Steps(), ElementsAre("end", "nothing", "new 0"));
  Replayed(2);
  End();
  EXPECT_THAT(Steps(), IsEmpty()) << "nobody asks any more";
}

TEST_F(EventOrderTest, ANewLifeIsSeenBehindMessagesThatOnlyAReplayBrought) {
  // No live message came before, so that none falls; but it differs from the replayed one of its number.
  BeginWith(3);
  Live(0, "new 0");
  Live(1, "new 1");
  EXPECT_THAT(Steps(), ElementsAre("nothing", "new 0", "new 1"));
  EXPECT_EQ(order_->counts().restarts, 1U);
}

TEST_F(EventOrderTest, ARestartThatTheNumbersHide) {
  BeginWith(0);
  for (std::uint64_t i = 0; i < 3; ++i) Live(i);
  Steps();
  order_->OnEngineRestart(clock_.Now());
  EXPECT_THAT(Steps(), ElementsAre("nothing", "ask 0"));
  Live(5, "new 5");
  for (std::uint64_t i = 0; i <= 4; ++i) order_->TakeReplayed(i, "new " + std::to_string(i), clock_.Now());
  End();
  EXPECT_THAT(Steps(), ElementsAre("new 0", "new 1", "new 2", "new 3", "new 4", "end", "new 5"));
  EXPECT_TRUE(order_->exact());
}

TEST_F(EventOrderTest, WhatDoesNotFitWhileItWaitsIsAskedFor) {
  Begin(EventOrder::Replay::kCanAsk, 200);  // two messages
  for (std::uint64_t i = 1; i <= 5; ++i) Live(i);
  Replayed(0);
  End();
  EXPECT_THAT(Steps(), ElementsAre("ask 0", "0", "end", "1", "2", "ask 3"));
  for (std::uint64_t i = 3; i <= 5; ++i) Replayed(i);
  End();
  EXPECT_THAT(Steps(), ElementsAre("3", "4", "5", "end"));
  EXPECT_TRUE(order_->exact());
}

TEST_F(EventOrderTest, WithoutAReplayAGapStartsFromNothing) {
  Begin(EventOrder::Replay::kNone);
  Live(0);
  Live(1);
  EXPECT_TRUE(Steps() == std::vector<std::string>({"0", "1"}) && order_->exact());
  Live(4);
  EXPECT_THAT(Steps(), ElementsAre("nothing", "4"));
  EXPECT_FALSE(order_->exact());
  EXPECT_EQ(order_->counts(), (EventOrder::Counts{.gaps = 1, .lost = 2}));
  Live(0, "new 0");
  EXPECT_THAT(Steps(), ElementsAre("nothing", "new 0"));
  EXPECT_TRUE(order_->exact());
}

TEST_F(EventOrderTest, NewsOfExactnessHoldOnceTheStepIsTaken) {
  BeginWith(1);
  Live(1);
  Live(9);
  End();
  EXPECT_TRUE(order_->exact());
  ASSERT_TRUE(std::holds_alternative<EventOrder::Apply>(*order_->Next()));
  order_->OnCleared();  // said of message 1, before what is lost
  Steps();
  EXPECT_FALSE(order_->exact());
}

}  // namespace
}  // namespace roost::worker::adapters
