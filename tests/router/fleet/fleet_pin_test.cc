// Pins on their way to the workers.
#include <gtest/gtest.h>

#include "tests/router/fleet/fleet_sim.h"

namespace roost::router {
namespace {

using namespace std::chrono_literals;

class FleetCorePinTest : public ::testing::Test {
 protected:
  PinOrder OrderOf(const std::vector<TokenId>& prompt, PinTarget target) {
    return {sim_.core.FindModel("demo"), wire::Pin{RootHash({}), BlocksOf(prompt), 1000}, target};
  }
  Result<std::vector<std::string>> Pin(PinOrder order) {
    const std::vector<WorkerMatch> matches = sim_.Match(HashesOf(order));
    auto names = sim_.core.Pin(std::move(order), matches);
    sim_.DeliverAll();
    return names;
  }

  FleetSim sim_;
  FakeWorker& a_ = sim_.JoinWorker("a");
  FakeWorker& b_ = sim_.JoinWorker("b");
};

TEST_F(FleetCorePinTest, ReachesAllWorkersOfTheModel) {
  const auto prompt = MakePrompt(1, 40);
  EXPECT_EQ(Pin(OrderOf(prompt, PinTarget::kAllWorkers)).value(), (std::vector<std::string>{"a", "b"}));
  for (const FakeWorker* worker : {&a_, &b_}) {
    ASSERT_EQ(worker->pins().size(), 1U);
    EXPECT_EQ(worker->pins().front(), (wire::Pin{RootHash({}), BlocksOf(prompt), 1000}));
  }
}

TEST_F(FleetCorePinTest, OfTheBestWorkerGoesToTheOneThatHoldsThePrefix) {
  const auto prompt = MakePrompt(1, 40);
  const FleetSim::Request request = sim_.Submit(prompt, 4);
  sim_.Run();
  const std::string holder = request.observer->workers.front();
  EXPECT_EQ(Pin(OrderOf(prompt, PinTarget::kBestWorker)).value(), std::vector<std::string>{holder});
  EXPECT_EQ(a_.pins().size() + b_.pins().size(), 1U);
}

TEST_F(FleetCorePinTest, UnpinGoesTheSameWay) {
  PinOrder order = OrderOf(MakePrompt(1, 40), PinTarget::kAllWorkers);
  order.message = wire::Unpin{RootHash({}), BlocksOf(MakePrompt(1, 40))};
  EXPECT_TRUE(Pin(std::move(order)).ok());
  EXPECT_EQ(a_.unpins().size(), 1U);
  EXPECT_EQ(b_.unpins().size(), 1U);
  EXPECT_TRUE(a_.pins().empty());
}

TEST_F(FleetCorePinTest, WithoutAWorkerIsUnavailable) {
  PinOrder order = OrderOf(MakePrompt(1, 40), PinTarget::kAllWorkers);
  sim_.Kill(a_);
  sim_.Kill(b_);
  sim_.Advance(3s);
  EXPECT_EQ(Pin(std::move(order)).error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace roost::router
