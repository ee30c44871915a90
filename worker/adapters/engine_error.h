// The meaning of an engine's failure to Roost. The router acts by the code: it sends a request that failed with
// kUnavailable or kOverloaded to another worker, which continues its output; any other code ends the request.
//
//   400, 413, 422          kInvalidArgument   the request is wrong; the field that the engine names is in the error
//   429, 503               kOverloaded        the engine has no room now
//   401, 403, 404, 5xx     kUnavailable       this engine can not do it now, whatever the request says
//   no or half an answer   kUnavailable
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/base/error.h"
#include "common/json/json_read.h"
#include "worker/adapters/http_port.h"

namespace roost::worker::adapters {

// An error as the engine tells it.
struct Complaint {
  int code = 0;  // as a status of HTTP
  std::string message;
  std::string parameter;  // by the engine's name; may be empty
};

// From a document {"error": {"message", "param", "code"}}, or from an older one with these at its top. Nothing if it is
// no error. `status` stands in for a code that is not there.
[[nodiscard]] std::optional<Complaint> ReadComplaint(json::Element document, int status);

// From the body of an answer with this status, which need not be JSON.
[[nodiscard]] Complaint ReadRefusal(simdjson::dom::parser& parser, int status, std::string_view body);

// `field` is the parameter's name in a request to Roost.
[[nodiscard]] Error ErrorOf(const Complaint& complaint, std::string field);
// The error of a call that ended without a whole answer.
[[nodiscard]] Error ErrorOf(const HttpEnd& end);
[[nodiscard]] Error Unavailable(std::string message);

}  // namespace roost::worker::adapters
