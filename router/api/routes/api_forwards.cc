// The Api's requests that an engine gets unread: routes that engines have and Roost has not, models without a text
// here, and what only an engine can read. They run on text threads.
#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/base/trace_context.h"
#include "common/base/utf8.h"
#include "common/prefix/block_hash.h"
#include "router/api/answers/client_watch.h"
#include "router/api/answers/forward_usage.h"
#include "router/api/answers/generation.h"
#include "router/api/answers/messages_answer.h"
#include "router/api/answers/text_memory.h"
#include "router/api/key_file.h"
#include "router/api/requests/unread_prompt.h"
#include "router/api/routes/api_call.h"
#include "router/fleet/fleet_snapshot.h"

namespace roost::router {
namespace {

// ---- the model that a body names, found without reading the rest of it ----

struct NamedModel {
  std::string name;  // empty: the body names none
  // Its place in the body, without quotes.
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

namespace ondemand = simdjson::ondemand;

constexpr std::string_view kModelField = "model";
constexpr std::string_view kLineEnd = "\r\n";

Error NoJson() { return InvalidArgument("", "the body is not a JSON object"); }

Result<NamedModel> ModelOf(ondemand::value value, const std::string& body) {
  bool is_null = false;
  if (value.is_null().get(is_null) == simdjson::SUCCESS && is_null) return NamedModel();
  const std::string_view token = value.raw_json_token();
  std::string_view name;
  if (value.get_string().get(name) != simdjson::SUCCESS) return InvalidArgument("model", "must be a string");
  const auto begin = static_cast<std::uint64_t>(token.data() - body.data()) + 1;
  return NamedModel{std::string(name), begin, begin + token.rfind('"') - 1};
}

Result<NamedModel> ModelInJson(std::string& body) {
  body.reserve(body.size() + simdjson::SIMDJSON_PADDING);
  ondemand::parser parser;
  ondemand::document document;
  ondemand::object object;
  const simdjson::padded_string_view text(body.data(), body.size(), body.capacity());
  if (parser.iterate(text).get(document) != simdjson::SUCCESS) return NoJson();
  if (document.get_object().get(object) != simdjson::SUCCESS) return NoJson();
  NamedModel model;
  for (auto member : object) {
    ondemand::field field;
    std::string_view key;
    if (std::move(member).get(field) != simdjson::SUCCESS) return NoJson();
    if (field.unescaped_key().get(key) != simdjson::SUCCESS) return NoJson();
    if (key != kModelField) continue;
    ROOST_ASSIGN_OR_RETURN(model, ModelOf(field.value(), body));
  }
  return model;
}

// ---- forms (RFC 7578) ----

// The value of a parameter of a header: name=value or name="value". Empty when it is not there.
std::string_view ParameterOf(std::string_view header, std::string_view wanted) {
  for (std::size_t at = header.find(';'); at != std::string_view::npos; at = header.find(';')) {
    header.remove_prefix(at + 1);
    header.remove_prefix(std::min(header.find_first_not_of(" \t"), header.size()));
    const std::size_t equals = header.find('=');
    if (equals == std::string_view::npos) return {};
    const bool is_wanted = EqualsIgnoringCase(header.substr(0, equals), wanted);
    header.remove_prefix(equals + 1);
    const bool is_quoted = header.starts_with('"');
    if (is_quoted) header.remove_prefix(1);
    const std::string_view value = header.substr(0, header.find_first_of(is_quoted ? "\"" : "; \t"));
    if (is_wanted) return value;
    header.remove_prefix(value.size());
  }
  return {};
}

bool IsModelField(std::string_view part_head) {
  constexpr std::string_view kDisposition = "content-disposition:";
  while (!part_head.empty()) {
    const std::string_view line = part_head.substr(0, part_head.find(kLineEnd));
    if (EqualsIgnoringCase(line.substr(0, kDisposition.size()), kDisposition)) {
      return ParameterOf(line, "name") == kModelField;
    }
    part_head.remove_prefix(std::min(line.size() + kLineEnd.size(), part_head.size()));
  }
  return false;
}

Result<NamedModel> ModelInForm(std::string_view body, std::string_view content_type) {
  const std::string_view boundary = ParameterOf(content_type, "boundary");
  if (boundary.empty()) return InvalidArgument("", "the form's Content-Type names no boundary");
  const std::string delimiter = fmt::format("--{}", boundary);
  const std::string value_end = fmt::format("{}{}", kLineEnd, delimiter);
  NamedModel model;
  std::size_t at = body.find(delimiter);
  if (at == std::string_view::npos) return InvalidArgument("", "the form does not have its boundary");
  while (at != std::string_view::npos) {
    const std::size_t head = at + delimiter.size();
    if (body.substr(head, 2) == "--") return model;
    const std::size_t head_end = body.find("\r\n\r\n", head);
    const std::size_t end = body.find(value_end, head);
    if (head_end == std::string_view::npos || end == std::string_view::npos || head_end > end) break;
    const std::size_t value = std::min(head_end + 4, end);
    if (IsModelField(body.substr(head, head_end - head).substr(std::min<std::size_t>(2, head_end - head)))) {
      model = {std::string(body.substr(value, end - value)), value, end};
    }
    at = end + kLineEnd.size();
  }
  return InvalidArgument("", "the form is not whole");
}

// The member `model` of a JSON object, or the field `model` of a form (multipart/form-data), by the content type; the
// last one counts, as it does for engines. A body of another type names none. kInvalidArgument for what is no JSON
// object or no such form, and for a name that is no string.
Result<NamedModel> NamedModelIn(std::string& body, std::string_view content_type) {
  constexpr std::string_view kFormType = "multipart/form-data";
  Result<NamedModel> model = NamedModel();
  if (IsJson(content_type)) {
    model = ModelInJson(body);
  } else if (EqualsIgnoringCase(content_type.substr(0, kFormType.size()), kFormType)) {
    model = ModelInForm(body, content_type);
  }
  if (model.ok() && (!IsValidUtf8(model->name) || HasControlCharacter(model->name))) {
    return InvalidArgument("model", "is no name");
  }
  return model;
}

// ---- the answer ----
//
// The answer to a request that an engine got unread: its status, type and bytes as they come.
//
//   Start ── Forward ── error ─────────────────────────► error status
//               └─ head ─ bytes* ─ end ────────────────► whole, if all came at once; else as bytes
//                    │        └ error ─────────────────► cut off
//                    └ client gone, any time ► Cancel
//
// The dispatcher is told what the client has taken, so that no more than wire::kForwardCredit bytes wait here.
//
// Threads: as a Generation's (generation.h).
struct ForwardOptions {
  std::string_view route;  // a name of the route table: it lasts as long as the process
  std::string request_id;
  std::string client;  // its address
  RequestTrace trace;
  Instant started_at;
  std::shared_ptr<Admission> admission;  // of the key that the request came with; null: none
  // An error in the form of the route's API.
  HttpResponse (*failure)(const Error& error, Duration retry_after) = &ErrorResponse;
};

class ForwardAnswer : public std::enable_shared_from_this<ForwardAnswer> {
 public:
  // It keeps itself alive until it ends. The responder's OnClosed must call client.OnGone.
  static void Start(const GenerationServices& services, std::shared_ptr<Responder> responder, ClientWatch& client,
                    ForwardSpec spec, ForwardOptions options);

  ForwardAnswer(const ForwardAnswer&) = delete;
  ForwardAnswer& operator=(const ForwardAnswer&) = delete;

 private:
  class Relay;  // the dispatcher's observer: posts to the connection's thread

  ForwardAnswer(const GenerationServices& services, std::shared_ptr<Responder> responder, const ForwardSpec& spec,
                ForwardOptions options);

  void Submit(ClientWatch& client, ForwardSpec spec);
  void OnPiece(ForwardPiece piece);
  void Begin(ForwardHead head, std::string& body, bool is_whole);
  void OnWritten(std::size_t bytes);
  void OnClientGone();
  void Fail(const Error& error);
  void Conclude(int status, std::string_view outcome);
  // Counts for the key what the answer says that it took.
  ForwardTokens CountTokens();
  [[nodiscard]] std::vector<HttpHeader> Headers() const;

  const GenerationServices services_;
  const std::shared_ptr<Responder> responder_;
  const ForwardOptions options_;
  const std::shared_ptr<const ServedModel> model_;
  const std::string path_;

  bool ended_ = false;
  int status_ = 0;  // of the engine's answer, once it has begun
  std::string worker_id_;
  std::optional<ForwardUsage> usage_;
  std::uint64_t answer_bytes_ = 0;
  UsageReader reader_;  // of its tokens, for the key
  std::size_t ungranted_bytes_ = 0;

  std::mutex submit_mutex_;
  std::optional<RequestId> request_;  // guarded by submit_mutex_; once submitted
  bool cancelled_ = false;            // guarded by submit_mutex_
};

constexpr int kFirstFailure = 500;

// The dispatcher hears of the client's progress in steps of this.
constexpr std::size_t kGrantStep = wire::kForwardCredit / 4;

class ForwardAnswer::Relay final : public ForwardObserver {
 public:
  explicit Relay(std::shared_ptr<ForwardAnswer> answer) : answer_(std::move(answer)) {}

  void OnPiece(ForwardPiece piece) override {
    answer_->responder_->Post(
        [answer = answer_, piece = std::move(piece)]() mutable { answer->OnPiece(std::move(piece)); });
  }

 private:
  const std::shared_ptr<ForwardAnswer> answer_;
};

ForwardAnswer::ForwardAnswer(const GenerationServices& services, std::shared_ptr<Responder> responder,
                             const ForwardSpec& spec, ForwardOptions options)
    : services_(services),
      responder_(std::move(responder)),
      options_(std::move(options)),
      model_(spec.model),
      path_(spec.path) {}

void ForwardAnswer::Start(const GenerationServices& services, std::shared_ptr<Responder> responder, ClientWatch& client,
                          ForwardSpec spec, ForwardOptions options) {
  const std::shared_ptr<ForwardAnswer> answer(
      new ForwardAnswer(services, std::move(responder), spec, std::move(options)));
  answer->Submit(client, std::move(spec));
}

void ForwardAnswer::Submit(ClientWatch& client, ForwardSpec spec) {
  services_.observer.OnForwardStart();
  if (!client.Watch([self = shared_from_this()] { self->OnClientGone(); })) {
    return responder_->Post([self = shared_from_this()] { self->OnClientGone(); });
  }
  Result<RequestId> request =
      services_.dispatcher.Forward(std::move(spec), std::make_shared<Relay>(shared_from_this()));
  if (!request.ok()) {
    return responder_->Post([self = shared_from_this(), error = std::move(request).error()] {
      if (!self->ended_) self->Fail(error);
    });
  }
  {
    const std::lock_guard lock(submit_mutex_);
    request_ = *request;
    if (!cancelled_) return;
  }
  services_.dispatcher.Cancel(*request);
}

// ---- the connection's thread ----

void ForwardAnswer::OnPiece(ForwardPiece piece) {
  if (ended_) return;
  answer_bytes_ += piece.body.size();
  reader_.Add(piece.body);
  usage_ = piece.usage;
  if (piece.head) Begin(*std::move(piece.head), piece.body, piece.is_last && !piece.error);
  if (ended_) return;
  if (!piece.body.empty()) responder_->Send(std::move(piece.body));
  if (!piece.is_last) return;
  if (piece.error) return Fail(*piece.error);
  responder_->End();
  Conclude(status_, "complete");
}

void ForwardAnswer::Begin(ForwardHead head, std::string& body, bool is_whole) {
  status_ = head.status;
  worker_id_ = std::move(head.worker_id);
  if (!is_whole) {
    return responder_->BeginBytes(
        {.status = head.status,
         .content_type = std::move(head.content_type),
         .headers = Headers(),
         .on_written = [self = shared_from_this()](std::size_t bytes) { self->OnWritten(bytes); }});
  }
  HttpResponse response;
  response.status = head.status;
  response.content_type = std::move(head.content_type);
  response.headers = Headers();
  response.body = std::move(body);
  responder_->Respond(std::move(response));
  Conclude(status_, "complete");
}

void ForwardAnswer::OnWritten(std::size_t bytes) {
  ungranted_bytes_ += bytes;
  if (ended_ || ungranted_bytes_ < kGrantStep) return;
  std::optional<RequestId> request;
  {
    const std::lock_guard lock(submit_mutex_);
    request = request_;
  }
  if (request) services_.dispatcher.Grant(*request, std::exchange(ungranted_bytes_, 0));
}

void ForwardAnswer::OnClientGone() {
  if (ended_) return;
  std::optional<RequestId> request;
  {
    const std::lock_guard lock(submit_mutex_);
    cancelled_ = true;
    request = request_;
  }
  if (request) services_.dispatcher.Cancel(*request);
  Conclude(TraitsOf(ErrorCode::kCancelled).http_status, "client_gone");
}

// An answer that has begun is cut off: its status can not be taken back.
void ForwardAnswer::Fail(const Error& error) {
  const Duration retry_after = RetryAfter(services_.dispatcher, error, model_->model_name());
  HttpResponse response = options_.failure(error, retry_after);
  if (options_.admission != nullptr) AddLimitHeaders(*options_.admission, services_.clock.Now(), response.headers);
  const int status = status_ == 0 ? response.status : status_;
  static_cast<void>(responder_->Fail(std::move(response), ""));
  LogDebug("a request that was passed on failed", {{"request_id", options_.request_id}, {"error", error.ToString()}});
  Conclude(status, status_ == 0 ? "error" : "cut_off");
}

std::vector<HttpHeader> ForwardAnswer::Headers() const {
  std::vector<HttpHeader> headers{{"x-roost-worker", worker_id_}};
  if (usage_) headers.push_back({"x-roost-cached-tokens", fmt::to_string(usage_->cached_tokens)});
  if (options_.admission != nullptr) AddLimitHeaders(*options_.admission, services_.clock.Now(), headers);
  return headers;
}

void ForwardAnswer::Conclude(int status, std::string_view outcome) {
  ended_ = true;
  services_.observer.OnAnswer(options_.route, status);
  const ForwardTokens tokens = CountTokens();
  const bool has_key = options_.admission != nullptr;
  const std::string key = has_key ? options_.admission->key().name : "";
  services_.observer.OnForwardEnd({.is_failed = status >= kFirstFailure,
                                   .has_begun = status_ != 0,
                                   .model = model_->model_name(),
                                   .key = key,
                                   .tenant = has_key ? std::string_view(options_.admission->key().tenant) : "",
                                   .prompt_tokens = tokens.prompt,
                                   .cached_tokens = tokens.cached,
                                   .output_tokens = tokens.output});
  LogInfo("passed on", {{"request_id", options_.request_id},
                        {"trace_id", std::string(TraceIdOf(options_.trace.trace_parent))},
                        {"client", options_.client},
                        {"key", key},
                        {"route", std::string(options_.route)},
                        {"path", path_},
                        {"model", model_->name},
                        {"worker", worker_id_},
                        {"outcome", std::string(outcome)},
                        {"status", status},
                        {"answer_bytes", answer_bytes_},
                        {"prompt_tokens", tokens.prompt},
                        {"completion_tokens", tokens.output},
                        {"cached_tokens", tokens.cached},
                        {"promised_tokens", usage_ ? usage_->promised_tokens : 0},
                        {"seconds", ToSeconds(services_.clock.Now() - options_.started_at)}});
  if (!options_.trace.is_recorded()) return;
  trace::Span span = options_.trace.Own(fmt::format("POST {}", path_), options_.started_at, services_.clock.Now());
  span.attributes = {{"gen_ai.request.model", model_->name},    {"http.response.status_code", std::int64_t{status}},
                     {"roost.request_id", options_.request_id}, {"roost.worker", worker_id_},
                     {"roost.outcome", std::string(outcome)},   {"roost.key", key}};
  services_.tracing.spans.sink->Add(std::move(span));
}

ForwardTokens ForwardAnswer::CountTokens() {
  ForwardTokens tokens = reader_.Read().value_or(ForwardTokens());
  if (usage_) {
    tokens.prompt = usage_->prompt_tokens;
    tokens.cached = usage_->cached_tokens;
  }
  if (options_.admission == nullptr || status_ == 0) return tokens;
  options_.admission->account().CountGeneration(tokens.prompt, tokens.cached, tokens.output);
  const std::uint64_t charge = options_.admission->key().limits.ChargeOf(tokens.prompt, tokens.cached);
  options_.admission->TakeTokens(charge + tokens.output, services_.clock.Now());
  return tokens;
}

// ---- requests ----

// Beside the body: its pieces joined, and for JSON the places of its values.
constexpr std::uint64_t kJoinedBytes = 2;
constexpr std::uint64_t kScannedBytes = 6;

// The engines that have a route, for the answer where no worker's has it.
struct EngineNeed {
  std::string_view path;
  std::string_view engine;
};
constexpr std::array kNeeds{
    EngineNeed{"/v1/embeddings", "an engine that embeds (vllm serve MODEL --runner pooling)"},
    EngineNeed{"/pooling", "an engine that pools (vllm serve MODEL --runner pooling)"},
    EngineNeed{"/classify", "an engine with a classifier (vllm serve MODEL --runner pooling)"},
    EngineNeed{"/v1/audio/transcriptions", "an engine with a speech model (such as Whisper)"},
};

std::string NeedOf(std::string_view path) {
  const auto found = std::find_if(kNeeds.begin(), kNeeds.end(), [path](const auto& need) { return need.path == path; });
  const bool scores = path.find("score") != std::string_view::npos || path.find("rerank") != std::string_view::npos;
  if (found != kNeeds.end()) return std::string(found->engine);
  return scores ? "an engine with a reranker or embedding model (vllm serve MODEL --runner pooling)"
                : "an engine that has this route";
}

Error NoSuchRoute(std::string_view path, const std::string& model) {
  const std::string who = model.empty() ? "no worker" : fmt::format("no worker of the model '{}'", model);
  return {ErrorCode::kNotFound,
          fmt::format("{} has {}: it takes {}, and a roost-worker --engine beside it", who, path, NeedOf(path)),
          model.empty() ? "" : "model"};
}

// A header's value that a message to a worker can hold.
Result<std::string> HeaderText(const HttpRequest& request, std::string_view name) {
  const std::string value(request.FindHeader(name).value_or(""));
  if (value.size() <= wire::WireLimits::kMaxTextBytes && IsValidUtf8(value) && !HasControlCharacter(value))
    return value;
  return InvalidArgument(std::string(name), "is no header that can be passed on");
}

Error Unread() { return {ErrorCode::kInternal, "an engine reads it", ""}; }

}  // namespace

Result<void> Api::CheckReadable(Call& call, const JsonObject& body) const {
  const ServedModel& model = *call.model;
  const bool has_route = model.routes.contains(call.request.path);
  if (model.has_text && !(has_route && HasMedia(body))) return {};
  call.is_passed_on = true;
  const std::string tenant = TenantOf(call.admission);
  call.session = SessionOf(body, options_.session_headers.NameIn(call.request), tenant);
  if (model.has_text) return Unread();
  UnreadPrompt prompt = PiecesOf(body, model, tenant);
  call.pieces = std::move(prompt.pieces);
  call.instruction_pieces = prompt.instruction_pieces;
  return Unread();
}

void Api::PassThrough(Call& call) {
  call.is_passed_on = false;
  Result<ForwardSpec> spec = ReadForward(call);
  if (!spec.ok()) return AnswerError(call, spec.error());
  ForwardOptions options;
  options.route = call.route;
  options.request_id = call.request.request_id;
  options.client = call.request.client;
  options.trace = BeginTrace(options_.tracing, call.request.FindHeader("traceparent").value_or(""));
  options.started_at = call.started_at;
  options.admission = call.admission;
  if (call.error_form == ErrorForm::kAnthropic) options.failure = &MessagesErrorResponse;
  spec->head.trace_parent = options.trace.trace_parent;
  ForwardAnswer::Start(services_, call.responder, *call.client, *std::move(spec), std::move(options));
}

Result<ForwardSpec> Api::ReadForward(Call& call) const {
  HttpBody& body = call.request.body;
  ForwardSpec spec;
  ROOST_ASSIGN_OR_RETURN(spec.head.content_type, HeaderText(call.request, "content-type"));
  ROOST_ASSIGN_OR_RETURN(spec.head.accept, HeaderText(call.request, "accept"));
  ROOST_ASSIGN_OR_RETURN(spec.deadline, DeadlineOf(call));
  const std::uint64_t copies = IsJson(spec.head.content_type) ? kScannedBytes : kJoinedBytes;
  ROOST_RETURN_IF_ERROR(Hold(body.memory(), copies * body.size()));
  std::string text = body.TakeText(simdjson::SIMDJSON_PADDING);
  ROOST_ASSIGN_OR_RETURN(NamedModel named, NamedModelIn(text, spec.head.content_type));
  Result<void> found = call.model == nullptr ? FindModelOfRoute(call, named.name) : Result<void>();
  if (found.ok() && !call.model->routes.contains(call.request.path)) {
    found = NoSuchRoute(call.request.path, call.model->name);
  }
  if (!found.ok()) {
    body.PutBack(std::move(text));
    return found.error();
  }
  spec.model = call.model;
  spec.path = call.request.path;
  spec.session = call.session;
  spec.pieces = std::move(call.pieces);
  spec.instruction_pieces = call.instruction_pieces;
  if (!named.name.empty()) spec.head.model = call.model->name;
  spec.head.model_begin = named.begin;
  spec.head.model_end = named.end;
  // The body, and the part of it that is on its way.
  const std::uint64_t on_its_way = std::min<std::uint64_t>(text.size(), wire::kForwardCredit);
  const std::uint64_t hashed = spec.pieces.size() * sizeof(BlockHash);
  ROOST_RETURN_IF_ERROR(Hold(body.memory(), text.size() + on_its_way + hashed));
  spec.body = std::make_shared<const std::string>(std::move(text));
  spec.memory = std::make_shared<ByteBudget::Guard>(std::move(body.memory()));
  return spec;
}

// A body that names no model means the only one that has the route.
Result<void> Api::FindModelOfRoute(Call& call, const std::string& name) const {
  const std::string& path = call.request.path;
  auto models = ModelsWithoutAdapters();
  std::erase_if(
      models, [&](const auto& model) { return !model->routes.contains(path) || !MayUse(call.admission, model->name); });
  const std::string meant(MeantBy(name, call.admission, options_.model_aliases));
  const bool is_expected = !name.empty() && services_.dispatcher.View()->IsExpected(meant);
  if (models.empty() && !is_expected) return NoSuchRoute(path, "");
  if (name.empty() && models.size() > 1) {
    return InvalidArgument("model", "must name the model to ask: {} of them have {}", models.size(), path);
  }
  return TakeModel(call, name.empty() ? models.front()->name : name);
}

}  // namespace roost::router
