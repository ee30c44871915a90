// Two engines with their threads, and blocks that go from one to the other over TCP: the whole way of a Hold, from the
// link's post to the answer.
#include <gtest/gtest.h>

#include <functional>
#include <optional>

#include "common/base/clock.h"
#include "common/base/rng.h"
#include "common/wire/socket.h"
#include "tests/support/engine_harness.h"
#include "tests/support/fake_model.h"
#include "worker/engine/engine_thread.h"
#include "worker/transfer/block_transfer.h"

namespace roost::worker {
namespace {

using testing_support::FakeModel;
using testing_support::GreedyRequest;
using testing_support::kRoot;
using wire::HoldOutcome;

constexpr std::uint32_t kBlockTokens = 16;
constexpr std::uint32_t kBlockCount = 512;
constexpr PeerLayout kLayout{.layout = 1, .numerics = 2};
constexpr LinkId kLink{1};
constexpr std::chrono::seconds kPatience{30};

// One worker, without its link.
class Station {
 public:
  Station(const std::string& name, std::function<void()> before_forward = {})
      : model_({.block_tokens = kBlockTokens, .block_count = kBlockCount, .before_forward = std::move(before_forward)}),
        transfer_(model_, SetupOf(name), clock_, [this] { thread_.Nudge(); }),
        name_(name),
        engine_(model_, clock_, Options()),
        thread_(engine_, clock_, waker_) {
    thread_.SetTransfer(&transfer_.source(), [this] { return transfer_.travelling_bytes(); });
    thread_.Start();
  }
  // Fetches first: their threads wake the engine's.
  ~Station() {
    transfer_.StopFetching();
    thread_.Stop();
  }

  void Post(EngineCommand command) { EXPECT_TRUE(thread_.TryPost(std::move(command))); }

  // The answer of a prompt, and how many of its tokens were cached.
  struct Served {
    std::vector<TokenId> tokens;
    std::uint32_t cached = 0;
    std::size_t waiting_reports = 0;  // reports before it was begun
  };
  Served Serve(std::uint64_t id, const std::vector<TokenId>& prompt) {
    wire::Generate request = GreedyRequest(id, prompt, 3);
    request.block_hashes = HashBlocks(kRoot, prompt, kBlockTokens);
    Post(SubmitCommand{kLink, std::move(request)});
    Served served;
    bool is_over = false;
    AwaitOutput([&](const EngineOutput& output) {
      if (const auto* const report = std::get_if<StepReport>(&output)) {
        for (const RequestEvent& event : report->tokens) {
          served.tokens.insert(served.tokens.end(), event.event.tokens.begin(), event.event.tokens.end());
          if (event.event.cached_token_count) served.cached = *event.event.cached_token_count;
          is_over = is_over || event.event.finish.has_value();
        }
        if (report->made_progress && report->load.waiting_requests > 0) ++served.waiting_reports;
      }
      return is_over;
    });
    return served;
  }

  void PostHold(std::uint64_t id, const std::vector<TokenId>& prompt, const PeerPlace& from) {
    wire::Hold hold{.answer_id = id, .root = kRoot, .parent = kRoot};
    hold.purpose = wire::HoldPurpose::kCopy;
    hold.hashes = HashBlocks(kRoot, prompt, kBlockTokens);
    hold.patience_ms = 20'000;
    hold.source = {.worker_id = from.worker_id, .address = from.address};
    Post(OrderCommand{kLink, std::move(hold)});
  }
  wire::HoldAnswer AwaitAnswer() {
    wire::HoldAnswer answer;
    AwaitOutput([&](const EngineOutput& output) {
      const auto* const reply = std::get_if<EngineAnswer>(&output);
      if (reply != nullptr) answer = std::get<wire::HoldAnswer>(reply->answer);
      return reply != nullptr;
    });
    return answer;
  }

  [[nodiscard]] const FakeModel& model() const { return model_; }
  [[nodiscard]] PeerPlace place() const { return {.worker_id = name_, .address = transfer_.Describe().address}; }
  [[nodiscard]] TransferCounts counts() const { return transfer_.counts(); }

 private:
  static TransferSetup SetupOf(const std::string& name) {
    TransferSetup setup{.worker_id = name, .address = {"127.0.0.1", 0}, .layout = kLayout, .frame_count = 16};
    setup.listener = wire::Listen(setup.address).value();
    return setup;
  }
  EngineOptions Options() {
    EngineOptions options;
    options.readable = &transfer_.readable();
    options.arriving = &transfer_.inbox();
    options.source = &transfer_.source();
    return options;
  }

  void AwaitOutput(const std::function<bool(const EngineOutput&)>& is_it) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < deadline) {
      while (const std::optional<EngineOutput> output = thread_.TryTake()) {
        if (is_it(*output)) return;
      }
      wire::WaitForMessages({}, waker_, std::chrono::milliseconds(10));
    }
    ADD_FAILURE() << "nothing came";
  }

  SteadyClock clock_;
  wire::Waker waker_;
  FakeModel model_;
  BlockTransfer transfer_;
  const std::string name_;
  Engine engine_;
  EngineThread thread_;
};

std::vector<TokenId> Text(std::size_t count, std::uint64_t stream) {
  Rng rng(stream);
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(rng.Below(90));
  return tokens;
}

TEST(LoopbackTest, APrefixMovesOnAnOrder) {
  Station a("a");
  Station b("b");
  const std::vector<TokenId> prompt = Text(100 * kBlockTokens, 1);
  const Station::Served first = a.Serve(1, prompt);
  EXPECT_EQ(first.cached, 0U);
  b.PostHold(7, prompt, a.place());
  const wire::HoldAnswer answer = b.AwaitAnswer();
  EXPECT_EQ(answer.answer_id, 7U);
  EXPECT_EQ(answer.outcome, HoldOutcome::kComplete);
  EXPECT_EQ(answer.arrived_block_count, 100U);
  EXPECT_GT(answer.first_frame_microseconds, 0U);
  EXPECT_GE(answer.microseconds, answer.first_frame_microseconds);
  const Station::Served second = b.Serve(2, prompt);
  EXPECT_EQ(second.tokens, first.tokens);
  EXPECT_EQ(second.cached, 100 * kBlockTokens - 1);
  EXPECT_EQ(b.model().computed_token_count(), 3U);
  EXPECT_EQ(b.counts().waiting_bytes, 0U);
  EXPECT_GT(a.counts().served.served_bytes, 100 * kBlockTokens * sizeof(TokenId));
  b.PostHold(8, prompt, a.place());
  EXPECT_EQ(b.AwaitAnswer().held_block_count, 100U);
}

TEST(LoopbackTest, ASourceThatIsGoneBreaksTheHoldAndThePromptIsComputed) {
  std::optional<Station> a(std::in_place, "a");
  Station b("b");
  const std::vector<TokenId> prompt = Text(10 * kBlockTokens, 1);
  const Station::Served first = a->Serve(1, prompt);
  const PeerPlace place = a->place();
  a.reset();
  b.PostHold(7, prompt, place);
  const wire::HoldAnswer answer = b.AwaitAnswer();
  EXPECT_EQ(answer.outcome, HoldOutcome::kBroken);
  EXPECT_EQ(answer.missing_block_count, 10U);
  const Station::Served second = b.Serve(2, prompt);
  EXPECT_EQ(second.tokens, first.tokens);
  EXPECT_EQ(second.cached, 0U);
}

// A source that takes the connection and says nothing. Meanwhile no router may take the worker for hung.
TEST(LoopbackTest, AWorkerThatWaitsForBlocksReportsAllTheSame) {
  const wire::Endpoint any{"127.0.0.1", 0};
  const wire::Descriptor silent = wire::Listen(any).value();
  Station b("b");
  b.PostHold(7, Text(10 * kBlockTokens, 1),
             {.worker_id = "a", .address = "127.0.0.1:" + std::to_string(wire::BoundTo(silent, any).port)});
  const Station::Served served = b.Serve(1, Text(10 * kBlockTokens, 1));
  EXPECT_EQ(served.tokens.size(), 3U);
  EXPECT_EQ(served.cached, 0U);
  EXPECT_GE(served.waiting_reports, 2U) << "when it comes, and a second later";
}

TEST(LoopbackTest, TwoHoldsForTheSameBlocksFetchThemOnce) {
  Station a("a");
  Station b("b");
  const std::vector<TokenId> prompt = Text(200 * kBlockTokens, 1);
  (void)a.Serve(1, prompt);
  b.PostHold(7, prompt, a.place());
  b.PostHold(8, prompt, a.place());
  const wire::HoldAnswer first = b.AwaitAnswer();
  const wire::HoldAnswer second = b.AwaitAnswer();
  EXPECT_EQ(first.outcome, HoldOutcome::kComplete);
  EXPECT_EQ(second.outcome, HoldOutcome::kComplete);
  EXPECT_EQ(first.held_block_count + first.arrived_block_count, 200U);
  EXPECT_EQ(second.held_block_count + second.arrived_block_count, 200U);
  EXPECT_EQ(b.Serve(2, prompt).cached, 200 * kBlockTokens - 1);
}

// The engines stop while blocks are on their way, in any state.
TEST(LoopbackTest, StopsWhileBlocksAreOnTheirWay) {
  const std::vector<TokenId> prompt = Text(200 * kBlockTokens, 1);
  Station a("a");
  (void)a.Serve(1, prompt);
  for (int round = 0; round < 5; ++round) {
    Station b("b");
    b.PostHold(7, prompt, a.place());
  }
}

}  // namespace
}  // namespace roost::worker
