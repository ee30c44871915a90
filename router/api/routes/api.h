// The HTTP API: the table of routes, and the handler of each. It does not depend on sockets or an HTTP library:
// requests and responders come from common/http, or from a test.
//
//   POST /v1/chat/completions   POST /v1/completions   POST /v1/responses
//   POST /v1/messages   POST /v1/messages/count_tokens   POST /tokenize   POST /detokenize
//   POST /v1/embeddings and others that engines answer (pass_through.h)
//   GET /v1/models   GET /v1/models/{id}   GET /openapi.json
//   GET /health   GET /livez   GET /ping   GET /ready   GET /readyz   GET /metrics   GET /version
//   GET /admin/v1/workers   GET /admin/v1/queues   GET /admin/v1/transfers   GET /admin/v1/usage
//   those of the verbs (operator/verb.h)
//   GET /console   GET /console/{file}
//
// A router has three listeners, each with its own routes (Listener). The routes of health are on all of them and open
// to everyone; so are the console's files, on the admin listener. All others need a key where the listener has keys:
// also paths that do not exist, so that a forgotten route is closed.
//
// Every answer is JSON, also 404 and 405, except /metrics, the console's files, streams and what engines say. HEAD is
// answered as GET, OPTIONS with Allow. A POST without a JSON content type gets 415, unless an engine answers it. A web
// page can not send JSON to another site without that site's consent, so no page in a browser can use a router on the
// same machine.
//
// A request moves from its connection's thread to a text thread, which parses its JSON, tokenizes, hashes and submits
// it. The answer moves back:
//
//   connection   Handle: route ── post ─────────────────────────────► Respond
//   text                            └► JSON → tokens → Submit ─ post ─┘
//
// Text threads do all work that may take long or waits for the dispatcher's lock, as Submit and Send do. They drop a
// request whose client has gone. A request or an answer that does not fit into memory is answered 429, 413 or 503.
//
// Threads: Handle runs on the server's threads, several at once; BeginDrain may be called from any.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/http/http_message.h"
#include "common/http/responder.h"
#include "common/text/output_family.h"
#include "router/access/key_ring.h"
#include "router/api/answers/api_observer.h"
#include "router/api/answers/generation.h"
#include "router/api/answers/openai_answer.h"
#include "router/api/diagnosis_memory.h"
#include "router/api/operator/verb.h"
#include "router/api/requests/chat_request.h"
#include "router/api/requests/prompt.h"
#include "router/api/requests/sampling_fields.h"
#include "router/api/requests/session_headers.h"
#include "router/fleet/dispatcher.h"
#include "router/text/prompt_memo.h"
#include "router/text/text_work.h"

namespace roost::router {

// The listener that a request came in by.
enum class Listener { kApi, kAdmin, kMetrics };

struct ApiOptions {
  std::string version = {};
  std::uint64_t seed = 0;  // for answers' ids and for requests without a seed; random in daemons
  Duration request_timeout = std::chrono::hours(1);  // at most; a request's header may shorten it
  PrefixText prefix_text = PrefixText::kHide;        // in /admin/v1/prefixes
  RenderSettings::Content message_content = RenderSettings::Content::kText;
  std::optional<ToolFamily> tool_family = {};              // overrides what the models' templates say
  std::shared_ptr<PromptMemo> prompt_memo = {};            // null: nothing of prompts is remembered
  std::shared_ptr<SharedPrefixes> shared_prefixes = {};    // null: tenants share nothing
  std::shared_ptr<KeyRing> api_keys = {};                  // null: the API needs no key
  std::shared_ptr<KeyRing> admin_keys = {};                // of the other listeners
  ModelAliases model_aliases = {};                         // for every caller
  std::vector<std::string> pass_through = {};              // paths that go to engines, beside those in api.cc
  std::vector<std::string> cors_origins = {};              // pages that may call the API without a key; see cors.h
  SessionHeaders session_headers = {};                     // none: the body alone names a session
  std::shared_ptr<DiagnosisMemory> diagnosis_memory = {};  // null: no request is compared with an earlier one
  Tracing tracing = {};                                    // of generations
  std::function<std::string()> metrics_text = {};          // the body of /metrics
  std::function<std::string()> history_json = {};          // the body of /admin/v1/history
  std::function<std::int64_t()> unix_seconds_now = {};     // wall time, for `created`
};

class Api {
 public:
  // The four references outlive the Api. The Api outlives the server and the work that it posted to `text`.
  Api(Dispatcher& dispatcher, ApiObserver& observer, const Clock& clock, TextWork& text, ApiOptions options);

  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;

  // For HttpServerOptions::check_head, before a request's body is read. Refused are: who has no valid key, or one whose
  // limits are reached; a body where none is taken; a path or method that does not exist. The others' ticket holds what
  // was counted against the key's limits.
  [[nodiscard]] HeadVerdict CheckHead(Listener listener, const HttpRequest& head);
  // The handler for HttpServer::Start. A request without a ticket is checked here.
  void Handle(Listener listener, HttpRequest request, std::shared_ptr<Responder> responder);

  // All routes there are, for tests that look at every one.
  struct RouteName {
    std::string_view method;
    std::string_view path;  // of a prefix route, its front
  };
  [[nodiscard]] static std::vector<RouteName> RouteNames();

  // The routes' names that OnAnswer is called with, without those of health, metrics and the console's files: who asks
  // there watches the router and is no client.
  [[nodiscard]] static std::vector<std::string_view> ClientRoutes();

  // From now on /ready answers 503. All other routes keep working.
  void BeginDrain() { draining_ = true; }

 private:
  struct Route;
  struct Call;  // a request on its route
  struct ChatPrompt;
  struct PromptParts;
  struct Prompt;  // a request that is ready for generation

  [[nodiscard]] static std::span<const Route> Routes();
  // Those, and the paths of ApiOptions::pass_through.
  [[nodiscard]] static std::shared_ptr<const std::vector<Route>> RoutesWith(const std::vector<std::string>& paths);
  [[nodiscard]] const Route* FindRoute(Listener listener, const HttpRequest& request) const;
  [[nodiscard]] std::string AllowedMethods(Listener listener, std::string_view path) const;
  // ": it is at --admin-address", for a path that is served elsewhere; else empty.
  [[nodiscard]] static std::string_view ElsewhereText(Listener listener, std::string_view path);

  // The key of the request; none where it needs none.
  [[nodiscard]] Result<std::optional<KeyEntry>> LetIn(Listener listener, const HttpRequest& head,
                                                      const Route* route) const;
  // May the call go on? On the API's listener it is counted against the limits of its key.
  [[nodiscard]] Result<void> Admit(Call& call, const HttpRequest& head, const Route* route);
  // Does the route take the body that the head announces?
  [[nodiscard]] static Result<void> CheckBody(const HttpRequest& head, const Route* route);

  void PostToText(const std::shared_ptr<Call>& call, const Route& route);
  void RunText(const std::shared_ptr<Call>& call, const Route& route);
  // Tries the call again once a worker serves its model, or after a while.
  void AwaitModel(const std::shared_ptr<Call>& call, const Route& route);
  // Counts a generation that was refused because no worker serves its model.
  void CountUnserved(const Call& call, const Error& error) const;

  [[nodiscard]] HttpResponse UnroutedAnswer(const Call& call, const HttpRequest& head);
  void ChatCompletions(Call& call);
  void Completions(Call& call);
  void Responses(Call& call);
  void Messages(Call& call);
  void CountTokens(Call& call);
  void Tokenize(Call& call);
  void Detokenize(Call& call);
  void PassThrough(Call& call);
  void OpenApi(Call& call);
  void ListModels(Call& call);
  void ModelFacts(Call& call);
  void GetModel(Call& call);
  void Health(Call& call);
  void Ready(Call& call);
  void Metrics(Call& call);
  void ConsoleEntry(Call& call);
  void Console(Call& call);
  void Version(Call& call);
  void Workers(Call& call);
  void History(Call& call);
  void Queues(Call& call);
  void Transfers(Call& call);
  void UsageOfKeys(Call& call);

  // ---- operators' orders (api_workers.cc) ----
  // The handler of the verbs' routes.
  void CarryOut(Call& call);
  [[nodiscard]] Result<OrderPlan> PlanOf(Call& call);
  // Returns a callback for the dispatcher, which answers the call with the body.
  [[nodiscard]] AnswersDone AnswerLater(const Call& call, MakeBody make_body);

  // Parses the request's body. An error if the model accepts no requests now.
  template <typename Request>
  [[nodiscard]] Result<Request> ReadModelBody(Call& call, Result<Request> (*parse)(const JsonObject&)) const;
  [[nodiscard]] Result<void> CheckModel(Call& call, const JsonObject& body) const;
  // Sets the call's model, if its key may use it; the call may wait for a worker that brings it.
  [[nodiscard]] Result<void> TakeModel(Call& call, std::string name) const;
  // ---- requests that an engine gets unread (api_forwards.cc) ----
  // An error if this router can not read the request, and the call is to be passed on.
  [[nodiscard]] Result<void> CheckReadable(Call& call, const JsonObject& body) const;
  [[nodiscard]] Result<ForwardSpec> ReadForward(Call& call) const;
  [[nodiscard]] Result<void> FindModelOfRoute(Call& call, const std::string& name) const;
  [[nodiscard]] static Result<void> HoldToPriority(const Call& call, CacheFields& fields);
  // The cache's fields with what the request's headers add and its key allows.
  [[nodiscard]] Result<void> CompleteCacheFields(const Call& call, CacheFields& fields) const;
  // The longest time for which the call's key may keep blocks.
  [[nodiscard]] static std::uint64_t MostRetentionMs(const Call& call);
  // The parts of a chat, for comparison with later ones.
  [[nodiscard]] std::shared_ptr<const PromptParts> PartsOf(const ChatRequest& chat, const jinja::TracedText& text,
                                                           const PromptPlaces& places) const;
  // Compares a chat with the one before it, and keeps what later ones need. `chat` may be null.
  void CompareAndKeep(const Call& call, const CacheFields& cache, const PromptParts* chat,
                      std::span<GenerateSpec> specs, const std::string& answer_id) const;
  static void SetPrewarm(SamplingFields& fields);
  static void SetLifetimes(const Call& call, std::size_t prompt_tokens, std::span<const PlacedBreakpoint> breakpoints,
                           CacheFields& fields);
  [[nodiscard]] Result<std::shared_ptr<const ServedModel>> FindModel(const std::string& name) const;
  // The models without their adapters, and the error for a name that no worker serves now: its workers are away, or
  // there never were any.
  [[nodiscard]] std::vector<std::shared_ptr<const ServedModel>> ModelsWithoutAdapters() const;
  [[nodiscard]] Error AwayOrUnknown(const std::string& name) const;
  // May the caller use the model that the name means to it?
  [[nodiscard]] bool MayAskFor(const Call& call, std::string_view name) const;
  // The models, adapters and aliases that the caller may ask for.
  [[nodiscard]] std::vector<std::shared_ptr<const ServedModel>> ModelsFor(const Call& call) const;
  [[nodiscard]] Result<Instant> DeadlineOf(const Call& call) const;
  [[nodiscard]] RenderSettings Settings() const;
  [[nodiscard]] PromptScope ScopeOf(const Call& call) const;
  [[nodiscard]] Result<ChatPrompt> ReadChatPrompt(Call& call, const ChatRequest& chat);
  // Sets the constraint that makes the answer's tool calls take the family's form.
  [[nodiscard]] static Result<void> ConstrainCalls(const ServedModel& model, Prompt& prompt);
  [[nodiscard]] static Result<void> CheckFreeCalls(const ToolSet& tools, ToolFamily calls);
  [[nodiscard]] OutputFamily FamilyOfOutput(const ServedModel& model, const ChatRequest& chat) const;
  [[nodiscard]] Result<Prompt> ReadChat(Call& call, Result<ChatRequest> chat);
  [[nodiscard]] Result<Prompt> ReadCompletion(Call& call);
  [[nodiscard]] Result<std::string> ReadTokenize(Call& call);
  [[nodiscard]] Result<std::string> ReadCountTokens(Call& call);
  // Adds the spec of one of the request's prompts. `field` names the prompt in errors.
  [[nodiscard]] Result<void> AddSpec(const Call& call, HashedTokens read, std::string_view field, Prompt& prompt);
  [[nodiscard]] static Result<void> HoldSpecs(Call& call, Prompt& prompt);
  [[nodiscard]] static Result<void> HoldAnswer(const Call& call, Prompt& prompt);
  // `prefix` and 32 hexadecimal digits.
  [[nodiscard]] std::string NewId(std::string_view prefix);
  void GenerateOpenAi(const Call& call, AnswerKind kind, Result<Prompt> prompt);
  void Generate(const Call& call, Prompt prompt, const std::string& answer_id, std::unique_ptr<AnswerFormat> format);
  void AnswerResult(const Call& call, Result<std::string> body);
  void Answer(const Call& call, HttpResponse response);
  void AnswerError(const Call& call, const Error& error);
  // The error in the form that the route's API uses.
  [[nodiscard]] HttpResponse ErrorAnswer(const Call& call, const Error& error);
  [[nodiscard]] std::uint64_t NextRandom();

  const GenerationServices services_;
  TextWork& text_;
  const ApiOptions options_;
  const std::shared_ptr<const std::vector<Route>> routes_;
  const std::shared_ptr<PromptMemo> memo_;  // not null
  std::atomic<bool> draining_ = false;
  std::atomic<std::uint64_t> random_counter_ = 0;
};

}  // namespace roost::router
