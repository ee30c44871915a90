// The HTTP API: the table of routes, and from a request to its answer. No socket and no HTTP library: requests and
// responders come from router/http, or from a test.
//
//   POST /v1/chat/completions   POST /v1/completions   GET /v1/models   GET /v1/models/{id}
//   GET /health   GET /ready   GET /metrics   GET /version
//   GET /admin/v1/workers   GET /admin/v1/decisions   GET /admin/v1/queues
//   POST /admin/v1/pin   POST /admin/v1/unpin
//
// Every answer is JSON (but for /metrics and streams), also 404 and 405. HEAD is answered as GET, OPTIONS with Allow.
//
// Threads: Handle runs on the server's threads, several at once; BeginDrain may be called from any.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "router/api/api_observer.h"
#include "router/api/generation.h"
#include "router/api/pin_request.h"
#include "router/api/sampling_fields.h"
#include "router/fleet/dispatcher.h"
#include "router/http/responder.h"

namespace roost::router {

struct ApiOptions {
  std::string version;
  std::uint64_t seed = 0;                          // of answers' ids and of requests without a seed; random in daemons
  std::function<std::string()> metrics_text;       // the body of /metrics
  std::function<std::int64_t()> unix_seconds_now;  // wall time, for `created`
};

class Api {
 public:
  // All three outlive the Api, which outlives the server.
  Api(Dispatcher& dispatcher, ApiObserver& observer, const Clock& clock, ApiOptions options);

  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;

  // The handler for HttpServer::Start.
  void Handle(HttpRequest request, std::shared_ptr<Responder> responder);

  // /ready says 503 from now on; everything else goes on.
  void BeginDrain() { draining_ = true; }

 private:
  struct Route;
  struct Call;  // a request on its route

  [[nodiscard]] static std::span<const Route> Routes();
  [[nodiscard]] static const Route* FindRoute(std::string_view method, std::string_view path);
  [[nodiscard]] static std::string AllowedMethods(std::string_view path);

  void AnswerUnrouted(const Call& call);
  void ChatCompletions(Call& call);
  void Completions(Call& call);
  void ListModels(Call& call);
  void GetModel(Call& call);
  void Health(Call& call);
  void Ready(Call& call);
  void Metrics(Call& call);
  void Version(Call& call);
  void Workers(Call& call);
  void Decisions(Call& call);
  void Queues(Call& call);
  void Pin(Call& call);
  void Unpin(Call& call);

  void ApplyPin(Call& call, PinAction action);
  [[nodiscard]] Result<std::string> PinBody(std::string body, PinAction action) const;
  [[nodiscard]] Result<std::shared_ptr<const ServedModel>> FindModel(const std::string& name) const;
  void Generate(const Call& call, AnswerKind kind, Result<GenerateSpec> spec, const SamplingFields& fields);
  void Answer(const Call& call, HttpResponse response);
  void AnswerError(const Call& call, const Error& error);
  [[nodiscard]] std::uint64_t NextRandom();

  const GenerationServices services_;
  const ApiOptions options_;
  std::atomic<bool> draining_ = false;
  std::atomic<std::uint64_t> random_counter_ = 0;
};

}  // namespace roost::router
