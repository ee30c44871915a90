// POST /admin/v1/evict: an EvictRequest, and the sums with each worker and what left its cache, or with "answered":
// false and the reason. Taken also while the model's requests are refused because too many wait.
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "router/api/answers/read_body.h"
#include "router/api/operator/order_request.h"
#include "router/api/operator/verb.h"

namespace roost::router {
namespace {

// The first members of an answer.
struct EvictedSize {
  std::string model;   // empty: all
  std::string tenant;  // empty: none
  std::optional<PromptSize> prompt = {};
  std::optional<BlockHash> block = {};
};

struct EvictPlan {
  EvictOrder order;
  EvictedSize size;
};

// `revisions` are those of the request's model that are served; at least one if it has a prompt, whose size is as the
// first revision counts it. A prompt may be shorter than a block. kContextTooLong when it is longer than the model's
// context.
Result<EvictPlan> MakeEvictPlan(std::span<const std::shared_ptr<const ServedModel>> revisions,
                                const EvictRequest& request, const RenderSettings& settings) {
  EvictPlan plan;
  plan.size = {.model = request.model, .tenant = request.tenant, .block = request.block};
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
    if (prompts.empty()) plan.size.prompt = PromptSize{request.model, prompt.hashes.size(), prompt.tokens.size()};
    prompts.push_back({model, {prompt.root, std::move(prompt.tokens), std::move(prompt.hashes), prompt.own}});
  }
  plan.order.what = std::move(prompts);
  return plan;
}

void WriteEvicted(const WorkerAnswer& answer, JsonWriter& json) {
  json.BeginObject().Key("worker").String(answer.worker_id);
  const auto* const evicted = std::get_if<wire::EvictAnswer>(&answer.reply);
  if (evicted != nullptr && evicted->outcome == wire::EvictOutcome::kDone) {
    json.Key("answered").Bool(true).Key("evicted_blocks").Number(evicted->evicted_block_count);
    json.Key("busy_blocks").Number(evicted->busy_block_count);
    json.Key("disk_blocks").Number(evicted->disk_block_count).EndObject();
    return;
  }
  const bool is_supported = !std::holds_alternative<NotSupported>(answer.reply);
  std::string_view reason = is_supported ? "no answer" : "not supported";
  if (evicted != nullptr) reason = "refused: it has too many evictions open, or can not erase all of it";
  json.Key("answered").Bool(false).Key("reason").String(reason).EndObject();
}

std::string EvictBody(const EvictedSize& size, std::span<const WorkerAnswer> answers) {
  std::uint64_t evicted = 0;
  std::uint64_t busy = 0;
  std::uint64_t on_disk = 0;
  for (const WorkerAnswer& answer : answers) {
    const auto* const counts = std::get_if<wire::EvictAnswer>(&answer.reply);
    if (counts == nullptr) continue;
    evicted += counts->evicted_block_count;
    busy += counts->busy_block_count;
    on_disk += counts->disk_block_count;
  }
  JsonWriter json;
  json.BeginObject();
  if (!size.tenant.empty()) json.Key("tenant").String(size.tenant);
  if (size.prompt) {
    WriteSize(*size.prompt, json);
  } else if (!size.model.empty()) {
    json.Key("model").String(size.model);
  }
  if (size.block) json.Key("hash").String(size.block->ToHex());
  json.Key("evicted_blocks").Number(evicted).Key("busy_blocks").Number(busy);
  json.Key("disk_blocks").Number(on_disk);
  json.Key("workers").BeginArray();
  for (const WorkerAnswer& answer : answers) WriteEvicted(answer, json);
  json.EndArray().EndObject();
  return json.Take();
}

// The router's memory of texts goes as a whole.
Result<OrderPlan> PlanEviction(VerbCall& call) {
  HttpBody& body = call.request.body;
  const std::size_t size = body.size();
  const auto any_model = [](const JsonObject&) { return Result<void>(); };
  ROOST_ASSIGN_OR_RETURN(const EvictRequest request, ReadBody(body, size, any_model, &ParseEvictRequest));
  ROOST_RETURN_IF_ERROR(Hold(body.memory(), ParseBytes(size) + EncodeBytes(size)));
  std::vector<std::shared_ptr<const ServedModel>> revisions;
  if (!request.model.empty()) {
    revisions = call.view->models->AllOf(request.model);
    if (revisions.empty()) {
      ROOST_ASSIGN_OR_RETURN(std::shared_ptr<const ServedModel> model, call.find_model(request.model));
      revisions.push_back(std::move(model));
    }
  }
  if (request.prompt) {
    std::erase_if(revisions, [](const auto& model) { return !model->has_text; });
    if (revisions.empty()) return InvalidArgument("model", "its tokenizer can not be read here");
  }
  ROOST_ASSIGN_OR_RETURN(EvictPlan plan, MakeEvictPlan(revisions, request, call.settings));
  call.memo.Clear();
  return OrderPlan{std::move(plan.order), [told = std::move(plan.size)](std::span<const WorkerAnswer> answers) {
                     return EvictBody(told, answers);
                   }};
}

}  // namespace

extern const Verb kEvictVerb{"POST", "/admin/v1/evict", "evict", &PlanEviction};

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

}  // namespace roost::router
