// The answers of each path and method, and the routes that generate nothing.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "tests/router/api/api_fixture.h"

namespace roost::router {
namespace {

using ::testing::ElementsAre;

TEST_F(ApiTest, OperatorsSeeWhatAChatTemplateLeavesOut) {
  ServedModel model = ByteModel();
  model.chat_template = ChatTemplate::Parse(
                            "{% for m in messages if m.role in ['user', 'assistant', 'system'] %}"
                            "{{ m.role + ' ' + (m.content or '') }}{% endfor %}",
                            "t")
                            .value();
  Serve(std::move(model));
  const auto facts = Ask("GET", "/admin/v1/models");
  EXPECT_EQ(At(facts->response->body, "/models/0/id"), R"("bytes")");
  const std::string losses = At(facts->response->body, "/models/0/chat_template_losses");
  EXPECT_NE(losses.find("drops a developer message: it is given as a system message"), std::string::npos) << losses;
  EXPECT_NE(losses.find("drops tools: the model does not see them"), std::string::npos) << losses;
}

WorkerStatus WorkerOf(std::string model, WorkerState state) {
  WorkerStatus worker;
  worker.model = std::move(model);
  worker.state = state;
  worker.ready = state != WorkerState::kStarting && state != WorkerState::kStalled;
  return worker;
}

TEST_F(ApiTest, ReadyTellsOfEachModelAndOfTheOneThatIsAskedFor) {
  dispatcher_.workers = {WorkerOf("bytes", WorkerState::kReady), WorkerOf("bytes", WorkerState::kCordoned),
                         WorkerOf("bytes", WorkerState::kReady), WorkerOf("other", WorkerState::kDraining)};
  dispatcher_.workers[0].adapters = {"a/b"};
  EXPECT_EQ(Ask("GET", "/ready")->response->body,
            R"({"status":"ready","ready_workers":2,"models":[{"id":"bytes","ready":true,"ready_workers":2},)"
            R"({"id":"other","ready":false,"ready_workers":0}]})");
  dispatcher_.standing.models = {{"gone", {}, 0}, {"bytes", {}, 0}};
  EXPECT_EQ(At(Ask("GET", "/ready")->response->body, "/models/1"), R"({"id":"gone","ready":false,"ready_workers":0})")
      << "as the verdict has it";
  const auto ready_of = [this](std::string query) {
    HttpRequest request;
    request.method = "GET";
    request.path = "/ready";
    request.query = std::move(query);
    return *Handle(std::move(request))->response;
  };
  EXPECT_EQ(ready_of("model=bytes").body, R"({"status":"ready","model":"bytes","ready_workers":2})");
  EXPECT_EQ(ready_of("model=a%2Fb").body, R"({"status":"ready","model":"a/b","ready_workers":1})");
  EXPECT_EQ(ready_of("verbose").status, 200);
  dispatcher_.expected = "other";
  EXPECT_EQ(ready_of("model=other").status, 503);
  EXPECT_EQ(ready_of("model=nobody").status, 404);
  dispatcher_.workers = {WorkerOf("bytes", WorkerState::kCordoned), WorkerOf("bytes", WorkerState::kEjected),
                         WorkerOf("bytes", WorkerState::kStalled), WorkerOf("bytes", WorkerState::kDraining),
                         WorkerOf("bytes", WorkerState::kAway)};
  EXPECT_EQ(ready_of("").status, 503);
}

TEST_F(ApiTest, HealthIsAlwaysOkAndReadyNeedsAWorker) {
  EXPECT_EQ(Ask("GET", "/health")->response->status, 200);
  const auto not_ready = Ask("GET", "/ready");
  EXPECT_EQ(not_ready->response->status, 503);
  EXPECT_EQ(At(not_ready->response->body, "/error/message"), "\"no worker is ready\"");
  dispatcher_.workers.resize(2);
  EXPECT_EQ(Ask("GET", "/ready")->response->status, 503);
  dispatcher_.workers[1].ready = true;
  EXPECT_EQ(At(Ask("GET", "/ready")->response->body, "/ready_workers"), "1");
  api_.BeginDrain();
  EXPECT_EQ(Ask("GET", "/ready")->response->status, 503);
  EXPECT_EQ(Ask("GET", "/health")->response->status, 200);
}

TEST_F(ApiTest, TellsModelsVersionAndMetrics) {
  const std::string model =
      R"({"id":"bytes","object":"model","created":1700000000,"owned_by":"roost","max_model_len":200,"block_tokens":4})";
  EXPECT_EQ(Ask("GET", "/v1/models")->response->body, R"({"object":"list","data":[)" + model + "]}");
  EXPECT_EQ(Ask("GET", "/v1/models/bytes")->response->body, model);
  EXPECT_EQ(Ask("GET", "/v1/models/%62ytes")->response->body, model);
  EXPECT_EQ(Ask("GET", "/version")->response->body, R"({"version":"1.2.3"})");
  const auto metrics = Ask("GET", "/metrics");
  EXPECT_EQ(metrics->response->body, "roost_up 1\n");
  EXPECT_EQ(metrics->response->content_type, "text/plain; version=0.0.4; charset=utf-8");
}

TEST_F(ApiTest, FindsModelsWhoseNamesHaveSlashes) {
  ServedModel model = ByteModel();
  model.name = "org/bytes";
  Serve(std::move(model));
  EXPECT_EQ(Ask("GET", "/v1/models/org/bytes")->response->status, 200);
  EXPECT_EQ(Ask("GET", "/v1/models/org%2Fbytes")->response->status, 200);
  const auto missing = Ask("GET", "/v1/models/org%2");
  EXPECT_EQ(missing->response->status, 404);
  EXPECT_EQ(At(missing->response->body, "/error/code"), "\"model_not_found\"");
}

TEST_F(ApiTest, AnAdapterIsAModelToItsClients) {
  const auto model = std::make_shared<const ServedModel>(ByteModel());
  auto adapter = std::make_shared<ServedModel>(*model);
  adapter->base = std::exchange(adapter->name, "poet");
  dispatcher_.models = {model, adapter};
  EXPECT_EQ(At(Ask("GET", "/v1/models")->response->body, "/data/1/parent"), "\"bytes\"");
  EXPECT_EQ(At(Ask("GET", "/v1/models/poet")->response->body, "/id"), "\"poet\"");
  const auto answer = Complete(R"({"model":"poet","prompt":"abcdefgh"})");
  (void)Complete(R"({"model":"bytes","prompt":"abcdefgh"})");
  ASSERT_EQ(dispatcher_.specs.size(), 2U);
  EXPECT_EQ(dispatcher_.specs[0].model->adapter(), "poet");
  EXPECT_EQ(dispatcher_.specs[0].generate.prompt, dispatcher_.specs[1].generate.prompt);
  EXPECT_NE(dispatcher_.specs[0].generate.root, dispatcher_.specs[1].generate.root);
  EXPECT_NE(dispatcher_.specs[0].generate.block_hashes, dispatcher_.specs[1].generate.block_hashes);
  dispatcher_.observers[0]->OnEnd({.reason = wire::FinishReason::kLength, .error = {}});
  EXPECT_EQ(At(answer->response->body, "/model"), "\"poet\"");
  EXPECT_EQ(Ask("POST", "/tokenize", R"({"prompt":"ab"})")->response->status, 200) << "one model beside its adapters";
}

TEST_F(ApiTest, UnknownPathsAndMethodsAnswerJson) {
  const auto nowhere = Ask("GET", "/sleep");
  EXPECT_EQ(nowhere->response->status, 404);
  EXPECT_EQ(At(nowhere->response->body, "/error/message"),
            "\"there is no /sleep: call the engine that has it itself, or name it in --pass-through\"");
  EXPECT_EQ(Ask("GET", "/v1/models/")->response->status, 404);
  const auto wrong = Ask("GET", "/v1/chat/completions");
  EXPECT_EQ(wrong->response->status, 405);
  EXPECT_EQ(HeaderOf(wrong->response->headers, "Allow"), "POST, OPTIONS");
  EXPECT_EQ(At(wrong->response->body, "/error/message"),
            "\"/v1/chat/completions does not take GET: it takes POST, OPTIONS\"");
  EXPECT_EQ(HeaderOf(Ask("DELETE", "/v1/models/bytes")->response->headers, "Allow"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(Ask("HEAD", "/health")->response->status, 200);
  const auto options = Ask("OPTIONS", "/v1/completions");
  EXPECT_EQ(options->response->status, 204);
  EXPECT_EQ(HeaderOf(options->response->headers, "Allow"), "POST, OPTIONS");
  EXPECT_EQ(Ask("OPTIONS", "*")->response->status, 204);
  EXPECT_THAT(observer_.answers,
              ElementsAre("other 404", "other 404", "other 405", "other 405", "health 200", "other 204", "other 204"));
}

// Clients that try a WebSocket first go on with HTTP then.
TEST_F(ApiTest, AWebSocketIsAnsweredUpgradeRequired) {
  HttpRequest request;
  request.method = "GET";
  request.path = "/v1/responses";
  request.headers = {{"connection", "Upgrade"}, {"upgrade", "websocket"}};
  const auto answer = Handle(std::move(request));
  EXPECT_EQ(answer->response->status, 426);
  EXPECT_EQ(HeaderOf(answer->response->headers, "Upgrade"), "HTTP/1.1");
  EXPECT_EQ(At(answer->response->body, "/error/message"),
            "\"/v1/responses does not take WebSockets: it takes POST, OPTIONS\"");
}

TEST_F(ApiTest, ABodyIsTakenAsItIsAlone) {
  const auto post = [&](const char* coding) {
    HttpRequest request;
    request.method = "POST";
    request.path = "/v1/completions";
    request.body = std::string("no JSON");
    request.headers = {{"content-type", "application/json"}, {"content-encoding", coding}};
    return Handle(std::move(request));
  };
  EXPECT_EQ(post("identity")->response->status, 400);
  for (const char* coding : {"gzip", "zstd", "br", "identity, gzip"}) {
    const auto answer = post(coding);
    EXPECT_EQ(answer->response->status, 415) << coding;
    EXPECT_THAT(At(answer->response->body, "/error/message"), testing::HasSubstr(coding));
  }
}

TEST_F(ApiTest, APathThatIsServedElsewhereSaysWhere) {
  const auto message = [this](Listener listener, const char* path) {
    HttpRequest request;
    request.method = "GET";
    request.path = path;
    return At(Handle(listener, std::move(request))->response->body, "/error/message");
  };
  EXPECT_EQ(message(Listener::kApi, "/v1/nowhere"), R"("there is no /v1/nowhere")");
  EXPECT_EQ(message(Listener::kApi, "/admin/v1/workers"),
            R"("there is no /admin/v1/workers: it is at --admin-address")");
  EXPECT_EQ(message(Listener::kApi, "/console"), R"("there is no /console: it is at --admin-address")");
  EXPECT_EQ(message(Listener::kApi, "/metrics"), R"("there is no /metrics: it is at --metrics-address")");
  EXPECT_EQ(message(Listener::kAdmin, "/v1/models"), R"("there is no /v1/models: it is at --http-address")");
}

TEST_F(ApiTest, APostMustSayThatItIsJson) {
  const auto post = [&](std::string path, std::optional<std::string> type) {
    HttpRequest request;
    request.method = "POST";
    request.path = std::move(path);
    request.body = std::string("no JSON");
    if (type) request.headers = {{"content-type", *type}};
    return Handle(std::move(request));
  };
  for (const char* type :
       {"application/json", "Application/JSON; charset=utf-8", "application/json ;x", "application/x+json"}) {
    EXPECT_EQ(post("/v1/completions", type)->response->status, 400) << type;
  }
  for (const std::optional<std::string>& type : std::initializer_list<std::optional<std::string>>{
           std::nullopt, "", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
           "application/jsonx", "application/+json", "text/json", "text/plain; application/json"}) {
    for (const char* path : {"/v1/completions", "/v1/chat/completions", "/admin/v1/pin", "/admin/v1/unpin"}) {
      const auto responder = post(path, type);
      EXPECT_EQ(responder->response->status, 415) << type.value_or("none");
      EXPECT_EQ(At(responder->response->body, "/error/type"), "\"invalid_request_error\"");
      EXPECT_EQ(At(responder->response->body, "/error/code"), "\"unsupported_media_type\"");
    }
  }
  EXPECT_EQ(observer_.answers.back(), "unpin 415");
}

TEST_F(ApiTest, ShowsWorkers) {
  WorkerStatus worker;
  worker.worker_id = "w1";
  worker.model = "bytes";
  worker.ready = true;
  worker.state = WorkerState::kCordoned;
  worker.seconds_since_heard = 0.25;
  worker.load.waiting_requests = 1;
  worker.load.running_requests = 2;
  worker.load.queued_prefill_tokens = 30;
  worker.load.free_block_count = 4;
  worker.load.cached_block_count = 5;
  worker.load.pinned_block_count = 3;
  worker.block_count = 9;
  worker.block_tokens = 16;
  worker.in_flight_requests = 3;
  worker.indexed_block_count = 5;
  worker.index_in_sync = true;
  worker.requests_total = 77;
  worker.totals = {
      .prompt_tokens = 700, .cached_tokens = 500, .first_tokens = 70, .ttft_seconds = 3.5, .output_tokens = 900};
  worker.version = {.major = 2, .minor = 2, .release = "0.1.0"};
  worker.fingerprint = "f1";
  worker.kv_dtype = "f32";
  worker.adapters = {"poet"};
  worker.share = {.taken = 2, .decisions = 50, .why = "answers would take longer there"};
  dispatcher_.workers = {worker};
  worker.engine = "vllm 0.32.0";
  worker.cache_absence = "no events";
  worker.host = "node-7";
  worker.compute = {.threads = 2, .machine = 0xabc, .machine_cores = 4, .cpu_group = 0x1d, .cpu_group_cores = 3};
  worker.transfer = {.address = "10.0.0.5:7100",
                     .layout = 0xfe,
                     .numerics = 0x1,
                     .secret = "5ec7e75ec7e75ec7e75ec7e75ec7e75ec7e75ec7e75ec7e75ec7e75ec7e75ec7"};
  worker.load.saved_prefill_seconds = 12.5;
  worker.load.arriving_bytes = 4096;
  worker.cache_value_seconds = 7.5;
  dispatcher_.workers = {worker};
  const std::string body = Ask("GET", "/admin/v1/workers")->response->body;
  const std::string told =
      R"("workers":[{"id":"w1","model":"bytes","state":"cordoned","ready":true,"seconds_since_heard":0.25,)"
      R"("waiting_requests":1,)"
      R"("running_requests":2,"queued_prefill_tokens":30,"free_blocks":4,"cached_blocks":5,"pinned_blocks":3,)"
      R"("saved_prefill_seconds_total":12.5,"arriving_bytes":4096,"leaving_bytes":0,"told_share":0,"tier_cached_tokens_total":0,)"
      R"("computed_prefill_seconds_total":0,"disk_blocks":0,"disk_bytes_per_second":0,"engine_away_seconds":0,)"
      R"("engine_absence":"","blocks":9,)"
      R"("block_tokens":16,"in_flight_requests":3,"indexed_blocks":5,"index_in_sync":true,"mode":"exact","cache_absence":"no events","unread":false,)"
      R"("requests_total":77,"share":{"taken":2,"of":50,"why":"answers would take longer there"},"prompt_tokens_total":700,"cached_tokens_total":500,"output_tokens_total":900,)"
      R"("first_tokens_total":70,"ttft_seconds_total":3.5,"cache_value_seconds":7.5,"release":"0.1.0","protocol":"2.2","fingerprint":"f1",)"
      R"("kv_dtype":"f32","adapters":["poet"],"role":"both","host":"node-7","engine":"vllm 0.32.0","threads":2,"machine":"0000000000000abc","machine_cores":4,"cpu_group":"000000000000001d",)"
      R"("cpu_group_cores":3,"transfer":{"address":"10.0.0.5:7100","layout":"00000000000000fe",)"
      R"("numerics":"0000000000000001"}}])";
  EXPECT_THAT(body, testing::HasSubstr(told));
  EXPECT_THAT(body, testing::Not(testing::HasSubstr("5ec7e7"))) << "the secret of its transfers";
}

// 1'800'000'000 is 08:00:00 UTC.
TEST_F(ApiTest, WorkersBeginWithAVerdictAndTellWhoWasLost) {
  dispatcher_.standing = {
      .up_seconds = 3600,
      .models = {{.model = "bytes", .workers = {}, .seconds = 8 * 60}},
      .lost = {{"worker-b", "bytes", "silent", 6, {.moved = 3, .waiting = 0, .failed = 1}, false},
               {"worker-a", "bytes", "stalled", 400, {}, false},
               {"worker-c", "bytes", "silent", 500, {}, true}},
      .events = {{6, "bytes", "worker-b", "lost (silent): 3 requests continue elsewhere"}},
  };
  const std::string body = Ask("GET", "/admin/v1/workers")->response->body;
  const std::string_view text =
      "no worker takes requests since 07:52 UTC; worker-b, worker-a lost 6 s ago (silent); of their requests 3 "
      "continue "
      "elsewhere, 1 failed";
  EXPECT_THAT(body, testing::StartsWith(fmt::format(R"({{"verdict":{{"level":"down","text":"bytes: {}"}},"models":[)"
                                                    R"({{"id":"bytes","level":"down","text":"{}","ready_workers":0,)"
                                                    R"("workers":0,"since_unix_seconds":1799999520}}])",
                                                    text, text)));
  EXPECT_THAT(body, testing::HasSubstr(R"({"id":"worker-b","model":"bytes","reason":"silent","seconds_ago":6,)"
                                       R"("unix_seconds":1799999994,"back":false,"moved_requests":3,)"
                                       R"("waiting_requests":0,"failed_requests":1})"));
  EXPECT_THAT(body,
              testing::EndsWith(R"("events":[{"seconds_ago":6,"unix_seconds":1799999994,"model":"bytes",)"
                                R"("worker":"worker-b","what":"lost (silent): 3 requests continue elsewhere"}]})"));
}

TEST_F(ApiTest, TheVerdictNamesTheWorstModelsFirstAndWhatIsMissing) {
  const auto verdict = [this] {
    const std::string body = Ask("GET", "/admin/v1/workers")->response->body;
    return body.substr(0, body.find("},\"models\""));
  };
  EXPECT_THAT(verdict(), testing::HasSubstr("no worker is connected; the router began at 08:00 UTC"));
  WorkerStatus ready;
  ready.worker_id = "a";
  ready.model = "bytes";
  ready.state = WorkerState::kReady;
  WorkerStatus cordoned = ready;
  cordoned.worker_id = "b";
  cordoned.state = WorkerState::kCordoned;
  dispatcher_.workers = {ready};
  dispatcher_.standing.models = {{.model = "bytes", .workers = {}, .seconds = 60}};
  EXPECT_THAT(verdict(), testing::HasSubstr(R"("ok","text":"bytes: 1 worker takes requests since 07:59 UTC")"));
  dispatcher_.workers = {ready, cordoned};
  EXPECT_THAT(verdict(),
              testing::HasSubstr(R"("degraded","text":"bytes: 1 of 2 workers take requests; b is cordoned")"));
  WorkerStatus away = ready;
  away.worker_id = "v1/0";
  away.state = WorkerState::kAway;
  away.load.engine_away_ms = 17 * 60 * 1000;
  away.load.engine_absence = "connection refused";
  WorkerStatus other_rank = away;
  other_rank.worker_id = "v1/1";
  dispatcher_.workers = {ready, away, other_rank};
  EXPECT_THAT(verdict(), testing::HasSubstr("1 of 3 workers take requests; v1/0, v1/1: their engine can not be reached "
                                            "since 07:43 UTC (connection refused)"));
  dispatcher_.workers = {ready, cordoned};
  dispatcher_.standing.models.push_back({.model = "other", .workers = {}, .seconds = 0});
  EXPECT_THAT(verdict(),
              testing::HasSubstr(R"("down","text":"other: no worker takes requests since 08:00 UTC | bytes: 1)"));
  dispatcher_.workers = {ready};
  dispatcher_.standing.models.back().left_on_its_own = true;
  EXPECT_THAT(verdict(), testing::HasSubstr(R"("ok","text":"bytes: 1 worker takes requests since 07:59 UTC | other: )"
                                            R"(was stopped at 08:00 UTC")"));
  dispatcher_.queues = {{.model = "other", .waiting_requests = 1}};
  EXPECT_THAT(verdict(), testing::HasSubstr(R"("down","text":"other: no worker takes requests)"));
}

TEST_F(ApiTest, QueuesTellWhatWaitsAtTheRouter) {
  EXPECT_EQ(Ask("GET", "/admin/v1/queues")->response->body, R"({"queues":[]})");
  dispatcher_.queues = {{.model = "bytes", .waiting_requests = 3, .oldest_wait_seconds = 1.5, .drain_seconds = 2}};
  EXPECT_EQ(Ask("GET", "/admin/v1/queues")->response->body,
            R"({"queues":[{"model":"bytes","waiting_requests":3,"oldest_wait_seconds":1.5,"drain_seconds":2}]})");
}

TEST_F(ApiTest, TransfersTellEachPairOfWorkers) {
  EXPECT_EQ(Ask("GET", "/admin/v1/transfers")->response->body, R"({"pulls":"on","pairs":[]})");
  dispatcher_.requests_pull = false;
  dispatcher_.transfers = {{.from = "worker-a",
                            .to = "worker-b",
                            .model = "bytes",
                            .start_seconds = 0.25,
                            .bytes_per_second = 2e9,
                            .in_flight_count = 1,
                            .done_count = 7,
                            .failed_count = 2,
                            .last_outcome = "broken",
                            .last_cause = "silent",
                            .paused_seconds = 1.5},
                           {.from = "worker-b",
                            .to = "worker-a",
                            .model = "bytes",
                            .start_seconds = {},
                            .bytes_per_second = {},
                            .in_flight_count = 1,
                            .last_outcome = {},
                            .last_cause = {}}};
  EXPECT_EQ(
      Ask("GET", "/admin/v1/transfers")->response->body,
      R"({"pulls":"off","pairs":[{"from":"worker-a","to":"worker-b","model":"bytes","bytes_per_second":2000000000,)"
      R"("start_seconds":0.25,"in_flight":1,"done":7,"failed":2,"last_outcome":"broken",)"
      R"("last_cause":"silent","paused_seconds":1.5},)"
      R"({"from":"worker-b","to":"worker-a","model":"bytes","bytes_per_second":null,"start_seconds":null,)"
      R"("in_flight":1,"done":0,"failed":0,"last_outcome":null,"last_cause":null,"paused_seconds":0}]})");
}

}  // namespace
}  // namespace roost::router
