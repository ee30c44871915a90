#include "router/api/pin_request.h"

#include <optional>
#include <utility>

namespace roost::router {

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
