// The fleet with real workers (real engines, caches and links around a model of a few lines) over loopback sockets.
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <utility>

#include "common/base/rng.h"
#include "router/fleet/core/fleet.h"
#include "tests/router/fleet/waiting.h"
#include "tests/support/fake_model.h"
#include "worker/worker.h"

namespace roost::router {
namespace {

using worker::Worker;

constexpr std::uint32_t kBlockTokens = 4;
constexpr std::uint32_t kBlockCount = 256;

struct ResyncCounter final : FleetMetrics {
  void OnResync(ResyncReason reason) override {
    if (reason != ResyncReason::kHello) ++count;
  }
  std::atomic<int> count = 0;
};

struct ClusterTest : ::testing::Test {
  const BlockHash root{1, 2};
  ResyncCounter resyncs;
  std::unique_ptr<Fleet> fleet = StartFleet();
  std::unique_ptr<Worker> a = StartWorker("a");
  std::unique_ptr<Worker> b = StartWorker("b");

  std::unique_ptr<Fleet> StartFleet() {
    FleetOptions options;
    options.bind = "tcp://127.0.0.1:0";
    const auto read = [](const wire::Tokenizer&) -> Result<TextBundle> { return TextBundle{}; };
    return std::move(Fleet::Start(options, read, resyncs)).value();
  }
  std::unique_ptr<Worker> StartWorker(const std::string& id) {
    worker::WorkerSetup setup;
    setup.own.model = std::make_unique<testing_support::FakeModel>(
        testing_support::FakeModel::Options{.block_tokens = kBlockTokens, .block_count = kBlockCount});
    setup.hello.worker_id = id;
    setup.hello.model = "fake";
    setup.hello.kv_dtype = "f32";
    setup.tokenizer.tokenizer_json = "{}";
    setup.routers = {fleet->endpoint()};
    std::unique_ptr<Worker> worker = Worker::Make(std::move(setup)).value();
    worker->Run();
    return worker;
  }
  [[nodiscard]] bool WaitForReady(std::size_t count) {
    return Eventually([&] {
      const std::vector<WorkerStatus> workers = fleet->View()->workers;
      return workers.size() == count && std::all_of(workers.begin(), workers.end(), [](const WorkerStatus& status) {
               return status.ready && status.index_in_sync;
             });
    });
  }

  std::shared_ptr<WaitingObserver> Submit(const std::vector<TokenId>& prompt, std::uint32_t max_output_tokens,
                                          GenerateSpec spec = {}) {
    spec.model = fleet->View()->models->Main("fake");
    spec.generate.prompt = prompt;
    spec.generate.root = root;
    spec.generate.block_hashes = HashBlocks(root, prompt, kBlockTokens);
    spec.generate.sampling.temperature = 0;
    spec.generate.max_output_tokens = max_output_tokens;
    spec.generate.ignore_eos = true;
    auto observer = std::make_shared<WaitingObserver>();
    EXPECT_TRUE(fleet->Submit(std::move(spec), observer).ok());
    return observer;
  }
};

// The pools hold a fraction of the requested blocks, so blocks come and go all the time.
TEST_F(ClusterTest, PredictionEqualsWhatTheWorkerFindsAndNothingDrifts) {
  ASSERT_TRUE(WaitForReady(2));
  Rng rng(1);
  std::uint64_t cached_tokens = 0;
  for (int i = 0; i < 150; ++i) {
    const auto family = static_cast<TokenId>(rng.Below(12));
    std::vector<TokenId> prompt(100 + rng.Below(100), family);
    prompt.back() = 90;
    const auto observer = Submit(prompt, 8);
    ASSERT_EQ(observer->WaitForEnd().reason, wire::FinishReason::kLength);
    // A part of one more block may be cached; the router is told only of whole blocks.
    ASSERT_GE(observer->cached_token_count(), observer->predicted_token_count()) << "request " << i;
    ASSERT_LT(observer->cached_token_count(), observer->predicted_token_count() + kBlockTokens) << "request " << i;
    cached_tokens += observer->predicted_token_count();
  }
  EXPECT_GT(cached_tokens, 2000U);
  EXPECT_EQ(resyncs.count, 0);
}

TEST_F(ClusterTest, AnEvictedTenantIsGoneFromEveryWorkerWhileItsStreamGoesOn) {
  ASSERT_TRUE(WaitForReady(2));
  const auto of = [](const std::string& tenant) {
    GenerateSpec spec;
    spec.generate.tenant = tenant;
    return spec;
  };
  const std::vector<TokenId> hens(40, 7);
  const std::vector<TokenId> ducks(40, 8);
  for (const auto& [tenant, prompt] : {std::pair("hens", hens), std::pair("ducks", ducks)}) {
    ASSERT_EQ(Submit(prompt, 4, of(tenant))->WaitForEnd().reason, wire::FinishReason::kLength);
  }
  const auto undisturbed = Submit(hens, 400, of("hens"));
  ASSERT_EQ(undisturbed->WaitForEnd().reason, wire::FinishReason::kLength);
  const auto stream = Submit(hens, 400, of("hens"));
  ASSERT_TRUE(stream->WaitForTokens(1));

  std::promise<std::vector<WorkerAnswer>> told;
  ASSERT_TRUE(fleet
                  ->Send(EvictOrder{.what = wire::TenantToEvict{"hens"}},
                         [&told](std::vector<WorkerAnswer> answers) { told.set_value(std::move(answers)); })
                  .ok());
  std::uint32_t gone = 0;
  for (const WorkerAnswer& answer : told.get_future().get()) {
    const auto& counts = std::get<wire::EvictAnswer>(answer.reply);
    gone += counts.evicted_block_count + counts.busy_block_count;
  }
  EXPECT_GE(gone, 10U);
  ASSERT_EQ(stream->WaitForEnd().reason, wire::FinishReason::kLength);
  EXPECT_EQ(stream->tokens(), undisturbed->tokens());
  // The answer came after the events, and the stream's end after its last step.
  EXPECT_TRUE(fleet->View()->models->Main("fake")->index->Match(HashBlocks(root, hens, kBlockTokens)).empty());
  EXPECT_FALSE(fleet->View()->models->Main("fake")->index->Match(HashBlocks(root, ducks, kBlockTokens)).empty());
  const auto again = Submit(hens, 4, of("hens"));
  ASSERT_EQ(again->WaitForEnd().reason, wire::FinishReason::kLength);
  EXPECT_EQ(again->cached_token_count(), 0U);
}

TEST_F(ClusterTest, StreamIsTheSameWhenItsWorkerLeavesInTheMiddle) {
  ASSERT_TRUE(WaitForReady(2));
  const std::vector<TokenId> prompt(40, 7);
  const auto undisturbed = Submit(prompt, 900);
  ASSERT_EQ(undisturbed->WaitForEnd().reason, wire::FinishReason::kLength);
  const auto disturbed = Submit(prompt, 900);
  ASSERT_TRUE(disturbed->WaitForTokens(1));
  (disturbed->workers().front() == "a" ? a : b)->Stop();
  ASSERT_EQ(disturbed->WaitForEnd().reason, wire::FinishReason::kLength);
  EXPECT_EQ(disturbed->tokens(), undisturbed->tokens());
  EXPECT_TRUE(WaitForReady(1));
}

// On the CPU the bits are the same, whichever worker computes them.
TEST_F(ClusterTest, LogprobsAreTheSameWhenTheirWorkerLeavesInTheMiddle) {
  ASSERT_TRUE(WaitForReady(2));
  std::vector<TokenId> prompt(200, 7);
  prompt.back() = 8;
  GenerateSpec wishes;
  wishes.generate.output_logprobs = 3;
  wishes.generate.prompt_logprobs = 1;
  wishes.generate.min_output_tokens = 700;
  const auto undisturbed = Submit(prompt, 700, wishes);
  ASSERT_EQ(undisturbed->WaitForEnd().reason, wire::FinishReason::kLength);
  EXPECT_EQ(undisturbed->prompt_logprobs().size(), 199U);
  EXPECT_EQ(undisturbed->logprobs().size(), 700U);
  const auto disturbed = Submit(prompt, 700, wishes);
  ASSERT_TRUE(disturbed->WaitForTokens(1));
  (disturbed->workers().front() == "a" ? a : b)->Stop();
  ASSERT_EQ(disturbed->WaitForEnd().reason, wire::FinishReason::kLength);
  EXPECT_TRUE(disturbed->logprobs() == undisturbed->logprobs());
  EXPECT_TRUE(disturbed->prompt_logprobs() == undisturbed->prompt_logprobs());
}

TEST_F(ClusterTest, RestartedWorkerIsUsedAgainAndItsBlocksAreFresh) {
  ASSERT_TRUE(WaitForReady(2));
  const std::vector<TokenId> prompt(40, 7);
  const auto first = Submit(prompt, 4);
  ASSERT_FALSE(first->WaitForEnd().error.has_value());
  const std::string id = first->workers().front();
  std::unique_ptr<Worker>& holder = id == "a" ? a : b;
  std::unique_ptr<Worker>& spare = id == "a" ? b : a;
  holder.reset();
  ASSERT_TRUE(WaitForReady(1));
  holder = StartWorker(id);
  ASSERT_TRUE(WaitForReady(2));
  const std::shared_ptr<const FleetSnapshot> view = fleet->View();
  for (const WorkerStatus& status : view->workers) EXPECT_EQ(status.indexed_block_count, 0U);
  spare.reset();
  ASSERT_TRUE(WaitForReady(1));
  const auto second = Submit(prompt, 4);
  ASSERT_FALSE(second->WaitForEnd().error.has_value());
  EXPECT_EQ(second->workers().front(), id);
  EXPECT_EQ(second->cached_token_count(), 0U);
  EXPECT_EQ(second->tokens(), first->tokens());
}

}  // namespace
}  // namespace roost::router
