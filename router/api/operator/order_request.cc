#include "router/api/operator/order_request.h"

#include <chrono>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "common/base/json_writer.h"
#include "common/wire/codec.h"

namespace roost::router {
namespace {

// Longer waits are made of several requests; an order stays in force between them.
constexpr std::int64_t kMaxWaitMs = 600'000;

std::string_view ReasonOf(const WorkerReply& reply) {
  if (std::holds_alternative<NotSupported>(reply)) return "not supported: the worker is of an older release";
  return "no answer";
}

}  // namespace

Result<CordonOrder> ParseCordonRequest(const JsonObject& body, CordonVerb verb) {
  CordonOrder order;
  order.service = verb == CordonVerb::kUncordon ? Service::kOpen : Service::kCordoned;
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> worker, body.String("worker"));
  order.worker_id = worker.value_or("");
  if (order.worker_id.empty()) return InvalidArgument("worker", "must be the name of a worker");
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::int64_t> wait_ms, body.Integer("wait_ms", 0, kMaxWaitMs));
  if (wait_ms && verb != CordonVerb::kDrain) return InvalidArgument("wait_ms", "is for /admin/v1/drain");
  order.patience = std::chrono::milliseconds(wait_ms.value_or(0));
  return order;
}

std::string CordonBody(const WorkerAnswer& answer) {
  JsonWriter json;
  json.BeginObject().Key("worker").String(answer.worker_id);
  const auto* const state = std::get_if<ServiceState>(&answer.reply);
  json.Key("answered").Bool(state != nullptr);
  if (state == nullptr) {
    json.Key("reason").String(ReasonOf(answer.reply)).EndObject();
    return json.Take();
  }
  json.Key("cordoned").Bool(state->is_cordoned).Key("idle").Bool(state->IsIdle());
  json.Key("running_requests").Number(state->running_requests);
  json.Key("waiting_requests").Number(state->waiting_requests);
  json.Key("in_flight_requests").Number(state->in_flight_requests).EndObject();
  return json.Take();
}

Result<EvictRequest> ParseEvictRequest(const JsonObject& body) {
  EvictRequest request;
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> model, body.String("model"));
  request.model = model.value_or("");
  ROOST_ASSIGN_OR_RETURN(request.tenant, ParseTenant(body));
  ROOST_ASSIGN_OR_RETURN(request.workers, ParseWorkerChoice(body));
  if (request.workers.target == PinTarget::kBestWorker) {
    return InvalidArgument("workers", "must be \"all\" or an array of names");
  }
  ROOST_ASSIGN_OR_RETURN(request.block, ParseBlockHash(body));
  if (request.block) return request;
  if (!body.Find("prompt") && !body.Find("messages")) {
    if (!request.tenant.empty()) return request;
    return InvalidArgument("prompt", "is missing: give a prompt, messages, a hash or a tenant");
  }
  if (request.model.empty()) return InvalidArgument("model", "must name the model of the prompt");
  ROOST_ASSIGN_OR_RETURN(request.prompt, ParsePromptRequest(body, ChatPart::kFront));
  return request;
}

Result<EvictPlan> MakeEvictPlan(std::span<const std::shared_ptr<const ServedModel>> revisions,
                                const EvictRequest& request, const RenderSettings& settings) {
  EvictPlan plan;
  plan.order.model = request.model;
  plan.order.workers = request.workers;
  if (request.block) {
    plan.order.what = wire::BlockToEvict{*request.block};
    return plan;
  }
  if (!request.prompt) {
    plan.order.what = wire::TenantToEvict{request.tenant};
    return plan;
  }
  std::vector<PromptOfRevision> prompts;
  for (const std::shared_ptr<const ServedModel>& model : revisions) {
    ROOST_ASSIGN_OR_RETURN(HashedPrompt prompt, HashPrompt(*model, *request.prompt, settings));
    if (prompt.tokens.empty()) {
      return InvalidArgument(std::string(request.prompt->prompt_field()), "must hold at least one token");
    }
    if (prompts.empty()) {
      plan.prompt_token_count = prompt.tokens.size();
      plan.block_count = prompt.hashes.size();
    }
    prompts.push_back({model, {prompt.root, std::move(prompt.tokens), std::move(prompt.hashes), prompt.own}});
  }
  plan.order.what = std::move(prompts);
  return plan;
}

Result<PinRequest> ParsePinRequest(const JsonObject& body) {
  PinRequest request;
  ROOST_ASSIGN_OR_RETURN(request.block, ParseBlockHash(body));
  if (!request.block) {
    ROOST_ASSIGN_OR_RETURN(request.prompt, ParsePromptRequest(body, ChatPart::kFront));
  }
  constexpr auto kMaxDurationMs = static_cast<std::int64_t>(wire::kMaxKeepMs);
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::int64_t> duration, body.Integer("duration_ms", 1, kMaxDurationMs));
  request.duration_ms = static_cast<std::uint64_t>(duration.value_or(0));
  ROOST_ASSIGN_OR_RETURN(request.workers, ParseWorkerChoice(body));
  if (request.block && request.workers.target == PinTarget::kBestWorker) {
    return InvalidArgument("workers", "must be \"all\" or an array of names: a hash does not say which prompt comes");
  }
  return request;
}

// The worker pins the blocks before a pinned one with it, so the scope need not be known.
PinOrder MakeBlockOrder(std::shared_ptr<const ServedModel> model, const PinRequest& request, PinAction action) {
  PinOrder order{.model = std::move(model),
                 .message = wire::Unpin{{}, {*request.block}},
                 .workers = request.workers,
                 .what = PinOrder::What::kBlock};
  if (action == PinAction::kPin) order.message = wire::Pin{{}, {*request.block}, request.duration_ms};
  return order;
}

Result<PinPlan> MakePinPlan(std::shared_ptr<const ServedModel> model, const PinRequest& request, PinAction action,
                            const RenderSettings& settings) {
  ROOST_ASSIGN_OR_RETURN(HashedPrompt prompt, HashBlocksOfPrompt(*model, request.prompt, settings));
  PinPlan plan;
  plan.prompt_token_count = prompt.tokens.size();
  plan.block_count = prompt.hashes.size();
  plan.order.model = std::move(model);
  plan.order.workers = request.workers;
  if (action == PinAction::kPin) {
    plan.order.message = wire::Pin{prompt.root, std::move(prompt.hashes), request.duration_ms};
  } else {
    plan.order.message = wire::Unpin{prompt.root, std::move(prompt.hashes)};
  }
  return plan;
}

}  // namespace roost::router
