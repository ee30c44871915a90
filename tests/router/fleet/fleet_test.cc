// The fleet over real loopback sockets: fake workers on their own threads connect to it.
#include "router/fleet/core/fleet.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <utility>

#include "common/base/deferred_wakes.h"
#include "tests/router/fleet/fleet_sim.h"
#include "tests/router/fleet/socket_worker.h"
#include "tests/router/fleet/waiting.h"

namespace roost::router {
namespace {

using namespace std::chrono_literals;

struct MalformedCounter final : FleetMetrics {
  void OnMalformedMessage() override { ++count; }
  std::atomic<int> count = 0;
};

struct FleetTest : ::testing::Test {
  MalformedCounter metrics;
  std::unique_ptr<Fleet> fleet = Start();

  std::unique_ptr<Fleet> Start() {
    FleetOptions options;
    options.bind = "tcp://127.0.0.1:0";
    const auto read = [](const wire::Tokenizer&) -> Result<TextBundle> { return TextBundle{}; };
    return std::move(Fleet::Start(options, read, metrics)).value();
  }

  [[nodiscard]] bool WaitForReady(std::size_t count) {
    return Eventually([&] {
      const std::vector<WorkerStatus> workers = fleet->View()->workers;
      return static_cast<std::size_t>(std::count_if(workers.begin(), workers.end(), [](const WorkerStatus& status) {
               return status.ready && status.index_in_sync;
             })) == count;
    });
  }

  Result<RequestId> Submit(const std::vector<TokenId>& prompt, std::uint32_t max_output_tokens,
                           std::shared_ptr<GenerationObserver> observer) {
    GenerateSpec spec;
    spec.model = fleet->View()->models->Main("demo");
    if (spec.model == nullptr) return Error{ErrorCode::kNotFound, "no such model", "model"};
    spec.generate.prompt = prompt;
    spec.generate.root = RootHash({});
    spec.generate.block_hashes = BlocksOf(prompt);
    spec.generate.max_output_tokens = max_output_tokens;
    return fleet->Submit(std::move(spec), std::move(observer));
  }
};

// A prompt whose answer has at least `count` tokens.
std::vector<TokenId> TalkativePrompt(std::size_t count) {
  for (TokenId seed = 1;; ++seed) {
    std::vector<TokenId> prompt = MakePrompt(seed, 40);
    if (ExpectedOutput(prompt, static_cast<std::uint32_t>(count)).size() == count) return prompt;
  }
}

TEST_F(FleetTest, ServesOverASocket) {
  const SocketWorker worker(fleet->endpoint(), "a", 1);
  ASSERT_TRUE(WaitForReady(1));
  const auto prompt = TalkativePrompt(30);
  const auto observer = std::make_shared<WaitingObserver>();
  ASSERT_TRUE(Submit(prompt, 30, observer).ok());
  EXPECT_EQ(observer->WaitForEnd().reason, wire::FinishReason::kLength);
  EXPECT_EQ(observer->tokens(), ExpectedOutput(prompt, 30));
  EXPECT_TRUE(Eventually([&] { return fleet->View()->workers.at(0).indexed_block_count == prompt.size() / 4; }));
}

TEST_F(FleetTest, StreamGoesOnWhenItsWorkerDies) {
  auto first = std::make_unique<SocketWorker>(fleet->endpoint(), "a", 1, /*allowed_steps=*/3);
  ASSERT_TRUE(WaitForReady(1));
  const auto prompt = TalkativePrompt(60);
  const auto observer = std::make_shared<WaitingObserver>();
  ASSERT_TRUE(Submit(prompt, 60, observer).ok());
  ASSERT_TRUE(observer->WaitForTokens(1));
  const SocketWorker second(fleet->endpoint(), "b", 2);
  ASSERT_TRUE(WaitForReady(2));
  first.reset();
  EXPECT_EQ(observer->WaitForEnd().reason, wire::FinishReason::kLength);
  EXPECT_EQ(observer->tokens(), ExpectedOutput(prompt, 60));
  EXPECT_EQ(observer->workers(), (std::vector<std::string>{"a", "b"}));
}

TEST_F(FleetTest, WorkerThatSendsGarbageIsCountedAndMayComeBack) {
  SocketWorker worker(fleet->endpoint(), "a", 1);
  ASSERT_TRUE(WaitForReady(1));
  worker.SendGarbage();
  EXPECT_TRUE(Eventually([&] { return metrics.count > 0; }));
  EXPECT_TRUE(WaitForReady(1));
  const auto observer = std::make_shared<WaitingObserver>();
  ASSERT_TRUE(Eventually([&] { return Submit(MakePrompt(1, 9), 5, observer).ok(); }));
  EXPECT_NE(observer->WaitForEnd().reason, wire::FinishReason::kCancelled);
}

TEST_F(FleetTest, StopEndsWhatIsLeftAndRefusesMore) {
  const SocketWorker worker(fleet->endpoint(), "a", 1, /*allowed_steps=*/0);
  ASSERT_TRUE(WaitForReady(1));
  const auto observer = std::make_shared<WaitingObserver>();
  ASSERT_TRUE(Submit(MakePrompt(1, 9), 5, observer).ok());
  fleet->Stop();
  const GenerationEnd end = observer->WaitForEnd();
  ASSERT_TRUE(end.error.has_value());
  EXPECT_EQ(end.error->code, ErrorCode::kUnavailable);
  EXPECT_EQ(Submit(MakePrompt(1, 9), 5, observer).error().code, ErrorCode::kUnavailable);
}

TEST_F(FleetTest, ManyThreadsSubmitAndCancelAndEachRequestEndsOnce) {
  const SocketWorker first(fleet->endpoint(), "a", 1);
  const SocketWorker second(fleet->endpoint(), "b", 2);
  ASSERT_TRUE(WaitForReady(2));
  const auto client = [&](TokenId seed) {
    Rng rng(seed);
    for (int i = 0; i < 40; ++i) {
      const auto observer = std::make_shared<WaitingObserver>();
      const auto prompt = MakePrompt(static_cast<TokenId>(rng.Below(5)), 1 + rng.Below(60));
      const auto max_output_tokens = static_cast<std::uint32_t>(1 + rng.Below(40));
      const Result<RequestId> id = Submit(prompt, max_output_tokens, observer);
      ASSERT_TRUE(id.ok());
      const bool leaves = rng.Below(4) == 0;
      if (leaves) fleet->Cancel(*id);
      const GenerationEnd end = observer->WaitForEnd();
      EXPECT_FALSE(end.error.has_value());
      if (!leaves) {
        EXPECT_EQ(observer->tokens(), ExpectedOutput(prompt, max_output_tokens));
      }
    }
  };
  std::vector<std::thread> clients;
  for (TokenId seed = 1; seed <= 4; ++seed) clients.emplace_back(client, seed);
  for (std::thread& thread : clients) thread.join();
  EXPECT_TRUE(Eventually([&] {
    const std::shared_ptr<const FleetSnapshot> view = fleet->View();
    return std::all_of(view->workers.begin(), view->workers.end(),
                       [](const WorkerStatus& status) { return status.in_flight_requests == 0; });
  }));
}

// Submits another request when its own ends.
class ChainingObserver final : public GenerationObserver {
 public:
  explicit ChainingObserver(std::function<void()> next) : next_(std::move(next)) {}
  void OnDispatched(const Dispatched&) override {}
  void OnTokens(ChoiceTokens) override {}
  void OnChoiceEnd(ChoiceEnd) override {}
  void OnEnd(GenerationEnd) override { next_(); }

 private:
  std::function<void()> next_;
};

TEST_F(FleetTest, ObserversMayCallBack) {
  const SocketWorker worker(fleet->endpoint(), "a", 1);
  ASSERT_TRUE(WaitForReady(1));
  const auto last = std::make_shared<WaitingObserver>();
  const auto first = std::make_shared<ChainingObserver>([&] {
    EXPECT_FALSE(fleet->View()->workers.empty());
    EXPECT_TRUE(Submit(MakePrompt(2, 9), 5, last).ok());
  });
  ASSERT_TRUE(Submit(MakePrompt(1, 9), 5, first).ok());
  EXPECT_FALSE(last->WaitForEnd().error.has_value());
}

TEST_F(FleetTest, AViewThatIsTakenWhenAnOrderIsAnsweredShowsWhatItDid) {
  const SocketWorker worker(fleet->endpoint(), "a", 1);
  ASSERT_TRUE(WaitForReady(1));
  for (int i = 0; i < 20; ++i) {
    const Service service = i % 2 == 0 ? Service::kCordoned : Service::kOpen;
    std::promise<WorkerState> shown;
    const auto done = [&](const std::vector<WorkerAnswer>&) { shown.set_value(fleet->View()->workers.at(0).state); };
    ASSERT_TRUE(fleet->Send(CordonOrder{.worker_id = "a", .service = service}, done).ok());
    EXPECT_EQ(shown.get_future().get(), i % 2 == 0 ? WorkerState::kCordoned : WorkerState::kReady) << i;
  }
}

TEST_F(FleetTest, AViewThatIsHeldStaysAsItWas) {
  const std::shared_ptr<const FleetSnapshot> before = fleet->View();
  const SocketWorker worker(fleet->endpoint(), "a", 1);
  ASSERT_TRUE(WaitForReady(1));
  EXPECT_TRUE(before->workers.empty());
  EXPECT_EQ(before->models->Main("demo"), nullptr);
  EXPECT_NE(fleet->View()->models->Main("demo"), nullptr);
}

TEST_F(FleetTest, AHookSeesEachRequestAndItsEvents) {
  const auto heard = std::make_shared<WaitingObserver>();
  std::size_t prompt_tokens = 0;
  FleetOptions options;
  options.bind = "tcp://127.0.0.1:0";
  options.on_submit = [&](const GenerateSpec& spec, std::shared_ptr<GenerationObserver> /*observer*/) {
    prompt_tokens = spec.generate.prompt.size();
    return heard;
  };
  fleet = Fleet::Start(
              options, [](const wire::Tokenizer&) -> Result<TextBundle> { return TextBundle{}; }, metrics)
              .value();
  const SocketWorker worker(fleet->endpoint(), "a", 1);
  ASSERT_TRUE(WaitForReady(1));
  ASSERT_TRUE(Submit(MakePrompt(1, 9), 5, std::make_shared<WaitingObserver>()).ok());
  EXPECT_FALSE(heard->WaitForEnd().error.has_value());
  EXPECT_EQ(prompt_tokens, 9U);
}

// A thread that gets what the link thread relays.
struct CountedSleeper final : Sleeper {
  void Wake() override { ++wakes; }
  std::atomic<int> wakes = 0;
};

class SleepersObserver final : public GenerationObserver {
 public:
  explicit SleepersObserver(std::shared_ptr<CountedSleeper> sleeper) : sleeper_(std::move(sleeper)) {}
  void OnDispatched(const Dispatched&) override {}
  void OnTokens(ChoiceTokens) override { Relay(); }
  void OnChoiceEnd(ChoiceEnd) override {}
  void OnEnd(GenerationEnd) override { Relay(); }

  [[nodiscard]] bool was_early() const { return was_early_; }

 private:
  void Relay() {
    const int before = sleeper_->wakes;
    const bool is_deferred = DeferredWakes::Add(sleeper_);
    if (!is_deferred || sleeper_->wakes != before) was_early_ = true;
  }

  const std::shared_ptr<CountedSleeper> sleeper_;
  std::atomic<bool> was_early_ = false;
};

TEST_F(FleetTest, WakesOtherThreadsWhenAllObserversHaveBeenTold) {
  const SocketWorker worker(fleet->endpoint(), "a", 1);
  ASSERT_TRUE(WaitForReady(1));
  const auto sleeper = std::make_shared<CountedSleeper>();
  const auto observer = std::make_shared<SleepersObserver>(sleeper);
  ASSERT_TRUE(Submit(TalkativePrompt(3), 3, observer).ok());
  EXPECT_TRUE(Eventually([&] { return sleeper->wakes > 0; }));
  EXPECT_FALSE(observer->was_early());
}

TEST_F(FleetTest, ALinkThatStandsStillIsSeen) {
  EXPECT_TRUE(Eventually([&] { return fleet->LinkTurns(); }));
  const SocketWorker worker(fleet->endpoint(), "a", 1);
  ASSERT_TRUE(WaitForReady(1));
  std::promise<void> entered;
  std::promise<void> go_on;
  const auto observer = std::make_shared<ChainingObserver>([&] {
    entered.set_value();
    go_on.get_future().wait();
  });
  ASSERT_TRUE(Submit(MakePrompt(1, 9), 5, observer).ok());
  entered.get_future().wait();
  (void)fleet->LinkTurns();  // forgets earlier turns
  EXPECT_FALSE(fleet->LinkTurns());
  go_on.set_value();
  EXPECT_TRUE(Eventually([&] { return fleet->LinkTurns(); }));
}

TEST_F(FleetTest, StartFailsWithAReason) {
  FleetOptions options;
  options.policy = "best";
  EXPECT_EQ(Fleet::Start(options, {}, metrics).error().field, "policy");
  options.policy = "random";
  options.bind = fleet->endpoint();
  EXPECT_EQ(Fleet::Start(options, {}, metrics).error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace roost::router
