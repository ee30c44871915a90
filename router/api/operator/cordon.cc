// POST /admin/v1/cordon, /admin/v1/uncordon and /admin/v1/drain: JSON to an order about one worker, and its answer.
//
//   {"worker": "worker-a"}                      no new requests for it; or requests again
//   {"worker": "worker-a", "wait_ms": 60000}    drain alone: the answer waits that long for its requests to end
//
//   {"worker", "answered": true, "cordoned", "idle", "running_requests", "waiting_requests", "in_flight_requests"}, or
//   {"worker", "answered": false, "reason"}
//
// Taken also while no worker takes requests.
#include <algorithm>
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "common/base/check.h"
#include "router/api/answers/read_body.h"
#include "router/api/operator/verb.h"

namespace roost::router {
namespace {

// Longer waits are made of several requests; an order stays in force between them.
constexpr std::int64_t kMaxWaitMs = 600'000;

enum class CordonVerb : std::uint8_t { kCordon, kUncordon, kDrain };

template <CordonVerb kVerb>
Result<CordonOrder> ParseCordon(const JsonObject& body) {
  CordonOrder order;
  order.service = kVerb == CordonVerb::kUncordon ? Service::kOpen : Service::kCordoned;
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> worker, body.String("worker"));
  order.worker_id = worker.value_or("");
  if (order.worker_id.empty()) return InvalidArgument("worker", "must be the name of a worker");
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::int64_t> wait_ms, body.Integer("wait_ms", 0, kMaxWaitMs));
  if (wait_ms && kVerb != CordonVerb::kDrain) return InvalidArgument("wait_ms", "is for /admin/v1/drain");
  // A drain has some patience: it hands over, which a cordon does not.
  if (kVerb == CordonVerb::kDrain)
    order.patience = std::chrono::milliseconds(std::max<std::int64_t>(wait_ms.value_or(0), 1));
  return order;
}

std::string_view ReasonOf(const WorkerReply& reply) {
  if (std::holds_alternative<NotSupported>(reply)) return "not supported: the worker is of an older release";
  return "no answer";
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

template <CordonVerb kVerb>
Result<OrderPlan> PlanCordon(VerbCall& call) {
  HttpBody& body = call.request.body;
  const auto any_model = [](const JsonObject&) { return Result<void>(); };
  ROOST_ASSIGN_OR_RETURN(CordonOrder order, ReadBody(body, body.size(), any_model, &ParseCordon<kVerb>));
  return OrderPlan{std::move(order), [](std::span<const WorkerAnswer> answers) {
                     ROOST_CHECK(answers.size() == 1);
                     return CordonBody(answers.front());
                   }};
}

}  // namespace

extern const Verb kCordonVerb{"POST", "/admin/v1/cordon", "cordon", &PlanCordon<CordonVerb::kCordon>};
extern const Verb kUncordonVerb{"POST", "/admin/v1/uncordon", "uncordon", &PlanCordon<CordonVerb::kUncordon>};
extern const Verb kDrainVerb{"POST", "/admin/v1/drain", "drain", &PlanCordon<CordonVerb::kDrain>};

}  // namespace roost::router
