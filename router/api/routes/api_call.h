// One HTTP request on its route. Private to the Api's sources.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/http/responder.h"
#include "common/prefix/block_hash.h"
#include "router/api/answers/client_watch.h"
#include "router/api/routes/api.h"

namespace roost::router {

// The thread that answers: the connection's thread, at once, or a text thread.
enum class CallThread { kConnection, kText };

// The API whose error format is used.
enum class ErrorForm { kOpenAi, kAnthropic };

// Belongs to the connection's thread until it is posted, then to the text thread.
struct Api::Call {
  HttpRequest request;
  std::shared_ptr<Responder> responder;
  Instant started_at;
  CallThread thread = CallThread::kConnection;
  Listener listener = Listener::kApi;
  std::shared_ptr<Admission> admission;  // of a key of the API; null where it needs none
  Duration retry_after{};                // of a refusal by a limit
  std::string_view route;                // a name of the route table
  std::string_view rest;                 // of the path, after the part that a prefix route matched
  const Verb* verb = nullptr;            // on the routes of operators' verbs
  ErrorForm error_form = ErrorForm::kOpenAi;
  // For a request of another API: maps a chat's field name to that API's name for it.
  std::string (*field_of)(std::string_view) = nullptr;
  enum class ModelName { kRequired, kOptional } model_name = ModelName::kRequired;
  std::shared_ptr<const ServedModel> model;  // set once the name is read and a worker serves the model
  std::string asked_name;   // the name in the body, once it is read and the key may use it; answers repeat it
  std::string asked_model;  // what it means: itself, or what an alias stands for
  // A call may wait for its model once (see FleetSnapshot::IsArriving), and asks for it then.
  enum class Arrival { kMayWait, kWaits, kWaited } arrival = Arrival::kMayWait;
  // An engine gets the request unread; its model, or what it asks for, is nothing that this router can read.
  bool is_passed_on = false;
  std::optional<std::uint64_t> session;  // of such a request, see ForwardSpec
  std::vector<BlockHash> pieces = {};    // the same
  std::size_t instruction_pieces = 0;    // the same
  std::shared_ptr<ClientWatch> client = std::make_shared<ClientWatch>();
};

// The hashes of a chat's parts, and where its messages begin in its text, for comparison with other requests.
struct Api::PromptParts {
  std::uint64_t tools = 0;
  std::uint64_t front = 0;  // all that stands before the conversation but for the instructions
  std::uint64_t system = 0;
  std::uint64_t effort = 0;
  std::vector<std::uint64_t> messages;
  std::vector<std::size_t> begins;
  std::size_t text_bytes = 0;
};

// The model that a name means to who calls: what an alias of the key or else of the router stands for, or itself.
[[nodiscard]] inline std::string_view MeantBy(std::string_view name, const std::shared_ptr<Admission>& admission,
                                              const ModelAliases& of_router) {
  if (admission != nullptr) {
    const ModelAliases& of_key = admission->key().model_aliases;
    if (const auto found = of_key.find(name); found != of_key.end()) return found->second;
  }
  const auto found = of_router.find(name);
  return found == of_router.end() ? name : std::string_view(found->second);
}

// Is the model among those that the key is for?
[[nodiscard]] inline bool MayUse(const std::shared_ptr<Admission>& admission, std::string_view model) {
  return admission == nullptr || admission->key().MayUse(model);
}

[[nodiscard]] inline Error NotServed(const std::string& model) {
  return {ErrorCode::kModelNotFound,
          fmt::format("the model '{}' is not served here; GET /v1/models lists those that are", model), "model"};
}

// The tenant that owns the blocks of a call's prompts: the key's, or none in particular.
[[nodiscard]] inline std::string TenantOf(const std::shared_ptr<Admission>& admission) {
  return admission == nullptr ? std::string() : admission->key().tenant;
}

// The API as an OpenAPI 3.1 document (spec.openapis.org), made from the field tables that also parse the requests.
[[nodiscard]] std::string OpenApiBody(const std::string& version, std::span<const std::string_view> passed_on);

[[nodiscard]] inline HttpResponse JsonResponse(std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  return response;
}

}  // namespace roost::router
