// A hundred thousand requests, most of which meet an event: cancels, refusals, deadlines, lost workers and messages.
// Afterwards nothing is charged, pending or waiting, and every request has ended.
#include <gtest/gtest.h>

#include <vector>

#include "common/base/log.h"
#include "tests/router/fleet/fleet_sim.h"

namespace roost::router {
namespace {

using namespace std::chrono_literals;

constexpr int kRequestCount = 100'000;
constexpr std::uint64_t kSeed = 20'260'101;

FleetCoreOptions TightBounds() {
  FleetCoreOptions options;
  options.requests.worker_queue_bound = 6;
  options.requests.max_queue = 40;
  options.requests.max_queue_wait = 500ms;
  options.modes.window_requests = 16;
  return options;
}

class Leaks {
 public:
  Leaks() : rng_(kSeed), sim_(kSeed, "cache-aware", TightBounds()) {
    for (int i = 0; i < 4; ++i) {
      FakeWorker& worker = sim_.AddWorker("w" + std::to_string(i));
      worker.hello().sends_cache_events = i != 0;
      worker.SayHello();
    }
    sim_.DeliverAll();
  }

  void Run() {
    while (submitted_ < kRequestCount) {
      Submit();
      if (rng_.Below(3) == 0) CancelOne();
      if (rng_.Below(4) == 0) Befall(AnyWorker());
      if (rng_.Below(6) == 0) Round();
    }
    sim_.Recover();
  }

  void Check() {
    EXPECT_EQ(sim_.core.request_count(), 0U);
    EXPECT_EQ(sim_.core.waiting_count(), 0U);
    EXPECT_EQ(sim_.core.pending_count(), 0U);
    EXPECT_EQ(sim_.core.copy_count(), 0U);
    const std::vector<WorkerStatus> workers = sim_.core.Workers(sim_.clock.Now());
    EXPECT_EQ(workers.size(), sim_.workers.size());
    for (const WorkerStatus& worker : workers) EXPECT_EQ(worker.in_flight_requests, 0U) << worker.worker_id;
    for (const auto& request : requests_) ASSERT_TRUE(request.observer->end.has_value());
    // Each kind of event occurred.
    EXPECT_GT(sim_.metrics.queue_refusals["full"], 100);
    EXPECT_GT(sim_.metrics.queue_refusals["deadline"], 100);
    EXPECT_GT(sim_.metrics.retries["worker_lost"], 1000);
    EXPECT_GT(sim_.metrics.retries["overloaded"], 100);
    EXPECT_GT(sim_.metrics.lost["silent"], 10);
    EXPECT_GT(cancelled_, 10'000);
    EXPECT_GT(sim_.metrics.copied_tokens, 1000U);
  }

 private:
  FakeWorker& AnyWorker() {
    return *std::next(sim_.workers.begin(), static_cast<long>(rng_.Below(sim_.workers.size())))->second;
  }

  void Submit() {
    GenerateSpec wishes;
    wishes.generate.tenant = std::string(1, static_cast<char>('a' + rng_.Below(5)));
    wishes.generate.priority = static_cast<std::uint32_t>(50 * rng_.Below(3));
    wishes.generate.sample_count = rng_.Below(8) == 0 ? 3 : 1;
    const auto prompt = MakePrompt(static_cast<TokenId>(rng_.Below(50)), 1 + rng_.Below(60));
    auto request = sim_.Submit(prompt, static_cast<std::uint32_t>(1 + rng_.Below(20)), std::move(wishes));
    if (request.id.has_value()) requests_.push_back(std::move(request));
    ++submitted_;
  }
  // Cancels one of the later requests, which may be in any state.
  void CancelOne() {
    if (requests_.empty()) return;
    const std::size_t back = rng_.Below(std::min<std::size_t>(requests_.size(), 50));
    const auto& request = requests_[requests_.size() - 1 - back];
    if (!request.observer->end.has_value()) ++cancelled_;
    sim_.core.Cancel(*request.id);
  }
  void Befall(FakeWorker& worker) {
    if (sim_.IsCutOff(worker)) {
      if (rng_.Below(20) == 0) sim_.Revive(worker);
      return;
    }
    switch (rng_.Below(40)) {
      case 0: sim_.Kill(worker); break;
      case 1: sim_.core.OnUnreachable(worker.id(), sim_.clock.Now()); break;
      case 2:
        worker.Restart();
        worker.SayHello();
        break;
      case 3: worker.SayBye(); break;
      case 4:
        if (!worker.outbox().empty()) worker.outbox().pop_front();
        break;
      case 5: sim_.core.OnMalformed(worker.id(), DataLoss("frame", "garbage"), sim_.clock.Now()); break;
      case 6: worker.EvictSilently(3); break;
      default: worker.SetFull(rng_.Below(4) == 0); break;
    }
  }
  void Round() {
    for (auto& [id, worker] : sim_.workers) {
      if (!worker->welcomed()) worker->SayHello();
      if (rng_.Below(4) != 0) worker->Step();
    }
    sim_.DeliverAll();
    sim_.clock.Advance(std::chrono::milliseconds(rng_.Below(100)));
    sim_.Tick();
  }

  Rng rng_;
  FleetSim sim_;
  std::vector<FleetSim::Request> requests_;
  int submitted_ = 0;
  int cancelled_ = 0;
};

TEST(FleetLeakTest, NothingIsLeftOfAHundredThousandRequests) {
  SetUpLogging(LogLevel::kError, LogFormat::kText);
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  Leaks leaks;
  leaks.Run();
  leaks.Check();
}

}  // namespace
}  // namespace roost::router
