// The Api's routes about prefixes, for operators: pins, evictions, warm-ups, matches, the most used prefixes. They run
// on text threads.
#include <fmt/format.h>

#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "router/api/operator/models_json.h"
#include "router/api/operator/order_request.h"
#include "router/api/operator/prefix_json.h"
#include "router/api/requests/prompt_request.h"
#include "router/api/routes/api_body.h"
#include "router/api/routes/api_call.h"
#include "router/fleet/fleet_snapshot.h"

namespace roost::router {
namespace {

Result<PromptRequest> ParseQuestion(const JsonObject& body) { return ParsePromptRequest(body, ChatPart::kQuestion); }

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

// The answers about several models, which come one by one on the link thread while a text thread still asks.
class GatheredPrefixes {
 public:
  explicit GatheredPrefixes(std::size_t model_count) : awaited_(model_count) {}

  // True when this was the last that is awaited.
  [[nodiscard]] bool Take(PrefixesOfModel of_model) {
    const std::lock_guard lock(mutex_);
    models_.push_back(std::move(of_model));
    return --awaited_ == 0;
  }
  [[nodiscard]] bool GiveUp(std::size_t model_count) {
    if (model_count == 0) return false;
    const std::lock_guard lock(mutex_);
    awaited_ -= model_count;
    return awaited_ == 0;
  }
  // Only when none is awaited any more.
  [[nodiscard]] const std::vector<PrefixesOfModel>& models() const { return models_; }

 private:
  std::mutex mutex_;
  std::size_t awaited_;
  std::vector<PrefixesOfModel> models_;
};

PromptSize SizeOf(const ServedModel& model, std::size_t block_count, std::size_t token_count) {
  return {.model = model.name, .block_count = block_count, .token_count = token_count};
}

}  // namespace

// The workers' answers arrive on the link thread; a text thread turns them into the body.
AnswersDone Api::AnswerLater(const Call& call, MakeBody make_body) {
  return [this, responder = call.responder, route = call.route,
          make_body = std::move(make_body)](std::vector<WorkerAnswer> answers) {
    auto later = std::make_shared<Call>();
    later->responder = responder;
    later->route = route;
    later->thread = CallThread::kText;
    auto shared = std::make_shared<std::vector<WorkerAnswer>>(std::move(answers));
    const auto job = [this, later, shared, make_body] { AnswerResult(*later, make_body(*shared)); };
    if (text_.TryPost(0, job)) return;
    AnswerError(*later, {ErrorCode::kOverloaded, "too many requests wait to be read", ""});
  };
}

void Api::SendOrder(const Call& call, Result<Plan> plan) {
  Result<void> sent = plan.ok() ? Result<void>() : Result<void>(plan.error());
  if (plan.ok()) sent = services_.dispatcher.Send(std::move(plan->order), AnswerLater(call, std::move(plan->body)));
  if (!sent.ok()) AnswerError(call, sent.error());
}

Result<Api::Plan> Api::PlanPins(Call& call, PinAction action) {
  const std::size_t size = call.request.body.size();
  ROOST_ASSIGN_OR_RETURN(const PinRequest request, ReadBody(call, &ParsePinRequest));
  ROOST_RETURN_IF_ERROR(Hold(call.request.body.memory(), ParseBytes(size) + EncodeBytes(size)));
  PinnedPart part;
  Plan plan;
  if (request.block) {
    part = BlockOfModel{call.model->name, *request.block};
    plan.order = MakeBlockOrder(call.model, request, action);
  } else {
    ROOST_ASSIGN_OR_RETURN(PinPlan pin, MakePinPlan(call.model, request, action, Settings()));
    part = SizeOf(*call.model, pin.block_count, pin.prompt_token_count);
    plan.order = std::move(pin.order);
  }
  plan.body = [part](std::span<const WorkerAnswer> answers) { return PinBody(part, answers); };
  return plan;
}

// Taken also while the model's requests are refused because too many wait. This router's memory of texts goes as a
// whole.
Result<Api::Plan> Api::PlanEviction(Call& call) {
  HttpBody& body = call.request.body;
  const std::size_t size = body.size();
  ROOST_RETURN_IF_ERROR(Hold(body.memory(), ParseBytes(size)));
  JsonBody json(body.TakeText(JsonBody::kPadding));
  ROOST_ASSIGN_OR_RETURN(const JsonObject object, json.Parse());
  ROOST_RETURN_IF_ERROR(Hold(body.memory(), ParseBytes(size, json.node_count()) + EncodeBytes(size)));
  ROOST_ASSIGN_OR_RETURN(const EvictRequest request, ParseEvictRequest(object));
  std::vector<std::shared_ptr<const ServedModel>> revisions;
  if (!request.model.empty()) {
    revisions = services_.dispatcher.View()->models->AllOf(request.model);
    if (revisions.empty()) {
      ROOST_ASSIGN_OR_RETURN(std::shared_ptr<const ServedModel> model, FindModel(request.model));
      revisions.push_back(std::move(model));
    }
  }
  ROOST_ASSIGN_OR_RETURN(EvictPlan eviction, MakeEvictPlan(revisions, request, Settings()));
  memo_->Clear();
  const EvictedSize told{.model = request.model,
                         .tenant = request.tenant,
                         .prompt = request.prompt ? std::optional(PromptSize{request.model, eviction.block_count,
                                                                             eviction.prompt_token_count})
                                                  : std::nullopt,
                         .block = request.block};
  return Plan{std::move(eviction.order),
              [told](std::span<const WorkerAnswer> answers) { return EvictBody(told, answers); }};
}

Result<Api::Plan> Api::PlanWarmUp(Call& call) {
  const std::size_t size = call.request.body.size();
  ROOST_ASSIGN_OR_RETURN(const WarmRequest request, ReadBody(call, &ParseWarmRequest));
  ByteBudget::Guard& memory = call.request.body.memory();
  ROOST_RETURN_IF_ERROR(Hold(memory, ParseBytes(size) + EncodeBytes(size)));
  ROOST_ASSIGN_OR_RETURN(HashedPrompt prompt, HashBlocksOfPrompt(*call.model, request.prompt, Settings()));
  WarmOrder order;
  order.workers = request.workers;
  order.source = request.source;
  ROOST_ASSIGN_OR_RETURN(order.deadline, DeadlineOf(call));
  order.spec.model = call.model;
  order.spec.generate.prompt = std::move(prompt.tokens);
  order.spec.generate.root = prompt.root;
  order.spec.generate.own = prompt.own;
  order.spec.generate.block_hashes = std::move(prompt.hashes);
  order.spec.generate.tenant = request.prompt.tenant;
  order.spec.salt = request.prompt.fields().cache.salt;
  ROOST_RETURN_IF_ERROR(Hold(memory, SpecBytes(order.spec)));
  order.spec.memory = std::make_shared<ByteBudget::Guard>(std::move(memory));
  const PromptSize told =
      SizeOf(*call.model, order.spec.generate.block_hashes.size(), order.spec.generate.prompt.size());
  return Plan{std::move(order), [told](std::span<const WorkerAnswer> answers) { return WarmBody(told, answers); }};
}

Result<Api::Plan> Api::PlanMatch(Call& call) {
  const std::size_t size = call.request.body.size();
  ROOST_ASSIGN_OR_RETURN(const PromptRequest request, ReadBody(call, &ParseQuestion));
  ROOST_RETURN_IF_ERROR(Hold(call.request.body.memory(), ParseBytes(size) + EncodeBytes(size)));
  ROOST_ASSIGN_OR_RETURN(HashedPrompt prompt, HashPrompt(*call.model, request, Settings()));
  const PromptQuery query{.model = call.model,
                          .prompt_token_count = static_cast<std::uint32_t>(prompt.tokens.size()),
                          .block_hashes = std::move(prompt.hashes)};
  return Plan{query, [query](std::span<const WorkerAnswer> answers) { return MatchBody(query, MatchOf(answers)); }};
}

void Api::Prefixes(Call& call) {
  const Result<void> sent = AskPrefixes(call);
  if (!sent.ok()) AnswerError(call, sent.error());
}

// A model whose workers can not be asked, because they have just left, is left out unless it is the only one.
Result<void> Api::AskPrefixes(Call& call) {
  ROOST_ASSIGN_OR_RETURN(const PrefixesQuery query, ParsePrefixesQuery(call.request.query));
  std::vector<std::shared_ptr<const ServedModel>> models = ModelsWithoutAdapters();
  if (!query.model.empty()) {
    ROOST_ASSIGN_OR_RETURN(call.model, FindModel(query.model));
    models = {call.model};
  }
  const wire::PrefixTokens tokens =
      options_.prefix_text == PrefixText::kShow ? wire::PrefixTokens::kTell : wire::PrefixTokens::kOmit;
  const auto gathered = std::make_shared<GatheredPrefixes>(models.size());
  const AnswersDone answer = AnswerLater(call, [gathered, top = query.top](std::span<const WorkerAnswer>) {
    return PrefixesBody(gathered->models(), top);
  });
  Result<void> refusal;
  std::size_t refused = 0;
  for (const std::shared_ptr<const ServedModel>& model : models) {
    const auto take = [gathered, answer, model](std::vector<WorkerAnswer> answers) {
      if (gathered->Take({model, std::move(answers)})) answer({});
    };
    const Result<void> sent =
        services_.dispatcher.Send(PrefixesQuestion{.model = model, .most = query.top, .tokens = tokens}, take);
    if (sent.ok()) continue;
    refusal = sent;
    ++refused;
  }
  if (refused == models.size() && refused > 0) return refusal;
  if (models.empty() || gathered->GiveUp(refused)) answer({});
  return {};
}

}  // namespace roost::router
