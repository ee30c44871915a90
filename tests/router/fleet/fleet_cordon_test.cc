// Workers that an operator takes out of service, and puts back.
#include <gtest/gtest.h>

#include "tests/router/fleet/fleet_sim.h"

namespace roost::router {
namespace {

using namespace std::chrono_literals;
using Request = FleetSim::Request;

class FleetCordonTest : public ::testing::Test {
 protected:
  Result<void> Order(Service service, const std::string& worker, Duration patience = {}) {
    reply_.reset();
    Result<void> sent = sim_.core.Send(CordonOrder{worker, service, patience}, {}, sim_.clock.Now(),
                                       [this](std::vector<WorkerAnswer> answers) {
                                         ASSERT_EQ(answers.size(), 1U);
                                         reply_ = std::move(answers[0].reply);
                                       });
    sim_.DeliverAll();
    return sent;
  }
  Result<void> Cordon(const std::string& worker) { return Order(Service::kCordoned, worker); }
  Result<void> Drain(const std::string& worker, Duration patience) {
    return Order(Service::kCordoned, worker, patience);
  }
  Result<void> Uncordon(const std::string& worker) { return Order(Service::kOpen, worker); }

  // The state that the worker answered with; none while the order is open.
  std::optional<ServiceState> State() const {
    if (!reply_ || !std::holds_alternative<ServiceState>(*reply_)) return std::nullopt;
    return std::get<ServiceState>(*reply_);
  }
  WorkerState ShownState(const std::string& worker) { return sim_.StatusOf(worker)->state; }

  FleetSim sim_;
  FakeWorker& a_ = sim_.JoinWorker("a");
  FakeWorker& b_ = sim_.JoinWorker("b");
  std::optional<WorkerReply> reply_;
};

TEST_F(FleetCordonTest, ACordonedWorkerGetsNoRequestsAndKeepsItsBlocks) {
  const auto prompt = MakePrompt(1, 40);
  sim_.Submit(prompt, 4);
  sim_.Run();
  FakeWorker& holder = a_.received().empty() ? b_ : a_;
  FakeWorker& other = a_.received().empty() ? a_ : b_;
  ASSERT_TRUE(Cordon(holder.id()).ok());
  ASSERT_TRUE(State().has_value());
  EXPECT_TRUE(State()->is_cordoned);
  EXPECT_EQ(ShownState(holder.id()), WorkerState::kCordoned);
  EXPECT_EQ(ShownState(other.id()), WorkerState::kReady);

  for (TokenId seed = 1; seed < 9; ++seed) {
    const Request request = sim_.Submit(MakePrompt(seed, 40), 4);
    sim_.Run();
    EXPECT_EQ(request.observer->workers, std::vector<std::string>{other.id()});
  }
  EXPECT_EQ(holder.received().size(), 1U);
  EXPECT_GT(holder.block_count(), 0U);
  EXPECT_TRUE(sim_.ViewIsExact(holder));

  ASSERT_TRUE(Uncordon(holder.id()).ok());
  EXPECT_EQ(State(), ServiceState{});
  sim_.Submit(prompt, 4);
  sim_.Run();
  EXPECT_EQ(ShownState(holder.id()), WorkerState::kReady);
}

TEST_F(FleetCordonTest, RequestsThatRunThereEnd) {
  const Request request = sim_.Submit(MakePrompt(1, 40), 30);
  sim_.CarryOutEffects();
  FakeWorker& holder = a_.received().empty() ? b_ : a_;
  ASSERT_TRUE(Cordon(holder.id()).ok());
  EXPECT_EQ(State()->running_requests, 1U);
  EXPECT_EQ(State()->in_flight_requests, 1U);
  sim_.Run();
  EXPECT_EQ(request.observer->workers.size(), 1U);
  EXPECT_EQ(request.observer->tokens, ExpectedOutput(request.prompt, 30));
}

TEST_F(FleetCordonTest, ADrainIsAnsweredWhenTheLastRequestHasEnded) {
  const Request request = sim_.Submit(MakePrompt(1, 40), 30);
  sim_.CarryOutEffects();
  FakeWorker& holder = a_.received().empty() ? b_ : a_;
  ASSERT_TRUE(Drain(holder.id(), 60s).ok());
  sim_.Advance(1s);
  EXPECT_FALSE(reply_.has_value());
  sim_.Run();
  ASSERT_TRUE(request.observer->end.has_value());
  sim_.Advance(1s);
  ASSERT_TRUE(State().has_value());
  EXPECT_TRUE(State()->IsIdle());
}

TEST_F(FleetCordonTest, ADrainWithoutPatienceLeftTellsWhatStillRuns) {
  sim_.Submit(MakePrompt(1, 40), 30);
  sim_.CarryOutEffects();
  FakeWorker& holder = a_.received().empty() ? b_ : a_;
  holder.SetWaiting(2);  // of another router
  ASSERT_TRUE(Drain(holder.id(), 3s).ok());
  sim_.Advance(2900ms);
  EXPECT_FALSE(reply_.has_value());
  sim_.Advance(300ms);
  ASSERT_TRUE(State().has_value());
  EXPECT_FALSE(State()->IsIdle());
  EXPECT_EQ(State()->waiting_requests, 2U);
  EXPECT_EQ(ShownState(holder.id()), WorkerState::kCordoned);
}

TEST_F(FleetCordonTest, ARouterLearnsFromTheWorkersReportsWhatAnotherOneOrdered) {
  a_.Receive(wire::Cordon{});
  sim_.DeliverAll();
  EXPECT_EQ(ShownState("a"), WorkerState::kCordoned);
  const Request request = sim_.Submit(MakePrompt(1, 40), 4);
  EXPECT_EQ(request.observer->workers.size() + b_.received().size(), 0U);
  sim_.Run();
  EXPECT_EQ(request.observer->workers, std::vector<std::string>{"b"});
}

TEST_F(FleetCordonTest, ItHoldsAfterTheLinkBeganAgainAndEndsWithTheProcess) {
  ASSERT_TRUE(Cordon("a").ok());
  a_.Receive(wire::WantHello{});
  sim_.DeliverAll();
  a_.Heartbeat();
  sim_.DeliverAll();
  EXPECT_EQ(ShownState("a"), WorkerState::kCordoned);
  sim_.Kill(a_);
  sim_.Advance(3s);
  sim_.Revive(a_);
  sim_.Advance(1s);
  EXPECT_EQ(ShownState("a"), WorkerState::kReady);
}

TEST_F(FleetCordonTest, ARequestThatCrossesTheOrderOnTheLinkGoesToAnotherWorker) {
  a_.Receive(wire::Cordon{});  // another router's order; this router does not know yet
  a_.outbox().clear();
  b_.SetFull(true);
  const Request request = sim_.Submit(MakePrompt(1, 40), 4);
  sim_.CarryOutEffects();
  b_.SetFull(false);
  sim_.Run();
  EXPECT_EQ(request.observer->tokens, ExpectedOutput(request.prompt, 4));
  EXPECT_EQ(request.observer->workers.back(), "b");
}

TEST_F(FleetCordonTest, AnUnknownWorkerIsAnError) {
  const Result<void> sent = Cordon("nobody");
  ASSERT_FALSE(sent.ok());
  EXPECT_EQ(sent.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(sent.error().field, "worker");
}

TEST_F(FleetCordonTest, AnOlderWorkerIsNotAsked) {
  FakeWorker& older = sim_.AddWorker("older");
  older.hello().features.erase(wire::Feature::kCordons);
  older.SayHello();
  sim_.DeliverAll();
  ASSERT_TRUE(Cordon("older").ok());
  EXPECT_TRUE(reply_ && std::holds_alternative<NotSupported>(*reply_));
  EXPECT_EQ(older.cordon_count(), 0);
  EXPECT_EQ(ShownState("older"), WorkerState::kReady);
}

TEST_F(FleetCordonTest, NoAnswerOfAWorkerThatIsSilentOrLost) {
  a_.SetMute(true);
  ASSERT_TRUE(Cordon("a").ok());
  sim_.Advance(1900ms);
  EXPECT_FALSE(reply_.has_value());
  sim_.Advance(200ms);
  EXPECT_TRUE(reply_ && std::holds_alternative<std::monostate>(*reply_));

  sim_.Submit(MakePrompt(1, 40), 30);
  ASSERT_TRUE(Drain("b", 60s).ok());
  sim_.Kill(b_);
  sim_.Advance(4s);
  EXPECT_TRUE(reply_ && std::holds_alternative<std::monostate>(*reply_));
}

TEST_F(FleetCordonTest, ManyOpenOrdersAreRefusedAndAllEndWithTheRouter) {
  a_.SetMute(true);
  int done = 0;
  const auto order = [&] {
    return sim_.core.Send(CordonOrder{"a"}, {}, sim_.clock.Now(), [&](const std::vector<WorkerAnswer>&) { ++done; });
  };
  for (std::size_t i = 0; i < Orders::kMaxOpen; ++i) ASSERT_TRUE(order().ok());
  const Result<void> more = order();
  ASSERT_FALSE(more.ok());
  EXPECT_EQ(more.error().code, ErrorCode::kOverloaded);
  sim_.core.Shutdown();
  sim_.CarryOutEffects();
  EXPECT_EQ(done, static_cast<int>(Orders::kMaxOpen));
}

}  // namespace
}  // namespace roost::router
