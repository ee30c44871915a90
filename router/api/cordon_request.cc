#include "router/api/cordon_request.h"

#include <chrono>
#include <optional>
#include <string_view>
#include <variant>

#include "common/base/json_writer.h"

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

}  // namespace roost::router
