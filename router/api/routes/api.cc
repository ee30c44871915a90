#include "router/api/routes/api.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <new>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/json_writer.h"
#include "common/base/rng.h"
#include "common/http/cors.h"
#include "router/api/answers/messages_answer.h"
#include "router/api/key_file.h"
#include "router/api/operator/models_json.h"
#include "router/api/operator/verb.h"
#include "router/api/routes/api_call.h"
#include "router/api/url.h"
#include "router/fleet/fleet_snapshot.h"

namespace roost::router {
namespace {

constexpr std::string_view kUnrouted = "other";

// The routes that engines answer, and the names that they count under. Those of --pass-through count as one.
constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kPassThrough{{
    {"/v1/embeddings", "embeddings"},
    {"/v1/rerank", "rerank"},
    {"/rerank", "rerank"},
    {"/v1/score", "score"},
    {"/score", "score"},
    {"/pooling", "pooling"},
    {"/classify", "classify"},
    {"/v1/audio/transcriptions", "transcriptions"},
}};
constexpr std::string_view kOtherPassThrough = "pass_through";

bool IsGeneration(std::string_view route) {
  constexpr std::array<std::string_view, 4> kRoutesOfGenerations{"chat_completions", "completions", "responses",
                                                                 "messages"};
  return std::find(kRoutesOfGenerations.begin(), kRoutesOfGenerations.end(), route) != kRoutesOfGenerations.end();
}

ErrorForm FormOfErrors(const HttpRequest& request) {
  return request.path.starts_with("/v1/messages") ? ErrorForm::kAnthropic : ErrorForm::kOpenAi;
}

// The key that was sent as "Authorization: Bearer KEY", or as Anthropic's x-api-key; empty when neither was.
std::string_view SecretIn(const HttpRequest& request) {
  constexpr std::string_view kBearer = "bearer ";
  std::string_view secret;
  if (const auto header = request.FindHeader("authorization")) {
    if (EqualsIgnoringCase(header->substr(0, kBearer.size()), kBearer)) secret = header->substr(kBearer.size());
  } else if (const auto named = request.FindHeader("x-api-key")) {
    secret = *named;
  }
  secret.remove_prefix(std::min(secret.find_first_not_of(' '), secret.size()));
  return secret;
}

Result<KeyEntry> Authenticate(const HttpRequest& request, const KeyRing& keys) {
  const std::string_view secret = SecretIn(request);
  if (secret.empty()) {
    return Error{ErrorCode::kUnauthenticated, "an API key is needed: send the header Authorization: Bearer KEY", ""};
  }
  if (std::optional<KeyEntry> entry = keys.Find(secret)) return *std::move(entry);
  return Error{ErrorCode::kUnauthenticated, "the API key is not valid here", ""};
}

}  // namespace

struct Api::Route {
  enum class Match { kExact, kPrefix };
  // The callers that get in: everyone by any listener, everyone by the admin listener (files that hold no secret), or
  // those with a key of the listener that the route is on. Metrics are on two.
  enum class Door { kEveryone, kConsole, kClients, kAdmin, kMetrics };
  std::string_view method;
  std::string_view path;
  Match match;
  std::string_view name;  // a metrics label
  Door door;
  CallThread thread;
  void (Api::*handle)(Call&);
  const Verb* verb = nullptr;  // that `handle` carries out
  enum class Body { kJson, kAny } body = Body::kJson;

  // A route that engines answer.
  [[nodiscard]] static Route PassedOn(std::string_view path, std::string_view name);

  [[nodiscard]] bool Matches(std::string_view asked) const {
    if (match == Match::kExact) return asked == path;
    return asked.size() > path.size() && asked.substr(0, path.size()) == path;
  }

  [[nodiscard]] bool IsOn(Listener listener) const {
    switch (door) {
      case Door::kEveryone: return true;
      case Door::kClients: return listener == Listener::kApi;
      case Door::kConsole:
      case Door::kAdmin: return listener == Listener::kAdmin;
      case Door::kMetrics: return listener == Listener::kMetrics || listener == Listener::kAdmin;
    }
    return false;
  }

  [[nodiscard]] bool is_open() const { return door == Door::kEveryone || door == Door::kConsole; }
};

std::span<const Api::Route> Api::Routes() {
  using Match = Route::Match;
  using Door = Route::Door;
  static constexpr std::array kRoutes{
      Route{"POST", "/v1/chat/completions", Match::kExact, "chat_completions", Door::kClients, CallThread::kText,
            &Api::ChatCompletions},
      Route{"POST", "/v1/completions", Match::kExact, "completions", Door::kClients, CallThread::kText,
            &Api::Completions},
      Route{"POST", "/v1/responses", Match::kExact, "responses", Door::kClients, CallThread::kText, &Api::Responses},
      Route{"POST", "/v1/messages", Match::kExact, "messages", Door::kClients, CallThread::kText, &Api::Messages},
      Route{"POST", "/v1/messages/count_tokens", Match::kExact, "count_tokens", Door::kClients, CallThread::kText,
            &Api::CountTokens},
      Route{"POST", "/tokenize", Match::kExact, "tokenize", Door::kClients, CallThread::kText, &Api::Tokenize},
      Route{"POST", "/detokenize", Match::kExact, "detokenize", Door::kClients, CallThread::kText, &Api::Detokenize},
      Route{"GET", "/openapi.json", Match::kExact, "openapi", Door::kClients, CallThread::kText, &Api::OpenApi},
      Route{"GET", "/v1/models", Match::kExact, "models", Door::kClients, CallThread::kText, &Api::ListModels},
      Route{"GET", "/v1/models/", Match::kPrefix, "models", Door::kClients, CallThread::kText, &Api::GetModel},
      Route{"GET", "/health", Match::kExact, "health", Door::kEveryone, CallThread::kConnection, &Api::Health},
      Route{"GET", "/livez", Match::kExact, "health", Door::kEveryone, CallThread::kConnection, &Api::Health},
      Route{"GET", "/ping", Match::kExact, "health", Door::kEveryone, CallThread::kConnection, &Api::Health},
      Route{"GET", "/readyz", Match::kExact, "ready", Door::kEveryone, CallThread::kText, &Api::Ready},
      Route{"GET", "/ready", Match::kExact, "ready", Door::kEveryone, CallThread::kText, &Api::Ready},
      Route{"GET", "/metrics", Match::kExact, "metrics", Door::kMetrics, CallThread::kText, &Api::Metrics},
      Route{"GET", "/console", Match::kExact, "console", Door::kConsole, CallThread::kConnection, &Api::ConsoleEntry},
      Route{"GET", "/console/", Match::kExact, "console", Door::kConsole, CallThread::kConnection, &Api::Console},
      Route{"GET", "/console/", Match::kPrefix, "console", Door::kConsole, CallThread::kConnection, &Api::Console},
      Route{"GET", "/version", Match::kExact, "version", Door::kClients, CallThread::kConnection, &Api::Version},
      Route{"GET", "/admin/v1/workers", Match::kExact, "workers", Door::kAdmin, CallThread::kText, &Api::Workers},
      Route{"GET", "/admin/v1/models", Match::kExact, "models", Door::kAdmin, CallThread::kText, &Api::ModelFacts},
      Route{"GET", "/admin/v1/history", Match::kExact, "history", Door::kAdmin, CallThread::kText, &Api::History},
      Route{"GET", "/admin/v1/queues", Match::kExact, "queues", Door::kAdmin, CallThread::kText, &Api::Queues},
      Route{"GET", "/admin/v1/transfers", Match::kExact, "transfers", Door::kAdmin, CallThread::kText, &Api::Transfers},
      Route{"GET", "/admin/v1/usage", Match::kExact, "usage", Door::kAdmin, CallThread::kText, &Api::UsageOfKeys},
  };
  static const std::vector<Route> kAll = [] {
    std::vector<Route> all(kRoutes.begin(), kRoutes.end());
    for (const auto& [path, name] : kPassThrough) all.push_back(Route::PassedOn(path, name));
    for (const Verb* verb : Verbs()) {
      all.push_back(
          {verb->method, verb->path, Match::kExact, verb->name, Door::kAdmin, CallThread::kText, &Api::CarryOut, verb});
    }
    return all;
  }();
  return kAll;
}

Api::Route Api::Route::PassedOn(std::string_view path, std::string_view name) {
  return {.method = "POST",
          .path = path,
          .match = Match::kExact,
          .name = name,
          .door = Door::kClients,
          .thread = CallThread::kText,
          .handle = &Api::PassThrough,
          .verb = nullptr,
          .body = Body::kAny};
}

std::shared_ptr<const std::vector<Api::Route>> Api::RoutesWith(const std::vector<std::string>& paths) {
  const std::span<const Route> known = Routes();
  std::vector<Route> all(known.begin(), known.end());
  for (const std::string& path : paths) all.push_back(Route::PassedOn(path, kOtherPassThrough));
  return std::make_shared<const std::vector<Route>>(std::move(all));
}

std::vector<Api::RouteName> Api::RouteNames() {
  std::vector<RouteName> names;
  for (const Route& route : Routes()) names.push_back({route.method, route.path});
  return names;
}

std::vector<std::string_view> Api::ClientRoutes() {
  std::vector<std::string_view> names{kUnrouted, kOtherPassThrough};
  for (const Route& route : Routes()) {
    if (route.is_open() || route.door == Route::Door::kMetrics) continue;
    if (std::find(names.begin(), names.end(), route.name) == names.end()) names.push_back(route.name);
  }
  return names;
}

const Api::Route* Api::FindRoute(Listener listener, const HttpRequest& request) const {
  const std::string_view wanted = request.method == "HEAD" ? "GET" : std::string_view(request.method);
  for (const Route& route : *routes_) {
    if (route.method == wanted && route.IsOn(listener) && route.Matches(request.path)) return &route;
  }
  return nullptr;
}

std::string Api::AllowedMethods(Listener listener, std::string_view path) const {
  std::string allowed;
  for (const Route& route : *routes_) {
    if (!route.IsOn(listener) || !route.Matches(path) || allowed.find(route.method) != std::string::npos) continue;
    allowed += fmt::format("{}{}, ", route.method, route.method == "GET" ? ", HEAD" : "");
  }
  return allowed.empty() ? allowed : allowed + "OPTIONS";
}

std::string_view Api::ElsewhereText(Listener listener, std::string_view path) {
  // Routes of vLLM and SGLang that clients have no use for, or that --pass-through opens.
  constexpr std::array<std::string_view, 10> kOfEngines{"/v2/rerank",
                                                        "/invocations",
                                                        "/v1/audio/translations",
                                                        "/load",
                                                        "/reset_prefix_cache",
                                                        "/sleep",
                                                        "/wake_up",
                                                        "/is_sleeping",
                                                        "/v1/load_lora_adapter",
                                                        "/v1/unload_lora_adapter"};
  if (std::find(kOfEngines.begin(), kOfEngines.end(), path) != kOfEngines.end()) {
    return ": call the engine that has it itself, or name it in --pass-through";
  }
  for (const Route& route : Routes()) {
    if (!route.Matches(path) || route.IsOn(listener)) continue;
    switch (route.door) {
      case Route::Door::kClients: return ": it is at --http-address";
      case Route::Door::kConsole:
      case Route::Door::kAdmin: return ": it is at --admin-address";
      case Route::Door::kMetrics: return ": it is at --metrics-address";
      case Route::Door::kEveryone: break;
    }
  }
  return "";
}

Api::Api(Dispatcher& dispatcher, ApiObserver& observer, const Clock& clock, TextWork& text, ApiOptions options)
    : services_{dispatcher, observer, clock, options.tracing, &text},
      text_(text),
      options_(std::move(options)),
      routes_(RoutesWith(options_.pass_through)),
      memo_(options_.prompt_memo != nullptr ? options_.prompt_memo : std::make_shared<PromptMemo>(0)) {}

void Api::Handle(Listener listener, HttpRequest request, std::shared_ptr<Responder> responder) {
  const auto call = std::make_shared<Call>();
  call->request = std::move(request);
  call->responder = std::move(responder);
  call->started_at = services_.clock.Now();
  call->route = kUnrouted;
  call->listener = listener;
  call->error_form = FormOfErrors(call->request);
  const Route* route = FindRoute(listener, call->request);
  call->admission = std::static_pointer_cast<Admission>(std::move(call->request.ticket));
  if (call->admission == nullptr) {
    const Result<void> admitted = Admit(*call, call->request, route);
    if (!admitted.ok()) return AnswerError(*call, admitted.error());
  }
  if (route == nullptr) return Answer(*call, UnroutedAnswer(*call, call->request));
  call->route = route->name;
  call->verb = route->verb;
  call->rest = std::string_view(call->request.path).substr(route->path.size());
  if (const Result<void> taken = CheckBody(call->request, route); !taken.ok()) {
    return AnswerError(*call, taken.error());
  }
  route->thread == CallThread::kText ? PostToText(call, *route) : (this->*route->handle)(*call);
}

HeadVerdict Api::CheckHead(Listener listener, const HttpRequest& head) {
  const Route* route = FindRoute(listener, head);
  Call call;
  call.listener = listener;
  call.error_form = FormOfErrors(head);
  Result<void> taken = Admit(call, head, route);
  const bool is_unrouted = taken.ok() && route == nullptr && head.method != "OPTIONS" && AnnouncesBody(head);
  if (taken.ok() && !is_unrouted) taken = CheckBody(head, route);
  if (taken.ok() && !is_unrouted) {
    if (call.admission == nullptr) return {};
    return {.budget = call.admission->account().memory(), .ticket = call.admission};
  }
  HttpResponse answer = is_unrouted ? UnroutedAnswer(call, head) : ErrorAnswer(call, taken.error());
  if (call.admission != nullptr) AddLimitHeaders(*call.admission, services_.clock.Now(), answer.headers);
  services_.observer.OnAnswer(route == nullptr ? kUnrouted : route->name, answer.status);
  return {.refusal = std::move(answer)};
}

Result<void> Api::CheckBody(const HttpRequest& head, const Route* route) {
  if (route != nullptr && route->method == "POST") {
    const std::string_view coding = head.FindHeader("content-encoding").value_or("identity");
    if (!EqualsIgnoringCase(coding, "identity")) {
      return Error{ErrorCode::kUnsupportedMediaType,
                   fmt::format("the Content-Encoding {} is not supported: send the body as it is", coding), ""};
    }
    const bool takes_any = route->body == Route::Body::kAny;
    if (takes_any || IsJson(head.FindHeader("content-type").value_or(""))) return {};
    return Error{ErrorCode::kUnsupportedMediaType, "the Content-Type must be application/json", ""};
  }
  if (!AnnouncesBody(head)) return {};
  return Error{ErrorCode::kBodyTooLarge, fmt::format("{} {} takes no body", head.method, head.path), ""};
}

Result<std::optional<KeyEntry>> Api::LetIn(Listener listener, const HttpRequest& head, const Route* route) const {
  if (route != nullptr && route->is_open()) return std::optional<KeyEntry>();
  // Browsers ask without a key what they may send with one.
  if (head.method == "OPTIONS") return std::optional<KeyEntry>();
  const std::shared_ptr<KeyRing>& keys = listener == Listener::kApi ? options_.api_keys : options_.admin_keys;
  if (keys != nullptr) {
    ROOST_ASSIGN_OR_RETURN(KeyEntry entry, Authenticate(head, *keys));
    return std::optional<KeyEntry>(std::move(entry));
  }
  // Clients of many kinds call the API, but only with POST to any effect; those of operators are known.
  const BrowserSign sign = listener == Listener::kApi ? BrowserSign::kOrigin : BrowserSign::kOriginOrLooks;
  // A page of another site needs no answer to do harm with an order; and without asking it may send what is no JSON.
  const bool is_simple =
      route != nullptr && route->body == Route::Body::kAny && !IsJson(head.FindHeader("content-type").value_or(""));
  const bool is_foreign = (listener != Listener::kApi || is_simple) && IsFromAnotherSite(head);
  const bool is_suspect = is_foreign || MayBeRebound(head, sign);
  if (!is_suspect || IsAllowedPage(options_.cors_origins, head)) return std::optional<KeyEntry>();
  if (is_foreign) {
    return Error{
        ErrorCode::kPermissionDenied,
        "a web page of another site may not call this listener without a key; --cors-origins names those that may", ""};
  }
  return Error{ErrorCode::kPermissionDenied,
               "a browser calls this server by a name that is not its own; use an IP address or localhost, or name the "
               "page in --cors-origins",
               ""};
}

Result<void> Api::Admit(Call& call, const HttpRequest& head, const Route* route) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<KeyEntry> entry, LetIn(call.listener, head, route));
  if (!entry) return {};
  if (call.listener != Listener::kApi) return {};
  const std::uint32_t router_count = services_.dispatcher.View()->router_count;
  const bool is_counted = route != nullptr && route->method == "POST";
  if (!is_counted) {
    call.admission = Admission::Uncounted(*entry, router_count);
    return {};
  }
  std::variant<std::shared_ptr<Admission>, RateRefusal> asked =
      Admission::Ask(*entry, router_count, services_.clock.Now());
  if (auto* admission = std::get_if<std::shared_ptr<Admission>>(&asked)) {
    call.admission = std::move(*admission);
    return {};
  }
  RateRefusal& refusal = std::get<RateRefusal>(asked);
  call.retry_after = refusal.retry_after;
  call.admission = Admission::Uncounted(*entry, router_count);
  return std::move(refusal.error);
}

void Api::PostToText(const std::shared_ptr<Call>& call, const Route& route) {
  call->responder->OnClosed([client = call->client] { client->OnGone(); });
  const std::size_t bytes = call->request.body.size();
  call->thread = CallThread::kText;
  if (text_.TryPost(TenantOf(call->admission), bytes, [this, call, &route] { RunText(call, route); })) return;
  call->thread = CallThread::kConnection;
  AnswerError(*call, {ErrorCode::kOverloaded, "too many requests wait to be read", ""});
}

void Api::RunText(const std::shared_ptr<Call>& call, const Route& route) {
  if (call->client->gone()) {
    return services_.observer.OnAnswer(call->route, TraitsOf(ErrorCode::kCancelled).http_status);
  }
  try {
    (this->*route.handle)(*call);
    if (call->is_passed_on) PassThrough(*call);
  } catch (const std::bad_alloc&) {
    call->arrival = Call::Arrival::kWaited;
    call->is_passed_on = false;
    AnswerError(*call, {ErrorCode::kUnavailable, "the server is out of memory", ""});
  }
  if (call->arrival == Call::Arrival::kWaits) AwaitModel(call, route);
}

void Api::AwaitModel(const std::shared_ptr<Call>& call, const Route& route) {
  call->arrival = Call::Arrival::kWaited;
  const auto again = [this, call, &route](const std::vector<WorkerAnswer>&) {
    const std::size_t bytes = call->request.body.size();
    if (text_.TryPost(TenantOf(call->admission), bytes, [this, call, &route] { RunText(call, route); })) return;
    AnswerError(*call, {ErrorCode::kOverloaded, "too many requests wait to be read", ""});
  };
  if (!services_.dispatcher.Send(ModelAwaited{call->asked_model}, again).ok()) RunText(call, route);
}

HttpResponse Api::UnroutedAnswer(const Call& call, const HttpRequest& head) {
  const std::string allowed = AllowedMethods(call.listener, head.path);
  if (allowed.empty() && head.path != "*") {
    return ErrorAnswer(call, {ErrorCode::kNotFound,
                              fmt::format("there is no {}{}", head.path, ElsewhereText(call.listener, head.path)), ""});
  }
  HttpResponse response;
  if (head.method == "OPTIONS") {
    response.status = 204;
  } else {
    const bool is_socket = EqualsIgnoringCase(head.FindHeader("upgrade").value_or(""), "websocket");
    response = ErrorAnswer(call, {ErrorCode::kMethodNotAllowed,
                                  fmt::format("{} does not take {}: it takes {}", head.path,
                                              is_socket ? "WebSockets" : std::string_view(head.method), allowed),
                                  ""});
    if (is_socket) {  // clients go on with HTTP then
      response.status = 426;
      response.headers.push_back({"Upgrade", "HTTP/1.1"});
    }
  }
  response.headers.push_back({"Allow", allowed.empty() ? "GET, HEAD, OPTIONS, POST" : allowed});
  return response;
}

void Api::ListModels(Call& call) { Answer(call, JsonResponse(ModelListBody(ModelsFor(call)))); }

void Api::ModelFacts(Call& call) {
  Answer(call, JsonResponse(ModelFactsBody(services_.dispatcher.View()->models->models)));
}

void Api::GetModel(Call& call) {
  const std::string name = PercentDecode(call.rest);
  const std::vector<std::shared_ptr<const ServedModel>> models = ModelsFor(call);
  const auto found = std::find_if(models.begin(), models.end(), [&name](const auto& m) { return m->name == name; });
  if (found != models.end()) return Answer(call, JsonResponse(ModelBody(**found)));
  if (!MayAskFor(call, name)) return AnswerError(call, NotServed(name));
  AnswerError(call, AwayOrUnknown(std::string(MeantBy(name, call.admission, options_.model_aliases))));
}

void Api::Health(Call& call) {
  JsonWriter json;
  json.BeginObject().Key("status").String("ok").EndObject();
  Answer(call, JsonResponse(json.Take()));
}

void Api::Ready(Call& call) {
  if (draining_) return AnswerError(call, {ErrorCode::kUnavailable, "the router is draining", ""});
  const std::optional<std::string> model = ModelOfQuery(call.request.query);
  const std::shared_ptr<const FleetSnapshot> view = services_.dispatcher.View();
  const ReadyWorkers ready(view->workers, view->standing.models);
  if (model && !ready.has(*model)) return AnswerError(call, AwayOrUnknown(*model));
  if (!model && ready.count() == 0) return AnswerError(call, {ErrorCode::kUnavailable, "no worker is ready", ""});
  // Names of models are for those with a key, where clients need one; the other listeners are the operators'.
  const bool lists = call.listener != Listener::kApi || options_.api_keys == nullptr;
  Answer(call, JsonResponse(ReadyBody(ready, model, lists ? ReadyModels::kList : ReadyModels::kOmit)));
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
  Answer(call, JsonResponse(json.Take()));
}

void Api::OpenApi(Call& call) {
  std::vector<std::string_view> passed_on;
  for (const Route& route : *routes_) {
    if (route.handle == &Api::PassThrough) passed_on.push_back(route.path);
  }
  Answer(call, JsonResponse(OpenApiBody(options_.version, passed_on)));
}

void Api::Queues(Call& call) { Answer(call, JsonResponse(QueuesBody(services_.dispatcher.View()->queues))); }

void Api::Transfers(Call& call) { Answer(call, JsonResponse(TransfersBody(*services_.dispatcher.View()))); }

void Api::UsageOfKeys(Call& call) {
  if (options_.api_keys == nullptr) return Answer(call, JsonResponse(UsageBody({})));
  Answer(call, JsonResponse(UsageBody(options_.api_keys->Accounts())));
}

void Api::Answer(const Call& call, HttpResponse response) {
  if (call.admission != nullptr) AddLimitHeaders(*call.admission, services_.clock.Now(), response.headers);
  if (call.thread == CallThread::kText) {
    // Shared, because what is posted must be copyable.
    auto shared = std::make_shared<HttpResponse>(std::move(response));
    return call.responder->Post([this, route = call.route, responder = call.responder, shared] {
      services_.observer.OnAnswer(route, shared->status);
      responder->Respond(std::move(*shared));
    });
  }
  services_.observer.OnAnswer(call.route, response.status);
  call.responder->Respond(std::move(response));
}

HttpResponse Api::ErrorAnswer(const Call& call, const Error& error) {
  const std::string_view model = call.model == nullptr ? std::string_view() : call.model->name;
  const Duration retry_after =
      error.code == ErrorCode::kRateLimited ? call.retry_after : RetryAfter(services_.dispatcher, error, model);
  Error named = error;
  if (call.field_of != nullptr) named.field = call.field_of(error.field);
  return call.error_form == ErrorForm::kAnthropic ? MessagesErrorResponse(named, retry_after)
                                                  : ErrorResponse(named, retry_after);
}

void Api::AnswerError(const Call& call, const Error& error) {
  if (call.arrival == Call::Arrival::kWaits || call.is_passed_on) return;  // it is tried again, or elsewhere
  CountUnserved(call, error);
  Answer(call, ErrorAnswer(call, error));
}

// A name that no worker serves nor is expected to serve is the client's mistake: it counts as a request only.
void Api::CountUnserved(const Call& call, const Error& error) const {
  if (!IsGeneration(call.route) || call.asked_model.empty()) return;
  if (error.code != ErrorCode::kUnavailable && error.code != ErrorCode::kModelNotFound) return;
  const std::optional<std::string> known = services_.dispatcher.View()->models->KnownModel(call.asked_model);
  if (!known && error.code == ErrorCode::kModelNotFound) return;
  services_.observer.OnUnserved(
      {.model = known ? *known : call.asked_model, .is_known = known.has_value(), .error = error.code});
}

void Api::AnswerResult(const Call& call, Result<std::string> body) {
  body.ok() ? Answer(call, JsonResponse(std::move(body).value())) : AnswerError(call, body.error());
}

std::uint64_t Api::NextRandom() { return Mix64(options_.seed + random_counter_.fetch_add(1) * 0x9e3779b97f4a7c15ULL); }

}  // namespace roost::router
