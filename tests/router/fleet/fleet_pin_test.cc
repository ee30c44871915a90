// Pins on their way to the workers, and their results.
#include <gtest/gtest.h>

#include "tests/router/fleet/fleet_sim.h"

namespace roost::router {
namespace {

using namespace std::chrono_literals;

class FleetCorePinTest : public ::testing::Test {
 protected:
  PinOrder OrderOf(const std::vector<TokenId>& prompt, WorkerChoice workers = {}) {
    return {sim_.core.models()->Main("demo"), wire::Pin{RootHash({}), BlocksOf(prompt), 1000}, std::move(workers)};
  }
  Result<void> Pin(PinOrder order) {
    const std::vector<WorkerMatch> matches = sim_.Match(HashesOf(order));
    Result<void> sent = sim_.core.Send(std::move(order), matches, sim_.clock.Now(),
                                       [this](std::vector<WorkerAnswer> answers) { Take(std::move(answers)); });
    sim_.DeliverAll();
    return sent;
  }
  void Take(std::vector<WorkerAnswer> answers) {
    ++done_count_;
    answers_ = std::move(answers);
  }
  std::vector<std::string> Answering() const {
    std::vector<std::string> names;
    for (const WorkerAnswer& answer : answers_) names.push_back(answer.worker_id);
    return names;
  }
  const wire::PinAnswer& AnswerOf(std::size_t index) const { return std::get<wire::PinAnswer>(answers_[index].reply); }
  bool IsSilent(std::size_t index) const { return std::holds_alternative<std::monostate>(answers_[index].reply); }

  FleetSim sim_;
  FakeWorker& a_ = sim_.JoinWorker("a");
  FakeWorker& b_ = sim_.JoinWorker("b");
  std::vector<WorkerAnswer> answers_;
  int done_count_ = 0;
};

TEST_F(FleetCorePinTest, ReachesAllWorkersOfTheModelAndTellsWhatTheyKept) {
  const auto prompt = MakePrompt(1, 40);
  const FleetSim::Request request = sim_.Submit(prompt, 4);
  sim_.Run();
  ASSERT_TRUE(Pin(OrderOf(prompt)).ok());
  EXPECT_EQ(Answering(), (std::vector<std::string>{"a", "b"}));
  const bool a_holds = request.observer->workers.front() == "a";
  EXPECT_EQ(AnswerOf(a_holds ? 0 : 1).kept_block_count, 10U);
  EXPECT_EQ(AnswerOf(a_holds ? 0 : 1).awaited_block_count, 0U);
  EXPECT_EQ(AnswerOf(a_holds ? 1 : 0).kept_block_count, 0U);
  EXPECT_EQ(AnswerOf(a_holds ? 1 : 0).awaited_block_count, 10U);
  for (const FakeWorker* worker : {&a_, &b_}) {
    ASSERT_EQ(worker->pins().size(), 1U);
    EXPECT_NE(worker->pins().front().answer_id, 0U);
    EXPECT_EQ(worker->pins().front().hashes, BlocksOf(prompt));
    EXPECT_EQ(worker->pins().front().duration_ms, 1000U);
  }
}

TEST_F(FleetCorePinTest, AWorkerThatTakesTooLongHasNoAnswer) {
  b_.SetMute(true);
  ASSERT_TRUE(Pin(OrderOf(MakePrompt(1, 40))).ok());
  sim_.Advance(Orders::kAnswerPatience - 200ms);
  EXPECT_EQ(done_count_, 0);
  sim_.Advance(400ms);
  ASSERT_EQ(done_count_, 1);
  EXPECT_EQ(AnswerOf(0).awaited_block_count, 10U);
  EXPECT_TRUE(IsSilent(1));
  sim_.Advance(3s);
  EXPECT_EQ(done_count_, 1);
}

TEST_F(FleetCorePinTest, NobodyWaitsForAWorkerThatDoesNotKnowOfAnswers) {
  FakeWorker& old = sim_.AddWorker("old");
  old.hello().features.erase(wire::Feature::kAnswers);
  old.SetMute(true);
  old.SayHello();
  sim_.DeliverAll();
  ASSERT_TRUE(Pin(OrderOf(MakePrompt(1, 40))).ok());
  ASSERT_EQ(done_count_, 1);
  EXPECT_EQ(Answering(), (std::vector<std::string>{"a", "b", "old"}));
  EXPECT_TRUE(IsSilent(2));
  EXPECT_EQ(old.pins().size(), 1U);
}

TEST_F(FleetCorePinTest, NobodyWaitsForAWorkerThatIsLost) {
  b_.SetMute(true);
  ASSERT_TRUE(Pin(OrderOf(MakePrompt(1, 40))).ok());
  b_.SayBye();
  sim_.DeliverAll();
  ASSERT_EQ(done_count_, 1);
  EXPECT_TRUE(IsSilent(1));
}

TEST_F(FleetCorePinTest, AnAnswerThatNobodyAskedForIsIgnored) {
  a_.outbox().emplace_back(wire::PinAnswer{7, 1, 0, 0});
  b_.SetMute(true);
  ASSERT_TRUE(Pin(OrderOf(MakePrompt(1, 40))).ok());
  a_.outbox().emplace_back(wire::PinAnswer{a_.pins().front().answer_id, 99, 0, 0});  // a second one
  sim_.DeliverAll();
  EXPECT_EQ(done_count_, 0);
  sim_.Advance(3s);
  EXPECT_EQ(AnswerOf(0).kept_block_count, 0U);
}

TEST_F(FleetCorePinTest, OpenQuestionsAreBounded) {
  a_.SetMute(true);
  for (std::size_t i = 0; i < Orders::kMaxOpen; ++i) ASSERT_TRUE(Pin(OrderOf(MakePrompt(1, 40))).ok());
  EXPECT_EQ(Pin(OrderOf(MakePrompt(1, 40))).error().code, ErrorCode::kOverloaded);
  sim_.Advance(3s);
  EXPECT_EQ(done_count_, static_cast<int>(Orders::kMaxOpen));
  EXPECT_TRUE(Pin(OrderOf(MakePrompt(1, 40))).ok());
}

TEST_F(FleetCorePinTest, WhoStopsEndsWhatIsOpen) {
  a_.SetMute(true);
  ASSERT_TRUE(Pin(OrderOf(MakePrompt(1, 40))).ok());
  sim_.core.Shutdown();
  sim_.CarryOutEffects();
  EXPECT_EQ(done_count_, 1);
}

TEST_F(FleetCorePinTest, OfTheBestWorkerGoesToTheOneThatHoldsThePrefix) {
  const auto prompt = MakePrompt(1, 40);
  const FleetSim::Request request = sim_.Submit(prompt, 4);
  sim_.Run();
  ASSERT_TRUE(Pin(OrderOf(prompt, {PinTarget::kBestWorker})).ok());
  EXPECT_EQ(Answering(), std::vector<std::string>{request.observer->workers.front()});
  EXPECT_EQ(a_.pins().size() + b_.pins().size(), 1U);
}

TEST_F(FleetCorePinTest, OfNamedWorkersGoesToThese) {
  ASSERT_TRUE(Pin(OrderOf(MakePrompt(1, 40), {PinTarget::kNamedWorkers, {"b"}})).ok());
  EXPECT_EQ(Answering(), std::vector<std::string>{"b"});
  EXPECT_TRUE(a_.pins().empty());
  const Result<void> unknown = Pin(OrderOf(MakePrompt(1, 40), {PinTarget::kNamedWorkers, {"b", "c"}}));
  EXPECT_EQ(unknown.error().field, "workers");
  EXPECT_EQ(b_.pins().size(), 1U);
}

TEST_F(FleetCorePinTest, UnpinGoesTheSameWay) {
  PinOrder order = OrderOf(MakePrompt(1, 40));
  order.message = wire::Unpin{RootHash({}), BlocksOf(MakePrompt(1, 40))};
  EXPECT_TRUE(Pin(std::move(order)).ok());
  EXPECT_EQ(a_.unpins().size(), 1U);
  EXPECT_EQ(b_.unpins().size(), 1U);
  EXPECT_TRUE(a_.pins().empty());
  EXPECT_EQ(done_count_, 1);
}

TEST_F(FleetCorePinTest, WithoutAWorkerIsUnavailable) {
  PinOrder order = OrderOf(MakePrompt(1, 40));
  sim_.Kill(a_);
  sim_.Kill(b_);
  sim_.Advance(3s);
  EXPECT_EQ(Pin(std::move(order)).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(done_count_, 0);
}

TEST_F(FleetCorePinTest, ABlockIsPinnedOnlyWhereSomeWorkerHasIt) {
  const auto prompt = MakePrompt(1, 40);
  PinOrder order = OrderOf(prompt);
  order.message = wire::Pin{{}, {BlocksOf(prompt).at(2)}, 1000};
  order.what = PinOrder::What::kBlock;
  const Error unknown = Pin(order).error();
  EXPECT_EQ(unknown.code, ErrorCode::kNotFound);
  EXPECT_EQ(unknown.field, "hash");
  PinOrder unpin = order;
  unpin.message = wire::Unpin{{}, {BlocksOf(prompt).at(2)}};
  EXPECT_TRUE(Pin(unpin).ok()) << "a block that no worker has any more can be unpinned all the same";
  sim_.Submit(prompt, 4);
  sim_.Run();
  EXPECT_TRUE(Pin(order).ok());
  EXPECT_EQ(done_count_, 2);
}

}  // namespace
}  // namespace roost::router
