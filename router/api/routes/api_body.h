// Reads a request's body. Private to the Api's sources.
#pragma once

#include <cstddef>
#include <utility>

#include "common/base/check.h"
#include "router/api/answers/text_memory.h"
#include "router/api/json_object.h"
#include "router/api/routes/api_call.h"

namespace roost::router {

template <typename Request>
Result<Request> Api::ReadBody(Call& call, Result<Request> (*parse)(const JsonObject&)) const {
  HttpBody& body = call.request.body;
  // A request of another API is first translated into a chat request.
  const std::size_t size = call.field_of == nullptr ? body.size() : 2 * body.size();
  ROOST_RETURN_IF_ERROR(Hold(body.memory(), ParseBytes(size)));
  JsonBody json(body.TakeText(JsonBody::kPadding));
  ROOST_ASSIGN_OR_RETURN(const JsonObject object, json.Parse());
  if (Result<void> model = CheckModel(call, object); !model.ok()) {
    if (call.arrival == Call::Arrival::kWaits) body.PutBack(json.Release());
    return model.error();
  }
  ROOST_RETURN_IF_ERROR(Hold(body.memory(), ParseBytes(size, json.node_count())));
  Result<Request> request = parse(object);
  ROOST_CHECK(!request.ok() || call.model != nullptr, "a parsed request has a model");
  return request;
}

}  // namespace roost::router
