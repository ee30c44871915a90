#include "worker/worker.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "common/wire/endpoint.h"
#include "common/wire/gate.h"
#include "common/wire/tokenizer_digest.h"
#include "tests/support/fake_model.h"
#include "tests/support/test_router.h"

namespace roost::worker {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using testing_support::FakeModel;
using testing_support::TestRouter;

constexpr std::uint32_t kBlockTokens = 4;
const BlockHash kRoot{1, 2};

class WorkerTest : public ::testing::Test {
 protected:
  static std::unique_ptr<Worker> Start(
      const std::string& id, std::vector<std::string> routers,
      const std::function<void(WorkerSetup&)>& change = [](WorkerSetup&) {}) {
    Result<std::unique_ptr<Worker>> worker = Worker::Make(SetupOf(id, std::move(routers), change));
    EXPECT_TRUE(worker.ok());
    worker.value()->Run();
    return std::move(worker).value();
  }
  // With a listener.
  static std::unique_ptr<WorkerGroup> StartGroup(
      const std::vector<std::string>& ids, const std::vector<std::string>& routers,
      const std::function<void(WorkerSetup&)>& change = [](WorkerSetup&) {}) {
    std::vector<WorkerSetup> setups;
    for (const std::string& id : ids) {
      setups.push_back(SetupOf(id, routers, change));
      setups.back().listener.address = "127.0.0.1:0";
    }
    Result<std::unique_ptr<WorkerGroup>> group = WorkerGroup::Start(std::move(setups));
    EXPECT_TRUE(group.ok());
    return std::move(group).value();
  }
  static WorkerSetup SetupOf(const std::string& id, std::vector<std::string> routers,
                             const std::function<void(WorkerSetup&)>& change) {
    WorkerSetup setup;
    setup.own.model = std::make_unique<FakeModel>(FakeModel::Options{.block_tokens = kBlockTokens, .block_count = 256});
    setup.hello.worker_id = id;
    setup.hello.model = "fake";
    setup.hello.kv_dtype = "f32";
    setup.tokenizer.tokenizer_json = "{}";
    setup.routers = std::move(routers);
    change(setup);
    return setup;
  }

  static wire::Generate Request(std::uint64_t id, std::uint32_t prompt_tokens, std::uint32_t output_tokens) {
    wire::Generate generate;
    generate.request_id = RequestId(id);
    generate.prompt.resize(prompt_tokens);
    std::iota(generate.prompt.begin(), generate.prompt.end(), 1U);
    generate.root = kRoot;
    generate.block_hashes = HashBlocks(kRoot, generate.prompt, kBlockTokens);
    generate.sampling.temperature = 0;
    generate.max_output_tokens = output_tokens;
    generate.ignore_eos = true;
    return generate;
  }

  // Has the blocks of the request's prompt fetched from worker-a.
  static wire::Hold HoldFromA(const wire::Generate& request, std::string address) {
    return {.answer_id = 9,
            .root = kRoot,
            .parent = kRoot,
            .hashes = request.block_hashes,
            .patience_ms = 20'000,
            .source = {.worker_id = "worker-a", .address = std::move(address)}};
  }
};

TEST_F(WorkerTest, SaysWhetherShortPromptsGoFirst) {
  TestRouter router(1);
  const auto fair = Start("fair", {router.endpoint()});
  EXPECT_EQ(router.BringUp("fair").ageing_tokens, 0U);
  const auto quick = Start("quick", {router.endpoint()}, [](WorkerSetup& setup) {
    setup.own.engine.schedule_policy = SchedulePolicy::kShortestUncached;
  });
  EXPECT_EQ(router.BringUp("quick").ageing_tokens, 100U);
}

TEST_F(WorkerTest, GreetsServesAndReportsItsCache) {
  TestRouter router(1);
  const auto worker = Start("worker-1", {router.endpoint()});
  const wire::Hello hello = router.BringUp("worker-1");
  EXPECT_EQ(hello.model, "fake");
  EXPECT_EQ(hello.block_tokens, kBlockTokens);
  EXPECT_EQ(hello.block_count, 256U);
  EXPECT_TRUE(router.snapshot.runs.empty());

  const wire::Generate request = Request(1, 40, 8);
  router.Send("worker-1", request);
  const TestRouter::Answer cold = router.Finish("worker-1", RequestId(1));
  EXPECT_EQ(cold.finish, wire::FinishReason::kLength);
  EXPECT_EQ(cold.tokens.size(), 8U);
  EXPECT_EQ(cold.cached_token_count, 0U);

  // The steps report exactly the blocks that the digest covers, the prompt's blocks first.
  BlockHash digest;
  std::vector<BlockHash> stored;
  for (const wire::Step& step : router.steps) {
    for (const wire::CacheEvent& event : step.events) {
      ASSERT_EQ(event.kind, wire::CacheEvent::Kind::kStored);
      for (const BlockHash hash : event.stored.hashes) {
        stored.push_back(hash);
        digest = digest ^ hash;
      }
    }
    EXPECT_EQ(step.load.digest, digest);
  }
  ASSERT_GE(stored.size(), request.block_hashes.size());
  stored.resize(request.block_hashes.size());
  EXPECT_EQ(stored, request.block_hashes);

  wire::Generate again = request;
  again.request_id = RequestId(2);
  router.Send("worker-1", again);
  const TestRouter::Answer warm = router.Finish("worker-1", RequestId(2));
  EXPECT_EQ(warm.tokens, cold.tokens);
  EXPECT_GT(warm.cached_token_count.value_or(0), 30U);
}

void LetTravel(WorkerSetup& setup) {
  TransferSetup transfer{
      .worker_id = setup.hello.worker_id, .address = {"127.0.0.1", 0}, .layout = {.layout = 5, .numerics = 6}};
  transfer.listener = wire::Listen(transfer.address).value();
  setup.own.transfer = std::move(transfer);
}

TEST_F(WorkerTest, FetchesBlocksFromAnotherWorkerOnAnOrder) {
  TestRouter router(1);
  const auto worker_a = Start("worker-a", {router.endpoint()}, LetTravel);
  const wire::Hello a = router.BringUp("worker-a");
  const std::uint64_t next_of_a = router.next_sequence;
  const auto worker_b = Start("worker-b", {router.endpoint()}, LetTravel);
  const wire::Hello b = router.BringUp("worker-b");
  EXPECT_TRUE(b.features.contains(wire::Feature::kHolds));
  EXPECT_THAT(a.transfer.address, StartsWith("127.0.0.1:"));
  EXPECT_EQ(b.transfer.layout, 5U);
  EXPECT_EQ(b.transfer.numerics, 6U);
  EXPECT_EQ(worker_b->transfer(), b.transfer.address);

  const wire::Generate request = Request(1, 40, 8);
  router.next_sequence = next_of_a;
  router.Send("worker-a", request);
  const TestRouter::Answer cold = router.Finish("worker-a", RequestId(1));
  router.Send("worker-b", HoldFromA(request, a.transfer.address));
  const auto answer = router.Next<wire::HoldAnswer>("worker-b");
  EXPECT_EQ(answer.answer_id, 9U);
  EXPECT_EQ(answer.outcome, wire::HoldOutcome::kComplete);
  EXPECT_EQ(answer.arrived_block_count, request.block_hashes.size());

  wire::Generate again = request;
  again.request_id = RequestId(2);
  router.Send("worker-b", again);
  std::vector<TokenId> tokens;
  std::uint32_t cached = 0;
  (void)router.NextWhere<wire::Step>("worker-b", [&](const wire::Step& step) {
    for (const wire::TokenEvent& event : step.tokens) {
      tokens.insert(tokens.end(), event.tokens.begin(), event.tokens.end());
      cached = event.cached_token_count.value_or(cached);
      if (event.finish) return true;
    }
    return false;
  });
  EXPECT_EQ(tokens, cold.tokens);
  EXPECT_GE(cached, 36U);
  const std::string metrics = worker_b->metrics().Text();
  EXPECT_THAT(metrics, HasSubstr("source=\"peer\""));
  EXPECT_THAT(metrics, testing::ContainsRegex("arrivals_total.*outcome=\"complete\".* 1\n"));
  EXPECT_THAT(metrics, testing::ContainsRegex("arrived_blocks_total.* 10\n"));
}

TEST_F(WorkerTest, WithoutPullsItServesAndRefusesHolds) {
  TestRouter router(1);
  const auto worker = Start("worker-1", {router.endpoint()}, [](WorkerSetup& setup) {
    LetTravel(setup);
    setup.own.transfer->pull_count = 0;
  });
  const wire::Hello hello = router.BringUp("worker-1");
  EXPECT_FALSE(hello.features.contains(wire::Feature::kHolds));
  EXPECT_THAT(hello.transfer.address, StartsWith("127.0.0.1:"));
  EXPECT_EQ(hello.transfer.layout, 5U);
  EXPECT_EQ(worker->transfer(), hello.transfer.address + ", fetches none");
  router.Send("worker-1", HoldFromA(Request(1, 40, 8), hello.transfer.address));
  EXPECT_EQ(router.Next<wire::HoldAnswer>("worker-1").outcome, wire::HoldOutcome::kRefused);
}

TEST_F(WorkerTest, WithoutReadersItFetchesAndHasNoAddress) {
  TestRouter router(1);
  const auto worker_a = Start("worker-a", {router.endpoint()}, LetTravel);
  const wire::Hello a = router.BringUp("worker-a");
  const std::uint64_t next_of_a = router.next_sequence;
  const auto worker_b = Start("worker-b", {router.endpoint()}, [](WorkerSetup& setup) {
    LetTravel(setup);
    setup.own.transfer->listener = {};
    setup.own.transfer->reader_count = 0;
    setup.transfer_absence = "fetches only: told by a test";
  });
  const wire::Hello b = router.BringUp("worker-b");
  EXPECT_TRUE(b.features.contains(wire::Feature::kHolds));
  EXPECT_EQ(b.transfer, (wire::Transfer{.layout = 5, .numerics = 6}));
  EXPECT_EQ(worker_b->transfer(), "fetches only: told by a test");
  EXPECT_THAT(worker_b->metrics().Text(), testing::ContainsRegex("transfer_readers.* 0\n"));
  const wire::Generate request = Request(1, 40, 8);
  router.next_sequence = next_of_a;
  router.Send("worker-a", request);
  (void)router.Finish("worker-a", RequestId(1));
  router.Send("worker-b", HoldFromA(request, a.transfer.address));
  const auto answer = router.Next<wire::HoldAnswer>("worker-b");
  EXPECT_EQ(answer.outcome, wire::HoldOutcome::kComplete);
  EXPECT_EQ(answer.arrived_block_count, request.block_hashes.size());
}

TEST_F(WorkerTest, AWorkerWhoseBlocksStayRefusesHolds) {
  TestRouter router(1);
  const auto worker = Start("worker-1", {router.endpoint()},
                            [](WorkerSetup& setup) { setup.transfer_absence = "off: told by a test"; });
  const wire::Hello hello = router.BringUp("worker-1");
  EXPECT_FALSE(hello.features.contains(wire::Feature::kHolds));
  EXPECT_EQ(hello.transfer, wire::Transfer());
  EXPECT_EQ(worker->transfer(), "off: told by a test");
  router.Send("worker-1", HoldFromA(Request(1, 40, 8), "127.0.0.1:1"));
  EXPECT_EQ(router.Next<wire::HoldAnswer>("worker-1").outcome, wire::HoldOutcome::kRefused);
}

TEST_F(WorkerTest, WorkersAgreeAndAWorkerServesSeveralRouters) {
  TestRouter first(1);
  TestRouter second(2);
  const auto worker_a = Start("worker-a", {first.endpoint(), second.endpoint()});
  const auto worker_b = Start("worker-b", {first.endpoint()});
  first.BringUp("worker-a");
  second.BringUp("worker-a");
  first.Send("worker-a", Request(1, 20, 6));
  const auto from_a = first.Finish("worker-a", RequestId(1));
  // The other router is told of the blocks too, but of no request's tokens.
  const wire::Step told =
      second.NextWhere<wire::Step>("worker-a", [](const auto& step) { return !step.events.empty(); });
  EXPECT_TRUE(told.tokens.empty());
  first.BringUp("worker-b");
  first.Send("worker-b", Request(1, 20, 6));
  EXPECT_EQ(first.Finish("worker-b", RequestId(1)).tokens, from_a.tokens);
}

TEST_F(WorkerTest, ComesBackToARestartedRouterWithItsBlocks) {
  auto router = std::make_unique<TestRouter>(1);
  const std::string endpoint = router->endpoint();
  const auto worker = Start("worker-1", {endpoint});
  const wire::Hello before = router->BringUp("worker-1");
  router->Send("worker-1", Request(1, 40, 2));
  (void)router->Finish("worker-1", RequestId(1));
  router.reset();
  router = std::make_unique<TestRouter>(2, endpoint);
  // The worker notices it itself, or a router that does not know the worker tells it.
  const wire::Hello after = router->BringUp("worker-1");
  EXPECT_NE(after.epoch, before.epoch);
  ASSERT_EQ(router->snapshot.runs.size(), 1U);
  std::vector<BlockHash> held = router->snapshot.runs[0].hashes;
  ASSERT_GE(held.size(), 10U);
  held.resize(10);
  EXPECT_EQ(held, Request(1, 40, 2).block_hashes);
}

TEST_F(WorkerTest, CancelEndsARequest) {
  TestRouter router(1);
  std::promise<void> cancel_sent;
  const auto worker = Start("worker-1", {router.endpoint()}, [&cancel_sent](WorkerSetup& setup) {
    setup.own.model = std::make_unique<FakeModel>(FakeModel::Options{
        .block_tokens = kBlockTokens, .block_count = 256, .before_forward = [sent = cancel_sent.get_future().share()] {
          sent.wait();
        }});
  });
  router.BringUp("worker-1");
  router.Send("worker-1", Request(1, 8, 900));
  router.Send("worker-1", wire::Cancel{RequestId(1)});
  // The worker reads its messages in order: when it answers this one, the engine has received the cancel.
  router.Send("worker-1", wire::WantTokenizer{});
  (void)router.Next<wire::Tokenizer>("worker-1");
  cancel_sent.set_value();
  EXPECT_EQ(router.Finish("worker-1", RequestId(1)).finish, wire::FinishReason::kCancelled);
}

TEST_F(WorkerTest, RequestThatCanNeverRunIsAnError) {
  TestRouter router(1);
  const auto worker = Start("worker-1", {router.endpoint()});
  router.BringUp("worker-1");
  router.Send("worker-1", Request(1, 5000, 1));
  const TestRouter::Answer answer = router.Finish("worker-1", RequestId(1));
  EXPECT_EQ(answer.finish, wire::FinishReason::kError);
  ASSERT_TRUE(answer.error.has_value());
}

TEST_F(WorkerTest, BeginsAnewAfterAMalformedMessage) {
  TestRouter router(1);
  const auto worker = Start("worker-1", {router.endpoint()});
  const wire::Hello before = router.BringUp("worker-1");
  router.SendFrame("worker-1", wire::Bytes(24, std::byte{0xff}));
  EXPECT_NE(router.BringUp("worker-1").epoch, before.epoch);
  router.Send("worker-1", Request(1, 8, 3));
  EXPECT_EQ(router.Finish("worker-1", RequestId(1)).tokens.size(), 3U);
  EXPECT_NE(
      worker->metrics().Text().find("roost_worker_malformed_messages_total{model=\"fake\",worker=\"worker-1\"} 1"),
      std::string::npos);
}

TEST_F(WorkerTest, SendsItsTokenizer) {
  TestRouter router(1);
  const auto worker = Start("worker-1", {router.endpoint()},
                            [](WorkerSetup& setup) { setup.tokenizer.tokenizer_json.assign(20'000'000, 'x'); });
  const wire::Hello hello = router.BringUp("worker-1");
  router.Send("worker-1", wire::WantTokenizer{});
  const auto bundle = router.Next<wire::Tokenizer>("worker-1");
  EXPECT_EQ(bundle.tokenizer_json.size(), 20'000'000U);
  EXPECT_EQ(bundle.digest, hello.tokenizer_digest);
  EXPECT_EQ(wire::DigestOf(bundle), hello.tokenizer_digest);
}

TEST_F(WorkerTest, DrainsThenSaysGoodbye) {
  TestRouter router(1);
  const auto worker = Start("worker-1", {router.endpoint()});
  router.BringUp("worker-1");
  router.Send("worker-1", Request(1, 8, 400));
  // Its first tokens have come: the worker has the request.
  (void)router.NextWhere<wire::Step>("worker-1", [&router](const wire::Step& step) {
    router.next_sequence = step.sequence + 1;
    return !step.tokens.empty();
  });
  worker->BeginDrain();
  EXPECT_EQ(router.Finish("worker-1", RequestId(1)).finish, wire::FinishReason::kLength);
  EXPECT_TRUE(worker->WaitForDrained(TestRouter::kPatience));
  worker->Stop();
  (void)router.Next<wire::Bye>("worker-1");
}

// ---- over HTTP ----

std::string Get(const WorkerGroup& worker, const std::string& path) {
  const auto endpoint = wire::ParseEndpoint("tcp" + worker.url().substr(4));
  EXPECT_TRUE(endpoint.ok()) << worker.url();
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(endpoint->port);
  EXPECT_EQ(inet_pton(AF_INET, endpoint->host.c_str(), &address.sin_addr), 1);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  const std::string request = "GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
  EXPECT_EQ(write(fd, request.data(), request.size()), static_cast<ssize_t>(request.size()));
  std::string answer;
  char buffer[4096];
  for (ssize_t n = 0; (n = read(fd, buffer, sizeof(buffer))) > 0;) answer.append(buffer, static_cast<std::size_t>(n));
  close(fd);
  return answer;
}

void ExpectStatus(const WorkerGroup& worker, const std::string& path, int status) {
  EXPECT_THAT(Get(worker, path), StartsWith("HTTP/1.1 " + std::to_string(status)));
}

// Asks until the answer has this status; returns the last answer.
std::string GetUntil(const WorkerGroup& worker, const std::string& path, int status) {
  const auto deadline = std::chrono::steady_clock::now() + TestRouter::kPatience;
  std::string answer;
  do {
    answer = Get(worker, path);
  } while (!answer.starts_with("HTTP/1.1 " + std::to_string(status)) && std::chrono::steady_clock::now() < deadline);
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 " + std::to_string(status)));
  return answer;
}

TEST_F(WorkerTest, ServesItsMetrics) {
  TestRouter router(1);
  const auto worker = StartGroup({"worker-1"}, {router.endpoint()});
  router.BringUp("worker-1");
  router.Send("worker-1", Request(1, 40, 5));
  (void)router.Finish("worker-1", RequestId(1));
  router.Send("worker-1", Request(2, 40, 5));
  (void)router.Finish("worker-1", RequestId(2));
  const std::string text = Get(*worker, "/metrics");
  EXPECT_EQ(text.find("HTTP/1.1 200"), 0U) << text.substr(0, 100);
  for (const char* line : {"roost_build_info{model=\"fake\",worker=\"worker-1\",revision=\"\",version=\"\"} 1",
                           "roost_worker_prompt_tokens_total{model=\"fake\",worker=\"worker-1\"} 80",
                           "roost_worker_output_tokens_total{model=\"fake\",worker=\"worker-1\"} 10",
                           "roost_worker_links{model=\"fake\",worker=\"worker-1\",state=\"up\"} 1",
                           "roost_worker_ttft_seconds_count{model=\"fake\",worker=\"worker-1\"} 2",
                           "roost_worker_inter_token_seconds_count{model=\"fake\",worker=\"worker-1\"} 8"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  }
  EXPECT_EQ(text.find("exposer_"), std::string::npos);
}

TEST_F(WorkerTest, IsReadyWhileARouterHasAcceptedItAndNoDrainHasBegun) {
  TestRouter router(1);
  const auto worker = StartGroup({"worker-1"}, {router.endpoint()});
  ExpectStatus(*worker, "/health", 200);
  EXPECT_THAT(GetUntil(*worker, "/ready", 503), HasSubstr("connecting"));
  const auto hello = router.Next<wire::Hello>("worker-1");
  router.Send("worker-1", wire::Refused{hello.epoch, "its name is taken", wire::RefusalCause::kNameTaken});
  std::string refused;
  while ((refused = Get(*worker, "/ready")).find("its name is taken") == std::string::npos && !HasFailure()) {
    ASSERT_THAT(refused, StartsWith("HTTP/1.1 503"));
  }
  EXPECT_THAT(refused, HasSubstr(R"("status":"refused")"));
  router.BringUp("worker-1");
  GetUntil(*worker, "/ready", 200);
  worker->BeginDrain();
  EXPECT_THAT(Get(*worker, "/ready"), HasSubstr(R"("status":"draining")"));
  ExpectStatus(*worker, "/livez", 200);
}

TEST_F(WorkerTest, WorkersOfOneProcessHaveOneListener) {
  TestRouter router(1);
  const auto workers = StartGroup({"worker/0", "worker/1"}, {router.endpoint()});
  router.BringUp("worker/0");
  EXPECT_THAT(Get(*workers, "/ready"), HasSubstr("connecting")) << "the other one is not welcome yet";
  EXPECT_FALSE(workers->WaitForRouter(std::chrono::milliseconds(0)));
  router.BringUp("worker/1");
  GetUntil(*workers, "/ready", 200);
  EXPECT_TRUE(workers->WaitForRouter(TestRouter::kPatience));
  const std::string text = Get(*workers, "/metrics");
  for (const char* line : {"roost_worker_links{model=\"fake\",worker=\"worker/0\",state=\"up\"} 1",
                           "roost_worker_links{model=\"fake\",worker=\"worker/1\",state=\"up\"} 1"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  }
  for (const char* once : {"# TYPE roost_worker_links gauge", "process_start_time_seconds{"}) {
    EXPECT_EQ(text.find(once), text.rfind(once)) << once;
    EXPECT_NE(text.find(once), std::string::npos) << once;
  }
  workers->BeginDrain();
  EXPECT_TRUE(workers->WaitForDrained(TestRouter::kPatience));
  EXPECT_THAT(Get(*workers, "/ready"), HasSubstr(R"("status":"draining")"));
  workers->Stop();
  (void)router.Next<wire::Bye>("worker/0");
  (void)router.Next<wire::Bye>("worker/1");
}

TEST(WorkerGroupTest, ARouterStandsAsWithTheWorkerThatItLikesLeast) {
  using enum LinkStanding;
  const std::vector<RouterStatus> worst =
      WorstOf({{{"a", kUp}, {"b", kConnecting}}, {{"a", kRefused, "its name is taken"}, {"b", kUp}}, {{"c", kUp}}});
  EXPECT_EQ(worst, (std::vector<RouterStatus>{{"a", kRefused, "its name is taken"}, {"b", kConnecting}, {"c", kUp}}));
}

TEST_F(WorkerTest, IsNotAliveWhileAStepHangs) {
  TestRouter router(1);
  std::promise<void> step_may_end;
  const auto worker = StartGroup({"worker-1"}, {router.endpoint()}, [&step_may_end](WorkerSetup& setup) {
    setup.stall_timeout = std::chrono::milliseconds(20);
    setup.own.model = std::make_unique<FakeModel>(FakeModel::Options{
        .block_tokens = kBlockTokens, .block_count = 256, .before_forward = [end = step_may_end.get_future().share()] {
          end.wait();
        }});
  });
  router.BringUp("worker-1");
  ExpectStatus(*worker, "/livez", 200);
  router.Send("worker-1", Request(1, 8, 3));
  EXPECT_THAT(GetUntil(*worker, "/livez", 503), HasSubstr("the engine thread has work"));
  EXPECT_GT(worker->LongestStep(), std::chrono::milliseconds(20));
  ExpectStatus(*worker, "/health", 200);
  step_may_end.set_value();
  EXPECT_EQ(router.Finish("worker-1", RequestId(1)).tokens.size(), 3U);
  GetUntil(*worker, "/livez", 200);
}

TEST_F(WorkerTest, BadSetupsAreErrorsThatNameTheField) {
  const auto expect_error = [](const char* field, const std::function<void(WorkerSetup&)>& spoil) {
    WorkerSetup setup;
    setup.own.model = std::make_unique<FakeModel>(FakeModel::Options{});
    setup.hello.worker_id = "w";
    setup.hello.model = "m";
    setup.routers = {"tcp://127.0.0.1:1"};
    spoil(setup);
    std::vector<WorkerSetup> setups;
    setups.push_back(std::move(setup));
    const auto worker = WorkerGroup::Start(std::move(setups));
    ASSERT_FALSE(worker.ok()) << field;
    EXPECT_EQ(worker.error().field, field);
  };
  expect_error("worker-id", [](WorkerSetup& setup) { setup.hello.worker_id = std::string(300, 'w'); });
  expect_error("served-model-name", [](WorkerSetup& setup) { setup.hello.model = ""; });
  expect_error("eos_token", [](WorkerSetup& setup) { setup.tokenizer.eos_token = std::string(5'000, 'e'); });
  expect_error("router", [](WorkerSetup& setup) { setup.routers = {"localhost"}; });
  expect_error("router", [](WorkerSetup& setup) { setup.routers.clear(); });
  expect_error("metrics-address", [](WorkerSetup& setup) { setup.listener.address = "here"; });
  expect_error("metrics-address", [](WorkerSetup& setup) { setup.listener.address = "0.0.0.0:0"; });
  expect_error("tls-key", [](WorkerSetup& setup) {
    setup.listener = {.address = "127.0.0.1:0", .tls = {.certificate = "a.pem", .key = "", .client_ca = ""}};
  });
}

}  // namespace
}  // namespace roost::worker
