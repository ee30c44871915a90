// POST /admin/v1/pin and /admin/v1/unpin: a PinRequest, and each worker with the blocks that it kept, waits for and
// refused, or with "answered": false. Of a block only itself is counted.
#include <optional>
#include <utility>
#include <variant>

#include "common/wire/codec.h"
#include "router/api/answers/read_body.h"
#include "router/api/operator/order_request.h"
#include "router/api/operator/verb.h"

namespace roost::router {
namespace {

enum class PinAction { kPin, kUnpin };

// The content that an order names: a prompt, or a block of a model.
struct BlockOfModel {
  std::string model;
  BlockHash hash;
};
using PinnedPart = std::variant<PromptSize, BlockOfModel>;

// The order that a request becomes, and what it names.
struct PinPlan {
  PinOrder order;
  PinnedPart part;
};

// The worker pins the blocks before a pinned one with it, so the scope need not be known.
PinPlan PinBlock(const std::shared_ptr<const ServedModel>& model, const PinRequest& request, PinAction action) {
  PinOrder order{.model = model,
                 .message = wire::Unpin{{}, {*request.block}},
                 .workers = request.workers,
                 .what = PinOrder::What::kBlock};
  if (action == PinAction::kPin) order.message = wire::Pin{{}, {*request.block}, request.duration_ms};
  return {std::move(order), BlockOfModel{model->name, *request.block}};
}

// An error when the prompt is shorter than a block or longer than the model's context.
Result<PinPlan> PinPrompt(const std::shared_ptr<const ServedModel>& model, const PinRequest& request, PinAction action,
                          const RenderSettings& settings) {
  ROOST_ASSIGN_OR_RETURN(HashedPrompt prompt, HashBlocksOfPrompt(*model, request.prompt, settings));
  const PromptSize size{.model = model->name, .block_count = prompt.hashes.size(), .token_count = prompt.tokens.size()};
  PinOrder order{.model = model, .message = wire::Unpin{}, .workers = request.workers};
  if (action == PinAction::kPin) {
    order.message = wire::Pin{prompt.root, std::move(prompt.hashes), request.duration_ms};
  } else {
    order.message = wire::Unpin{prompt.root, std::move(prompt.hashes)};
  }
  return PinPlan{std::move(order), size};
}

void WriteSize(const BlockOfModel& block, JsonWriter& json) {
  json.Key("model").String(block.model).Key("hash").String(block.hash.ToHex());
}

std::string PinBody(const PinnedPart& part, std::span<const WorkerAnswer> answers) {
  JsonWriter json;
  json.BeginObject();
  std::visit([&json](const auto& named) { WriteSize(named, json); }, part);
  json.Key("workers").BeginArray();
  for (const WorkerAnswer& answer : answers) {
    const auto* const pinned = std::get_if<wire::PinAnswer>(&answer.reply);
    if (pinned == nullptr) {
      WriteUnanswered(answer, json);
      continue;
    }
    json.BeginObject().Key("worker").String(answer.worker_id).Key("answered").Bool(true);
    json.Key("kept_blocks").Number(pinned->kept_block_count);
    json.Key("pending_blocks").Number(pinned->awaited_block_count);
    json.Key("refused_blocks").Number(pinned->refused_block_count).EndObject();
  }
  json.EndArray().EndObject();
  return json.Take();
}

template <PinAction kAction>
Result<OrderPlan> PlanPin(VerbCall& call) {
  HttpBody& body = call.request.body;
  const std::size_t size = body.size();
  ROOST_ASSIGN_OR_RETURN(const PinRequest request, ReadBody(body, size, call.read_model, &ParsePinRequest));
  ROOST_RETURN_IF_ERROR(Hold(body.memory(), ParseBytes(size) + EncodeBytes(size)));
  Result<PinPlan> plan =
      request.block ? PinBlock(call.model, request, kAction) : PinPrompt(call.model, request, kAction, call.settings);
  if (!plan.ok()) return plan.error();
  return OrderPlan{std::move(plan->order), [part = std::move(plan->part)](std::span<const WorkerAnswer> answers) {
                     return PinBody(part, answers);
                   }};
}

}  // namespace

extern const Verb kPinVerb{"POST", "/admin/v1/pin", "pin", &PlanPin<PinAction::kPin>};
extern const Verb kUnpinVerb{"POST", "/admin/v1/unpin", "unpin", &PlanPin<PinAction::kUnpin>};

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

}  // namespace roost::router
