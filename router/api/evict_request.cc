#include "router/api/evict_request.h"

#include <string_view>
#include <utility>

#include "common/wire/codec.h"

namespace roost::router {

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

}  // namespace roost::router
