// A AdapterEngine beside an engine that the test plays.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "tests/worker/adapters/fake_http.h"
#include "tests/worker/adapters/recordings.h"
#include "worker/adapters/host/adapter_engine.h"

namespace roost::worker::adapters::testing_support {

inline constexpr const char* kCompletions = "/v1/completions";

// The pages of an engine of 71 blocks of 32 tokens, with a context of 2,048.
inline std::string MetricsText(double started_at, double computed = 100, int running = 0, int waiting = 0,
                               double used_share = 0.5) {
  return "vllm:cache_config_info{block_size=\"32\",num_gpu_blocks=\"72\"} 1\nvllm:num_requests_running{} " +
         std::to_string(running) + "\nvllm:num_requests_waiting{} " + std::to_string(waiting) +
         "\nvllm:kv_cache_usage_perc{} " + std::to_string(used_share) + "\nvllm:generation_tokens_total{} " +
         std::to_string(computed) + "\nprocess_start_time_seconds " + std::to_string(started_at) + "\n";
}

class AdapterEngineFixture : public ::testing::Test {
 protected:
  static EngineFacts Facts() {
    return {.version = "0.32.0",
            .model = "demo-model",
            .block_tokens = 32,
            .block_count = 71,
            .max_context_tokens = 2048,
            .started_at = 1000};
  }
  static wire::Generate Request(std::uint64_t id) {
    wire::Generate generate;
    generate.request_id = RequestId(id);
    generate.prompt.assign(40, 7);
    generate.sampling.temperature = 0;
    generate.max_output_tokens = 6;
    return generate;
  }
  AdapterEngine& engine() {
    if (engine_ == nullptr) engine_ = std::make_unique<AdapterEngine>(*protocol_, facts_, options_, clock_, http_);
    return *engine_;
  }

  // ---- requests ----
  void Submit(const wire::Generate& generate) { ASSERT_TRUE(engine().Submit(kLink, generate).ok()); }
  Error Refusal(const wire::Generate& generate) {
    const Result<void> taken = engine().Submit(kLink, generate);
    EXPECT_FALSE(taken.ok());
    return taken.ok() ? Error() : taken.error();
  }
  static RequestKey Key(std::uint64_t id) { return {kLink, RequestId(id)}; }

  // ---- the engine's side ----
  [[nodiscard]] std::vector<FakeHttp::Sent> Calls() const { return http_.Open(kCompletions); }
  [[nodiscard]] CallId CallAt(std::size_t index) const { return Calls().at(index).id; }
  void Status(CallId call, int status) { engine().OnHttp({call, HttpStatus{status}}); }
  void Bytes(CallId call, std::string bytes) { engine().OnHttp({call, HttpBytes{std::move(bytes)}}); }
  void End(CallId call, CallEnd how = CallEnd::kComplete) {
    http_.ended.insert(call);
    engine().OnHttp({call, HttpEnd{how, "as the test wants"}});
  }
  void Answer(CallId call, int status, std::string body) {
    Status(call, status);
    Bytes(call, std::move(body));
    End(call);
  }
  void AnswerRecorded(CallId call, const std::string& name) {
    const Recording recording = ReadAnswer(name);
    Answer(call, recording.status, recording.body);
  }
  void Chunk(CallId call, TokenId token, const std::string& finish = "null") {
    Bytes(call, R"(data: {"choices":[{"index":0,"text":"","finish_reason":)" + finish +
                    R"(,"stop_reason":null,"token_ids":[)" + std::to_string(token) + "]}]}\n\n");
  }
  void Usage(CallId call, int cached) {
    Bytes(call, R"(data: {"choices":[],"usage":{"prompt_tokens_details":{"cached_tokens":)" + std::to_string(cached) +
                    "}}}\n\ndata: [DONE]\n\n");
  }
  // Answers the oldest open call to a page.
  void Page(const std::string& path, int status, std::string body = "") {
    const auto open = http_.Open(path);
    ASSERT_FALSE(open.empty()) << path;
    Answer(open.front().id, status, std::move(body));
  }
  // The pages that an engine is asked when it comes back.
  void AnswerRound(double started_at = 1000) {
    engine().Tick();
    Page("/health", 200);
    Page("/openapi.json", 200, R"({"paths":{"/v1/completions":{"post":{}}}})");
    Page("/version", 200, R"({"version":"0.32.0"})");
    Page("/v1/models", 200, ReadAnswer("page-v1-models").body);
    Page("/metrics", 200, MetricsText(started_at));
    engine().Tick();
  }
  // Without answers, pages would be asked for only once.
  void AnswerPages(double computed = 100) {
    engine().Tick();
    if (!http_.Open("/health").empty()) Page("/health", 200);
    if (!http_.Open("/metrics").empty()) Page("/metrics", 200, MetricsText(1000, computed));
  }

  // ---- what the worker reports ----
  StepReport Report() { return engine().TakeReport(); }
  std::vector<wire::TokenEvent> Events() {
    std::vector<wire::TokenEvent> events;
    for (RequestEvent& event : Report().tokens) events.push_back(std::move(event.event));
    return events;
  }
  static std::vector<TokenId> Tokens(const std::vector<wire::TokenEvent>& events, std::uint32_t choice = 0) {
    std::vector<TokenId> tokens;
    for (const wire::TokenEvent& event : events) {
      if (event.choice == choice) tokens.insert(tokens.end(), event.tokens.begin(), event.tokens.end());
    }
    return tokens;
  }

  static constexpr LinkId kLink{1};
  ManualClock clock_;
  FakeHttp http_;
  const EngineProtocol* protocol_ = &VllmProtocol();
  EngineFacts facts_ = Facts();
  AdapterOptions options_;

 private:
  std::unique_ptr<AdapterEngine> engine_;
};

}  // namespace roost::worker::adapters::testing_support
