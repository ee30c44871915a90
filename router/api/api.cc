#include "router/api/api.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/json_writer.h"
#include "common/base/rng.h"
#include "router/api/chat_request.h"
#include "router/api/completion_request.h"
#include "router/api/decisions.h"
#include "router/api/openai_json.h"
#include "router/api/prompt.h"
#include "router/api/url.h"

namespace roost::router {
namespace {

constexpr std::string_view kUnrouted = "other";
constexpr std::size_t kFingerprintDigits = 12;

HttpResponse Json(std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  return response;
}

}  // namespace

struct Api::Call {
  const HttpRequest& request;
  std::string& body;  // of the request; the handler may take it
  std::shared_ptr<Responder> responder;
  std::string_view route;
  std::string_view rest;  // of the path, behind a prefix route
  Instant started_at;
};

struct Api::Route {
  enum class Match { kExact, kPrefix };
  std::string_view method;
  std::string_view path;
  Match match;
  std::string_view name;  // a metrics label
  void (Api::*handle)(Call&);

  [[nodiscard]] bool Matches(std::string_view asked) const {
    if (match == Match::kExact) return asked == path;
    return asked.size() > path.size() && asked.substr(0, path.size()) == path;
  }
};

std::span<const Api::Route> Api::Routes() {
  using Match = Route::Match;
  static constexpr std::array kRoutes{
      Route{"POST", "/v1/chat/completions", Match::kExact, "chat_completions", &Api::ChatCompletions},
      Route{"POST", "/v1/completions", Match::kExact, "completions", &Api::Completions},
      Route{"GET", "/v1/models", Match::kExact, "models", &Api::ListModels},
      Route{"GET", "/v1/models/", Match::kPrefix, "models", &Api::GetModel},
      Route{"GET", "/health", Match::kExact, "health", &Api::Health},
      Route{"GET", "/ready", Match::kExact, "ready", &Api::Ready},
      Route{"GET", "/metrics", Match::kExact, "metrics", &Api::Metrics},
      Route{"GET", "/version", Match::kExact, "version", &Api::Version},
      Route{"GET", "/admin/v1/workers", Match::kExact, "workers", &Api::Workers},
      Route{"GET", "/admin/v1/decisions", Match::kExact, "decisions", &Api::Decisions},
      Route{"GET", "/admin/v1/queues", Match::kExact, "queues", &Api::Queues},
      Route{"POST", "/admin/v1/pin", Match::kExact, "pin", &Api::Pin},
      Route{"POST", "/admin/v1/unpin", Match::kExact, "unpin", &Api::Unpin},
  };
  return kRoutes;
}

const Api::Route* Api::FindRoute(std::string_view method, std::string_view path) {
  const std::string_view wanted = method == "HEAD" ? "GET" : method;
  for (const Route& route : Routes()) {
    if (route.method == wanted && route.Matches(path)) return &route;
  }
  return nullptr;
}

std::string Api::AllowedMethods(std::string_view path) {
  for (const Route& route : Routes()) {
    if (route.Matches(path)) return route.method == "GET" ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
  }
  return {};
}

Api::Api(Dispatcher& dispatcher, ApiObserver& observer, const Clock& clock, ApiOptions options)
    : services_{dispatcher, observer, clock}, options_(std::move(options)) {}

void Api::Handle(HttpRequest request, std::shared_ptr<Responder> responder) {
  Call call{request, request.body, std::move(responder), kUnrouted, {}, services_.clock.Now()};
  const Route* route = FindRoute(request.method, request.path);
  if (route == nullptr) return AnswerUnrouted(call);
  call.route = route->name;
  call.rest = std::string_view(request.path).substr(route->path.size());
  (this->*route->handle)(call);
}

void Api::AnswerUnrouted(const Call& call) {
  const std::string allowed = AllowedMethods(call.request.path);
  if (allowed.empty() && call.request.path != "*") {
    return AnswerError(call, {ErrorCode::kNotFound, fmt::format("there is no {}", call.request.path), ""});
  }
  HttpResponse response;
  if (call.request.method == "OPTIONS") {
    response.status = 204;
  } else {
    response = ErrorResponse(
        {ErrorCode::kMethodNotAllowed, fmt::format("{} does not take {}", call.request.path, call.request.method), ""});
  }
  response.headers.push_back({"Allow", allowed.empty() ? "GET, HEAD, OPTIONS, POST" : allowed});
  Answer(call, std::move(response));
}

// ---- generation ----

Result<std::shared_ptr<const ServedModel>> Api::FindModel(const std::string& name) const {
  if (std::shared_ptr<const ServedModel> model = services_.dispatcher.FindModel(name)) return model;
  if (services_.dispatcher.Models().empty()) {
    return Error{ErrorCode::kUnavailable, "no worker is ready yet", ""};
  }
  return Error{ErrorCode::kModelNotFound, fmt::format("the model '{}' is not served here", name), "model"};
}

void Api::ChatCompletions(Call& call) {
  JsonBody json(std::move(call.body));
  Result<JsonObject> body = json.Parse();
  if (!body.ok()) return AnswerError(call, body.error());
  Result<ChatRequest> chat = ParseChatRequest(*body);
  if (!chat.ok()) return AnswerError(call, chat.error());
  const auto prepare = [&]() -> Result<GenerateSpec> {
    ROOST_ASSIGN_OR_RETURN(std::shared_ptr<const ServedModel> model, FindModel(chat->sampling.model));
    ROOST_ASSIGN_OR_RETURN(std::vector<TokenId> prompt, TokenizeChat(*model, *chat, options_.unix_seconds_now()));
    return MakeGenerateSpec(std::move(model), std::move(prompt), chat->sampling, {"messages", NextRandom()});
  };
  Generate(call, AnswerKind::kChat, prepare(), chat->sampling);
}

void Api::Completions(Call& call) {
  JsonBody json(std::move(call.body));
  Result<JsonObject> body = json.Parse();
  if (!body.ok()) return AnswerError(call, body.error());
  Result<CompletionRequest> completion = ParseCompletionRequest(*body);
  if (!completion.ok()) return AnswerError(call, completion.error());
  const auto prepare = [&]() -> Result<GenerateSpec> {
    ROOST_ASSIGN_OR_RETURN(std::shared_ptr<const ServedModel> model, FindModel(completion->sampling.model));
    ROOST_ASSIGN_OR_RETURN(std::vector<TokenId> prompt, TokenizeCompletion(*model, *completion));
    return MakeGenerateSpec(std::move(model), std::move(prompt), completion->sampling, {"prompt", NextRandom()});
  };
  Generate(call, AnswerKind::kCompletion, prepare(), completion->sampling);
}

void Api::Generate(const Call& call, AnswerKind kind, Result<GenerateSpec> spec, const SamplingFields& fields) {
  if (!spec.ok()) return AnswerError(call, spec.error());
  GenerationOptions options;
  options.route = call.route;
  options.request_id = call.request.request_id;
  options.identity.kind = kind;
  options.identity.id =
      fmt::format("{}-{:016x}{:016x}", kind == AnswerKind::kChat ? "chatcmpl" : "cmpl", NextRandom(), NextRandom());
  options.identity.created_unix_seconds = options_.unix_seconds_now();
  options.identity.model = spec->model->name;
  options.identity.system_fingerprint = "fp_" + spec->model->fingerprint.substr(0, kFingerprintDigits);
  spec->answer_id = options.identity.id;
  spec->request_id = options.request_id;
  options.delivery = fields.delivery;
  options.usage_report = fields.usage_report;
  options.stop = fields.stop;
  options.started_at = call.started_at;
  Generation::Start(services_, call.responder, std::move(*spec), std::move(options));
}

// ---- the rest ----

void Api::ListModels(Call& call) { Answer(call, Json(ModelListBody(services_.dispatcher.Models()))); }

void Api::GetModel(Call& call) {
  const std::string name = PercentDecode(call.rest);
  const std::shared_ptr<const ServedModel> model = services_.dispatcher.FindModel(name);
  if (model != nullptr) return Answer(call, Json(ModelBody(*model)));
  AnswerError(call, {ErrorCode::kModelNotFound, fmt::format("the model '{}' is not served here", name), "model"});
}

void Api::Health(Call& call) {
  JsonWriter json;
  json.BeginObject().Key("status").String("ok").EndObject();
  Answer(call, Json(json.Take()));
}

void Api::Ready(Call& call) {
  const std::vector<WorkerStatus> workers = services_.dispatcher.Workers();
  const auto ready_count =
      std::count_if(workers.begin(), workers.end(), [](const WorkerStatus& worker) { return worker.ready; });
  if (draining_) return AnswerError(call, {ErrorCode::kUnavailable, "the router is draining", ""});
  if (ready_count == 0) return AnswerError(call, {ErrorCode::kUnavailable, "no worker is ready", ""});
  JsonWriter json;
  json.BeginObject().Key("status").String("ready");
  json.Key("ready_workers").Number(static_cast<std::int64_t>(ready_count)).EndObject();
  Answer(call, Json(json.Take()));
}

void Api::Metrics(Call& call) {
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = options_.metrics_text();
  Answer(call, std::move(response));
}

void Api::Version(Call& call) {
  JsonWriter json;
  json.BeginObject().Key("version").String(options_.version).EndObject();
  Answer(call, Json(json.Take()));
}

void Api::Workers(Call& call) { Answer(call, Json(WorkersBody(services_.dispatcher.Workers()))); }

void Api::Decisions(Call& call) {
  const Result<DecisionsQuery> query = ParseDecisionsQuery(call.request.query);
  if (!query.ok()) return AnswerError(call, query.error());
  const std::vector<DecisionRecord> records = query->request_id.has_value()
                                                  ? services_.dispatcher.FindDecisions(*query->request_id)
                                                  : services_.dispatcher.LatestDecisions(query->limit);
  if (query->request_id.has_value() && records.empty()) {
    return AnswerError(
        call, {ErrorCode::kNotFound,
               fmt::format("no decision about '{}' among the last {}", *query->request_id, DecisionLog::kCapacity),
               "request_id"});
  }
  Answer(call, Json(DecisionsBody(records, services_.clock.Now())));
}

void Api::Queues(Call& call) { Answer(call, Json(QueuesBody(services_.dispatcher.Queues()))); }

void Api::Pin(Call& call) { ApplyPin(call, PinAction::kPin); }
void Api::Unpin(Call& call) { ApplyPin(call, PinAction::kUnpin); }

void Api::ApplyPin(Call& call, PinAction action) {
  Result<std::string> body = PinBody(std::move(call.body), action);
  body.ok() ? Answer(call, Json(std::move(*body))) : AnswerError(call, body.error());
}

Result<std::string> Api::PinBody(std::string body, PinAction action) const {
  JsonBody json(std::move(body));
  ROOST_ASSIGN_OR_RETURN(const JsonObject object, json.Parse());
  ROOST_ASSIGN_OR_RETURN(const PinRequest request, ParsePinRequest(object));
  ROOST_ASSIGN_OR_RETURN(std::shared_ptr<const ServedModel> model, FindModel(request.fields().model));
  const std::string name = model->name;
  ROOST_ASSIGN_OR_RETURN(PinPlan plan, MakePinPlan(std::move(model), request, action, options_.unix_seconds_now()));
  ROOST_ASSIGN_OR_RETURN(const std::vector<std::string> workers, services_.dispatcher.Pin(std::move(plan.order)));
  JsonWriter answer;
  answer.BeginObject().Key("model").String(name);
  answer.Key("blocks")
      .Number(std::uint64_t{plan.block_count})
      .Key("tokens")
      .Number(std::uint64_t{plan.prompt_token_count});
  answer.Key("workers").BeginArray();
  for (const std::string& worker : workers) answer.String(worker);
  answer.EndArray().EndObject();
  return answer.Take();
}

void Api::Answer(const Call& call, HttpResponse response) {
  services_.observer.OnAnswer(call.route, response.status);
  call.responder->Respond(std::move(response));
}

void Api::AnswerError(const Call& call, const Error& error) { Answer(call, ErrorResponse(error)); }

std::uint64_t Api::NextRandom() { return Mix64(options_.seed + random_counter_.fetch_add(1) * 0x9e3779b97f4a7c15ULL); }

}  // namespace roost::router
