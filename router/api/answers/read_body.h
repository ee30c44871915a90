// Reads a request's body under the bounds of text_memory.h.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>

#include "common/base/result.h"
#include "common/http/http_message.h"
#include "router/api/answers/text_memory.h"
#include "router/api/json_object.h"

namespace roost::router {

// Parses the body's JSON, which counts as `size` bytes, asks `check` whether the request may go on, and then `parse`
// for its value. After an error of `check` the body is there again, so that the call can be tried once more.
template <typename Request>
[[nodiscard]] Result<Request> ReadBody(HttpBody& body, std::size_t size,
                                       const std::function<Result<void>(const JsonObject&)>& check,
                                       Result<Request> (*parse)(const JsonObject&)) {
  ROOST_RETURN_IF_ERROR(Hold(body.memory(), ParseBytes(size)));
  JsonBody json(body.TakeText(JsonBody::kPadding));
  ROOST_ASSIGN_OR_RETURN(const JsonObject object, json.Parse());
  if (Result<void> checked = check(object); !checked.ok()) {
    body.PutBack(json.Release());
    return checked.error();
  }
  ROOST_RETURN_IF_ERROR(Hold(body.memory(), ParseBytes(size, json.node_count())));
  return parse(object);
}

}  // namespace roost::router
