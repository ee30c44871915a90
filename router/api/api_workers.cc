// The Api's routes about workers, for operators: who is there, who shall get requests. They run on text threads.
#include <memory>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "router/api/api_call.h"
#include "router/api/cordon_request.h"
#include "router/api/fleet_verdict.h"
#include "router/api/json_object.h"
#include "router/api/models_json.h"
#include "router/api/text_memory.h"
#include "router/fleet/fleet_snapshot.h"

namespace roost::router {

void Api::Workers(Call& call) {
  const std::shared_ptr<const FleetSnapshot> view = services_.dispatcher.View();
  Answer(call, JsonResponse(WorkersBody({view->workers, view->queues, view->standing, options_.unix_seconds_now()})));
}

void Api::History(Call& call) { Answer(call, JsonResponse(options_.history_json())); }

// Taken also while no worker takes requests.
Result<Api::Plan> Api::PlanService(Call& call, CordonVerb verb) {
  HttpBody& body = call.request.body;
  ROOST_RETURN_IF_ERROR(Hold(body.memory(), ParseBytes(body.size())));
  JsonBody json(body.TakeText(JsonBody::kPadding));
  ROOST_ASSIGN_OR_RETURN(const JsonObject object, json.Parse());
  ROOST_ASSIGN_OR_RETURN(CordonOrder order, ParseCordonRequest(object, verb));
  return Plan{std::move(order), [](std::span<const WorkerAnswer> answers) {
                ROOST_CHECK(answers.size() == 1);
                return CordonBody(answers.front());
              }};
}

}  // namespace roost::router
