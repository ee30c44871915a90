// POST /admin/v1/warm: a prompt, as prompt_request.h says, that workers compute; and each worker with its outcome:
// computed, pulled, held, refused, or unanswered; and what it fetched from another one.
#include <memory>
#include <utility>
#include <variant>

#include "router/api/answers/read_body.h"
#include "router/api/operator/verb.h"
#include "router/api/requests/prompt_request.h"

namespace roost::router {
namespace {

struct WarmRequest {
  PromptRequest prompt;
  WorkerChoice workers;
  std::string source;  // empty: the best for each worker
};

Result<WarmRequest> ParseWarmRequest(const JsonObject& body) {
  WarmRequest request;
  ROOST_ASSIGN_OR_RETURN(request.prompt, ParsePromptRequest(body, ChatPart::kFront));
  ROOST_ASSIGN_OR_RETURN(request.workers, ParseWorkerChoice(body));
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> source, body.String("from"));
  if (source && source->empty()) return InvalidArgument("from", "must be the name of a worker");
  request.source = source.value_or("");
  return request;
}

std::string_view NameOf(WarmOutcome::Kind kind) {
  switch (kind) {
    case WarmOutcome::Kind::kComputed: return "computed";
    case WarmOutcome::Kind::kPulled: return "pulled";
    case WarmOutcome::Kind::kHeld: return "held";
    case WarmOutcome::Kind::kRefused: break;
  }
  return "refused";
}

void WritePull(const Pull& pull, JsonWriter& json) {
  json.Key("pull").BeginObject().Key("from").String(pull.source).Key("outcome").String(router::NameOf(pull.outcome));
  json.Key("blocks").Number(pull.block_count).Key("bytes").Number(pull.bytes).Key("seconds").Number(pull.seconds);
  json.EndObject();
}

std::string WarmBody(const PromptSize& size, std::span<const WorkerAnswer> answers) {
  JsonWriter json;
  json.BeginObject();
  WriteSize(size, json);
  json.Key("workers").BeginArray();
  for (const WorkerAnswer& answer : answers) {
    const auto* const outcome = std::get_if<WarmOutcome>(&answer.reply);
    if (outcome == nullptr) {
      WriteUnanswered(answer, json);
      continue;
    }
    json.BeginObject().Key("worker").String(answer.worker_id).Key("answered").Bool(true);
    json.Key("outcome").String(NameOf(outcome->kind)).Key("held_blocks").Number(outcome->block_count);
    json.Key("computed_tokens").Number(outcome->computed_tokens);
    if (outcome->pull) WritePull(*outcome->pull, json);
    if (outcome->kind == WarmOutcome::Kind::kRefused) json.Key("reason").String(outcome->reason);
    json.EndObject();
  }
  json.EndArray().EndObject();
  return json.Take();
}

Result<OrderPlan> PlanWarmUp(VerbCall& call) {
  HttpBody& body = call.request.body;
  const std::size_t size = body.size();
  ROOST_ASSIGN_OR_RETURN(const WarmRequest request, ReadBody(body, size, call.read_model, &ParseWarmRequest));
  ROOST_RETURN_IF_ERROR(Hold(body.memory(), ParseBytes(size) + EncodeBytes(size)));
  ROOST_ASSIGN_OR_RETURN(HashedPrompt prompt, HashBlocksOfPrompt(*call.model, request.prompt, call.settings));
  WarmOrder order;
  order.workers = request.workers;
  order.source = request.source;
  ROOST_ASSIGN_OR_RETURN(order.deadline, std::move(call.deadline));
  order.spec.model = call.model;
  order.spec.generate.prompt = std::move(prompt.tokens);
  order.spec.generate.root = prompt.root;
  order.spec.generate.own = prompt.own;
  order.spec.generate.block_hashes = std::move(prompt.hashes);
  order.spec.generate.tenant = request.prompt.tenant;
  order.spec.salt = request.prompt.fields().cache.salt;
  ROOST_RETURN_IF_ERROR(Hold(body.memory(), SpecBytes(order.spec)));
  order.spec.memory = std::make_shared<ByteBudget::Guard>(std::move(body.memory()));
  const PromptSize told{.model = call.model->name,
                        .block_count = order.spec.generate.block_hashes.size(),
                        .token_count = order.spec.generate.prompt.size()};
  return OrderPlan{std::move(order), [told](std::span<const WorkerAnswer> answers) { return WarmBody(told, answers); }};
}

}  // namespace

extern const Verb kWarmVerb{"POST", "/admin/v1/warm", "warm", &PlanWarmUp};

}  // namespace roost::router
