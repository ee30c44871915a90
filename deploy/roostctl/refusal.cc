#include "deploy/roostctl/refusal.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <string_view>

namespace roost::roostctl {

Error RefusalOf(const HttpResponse& response) {
  simdjson::dom::parser parser;
  simdjson::dom::element body;
  std::string_view message;
  std::string_view field;  // null when it names no field
  const bool is_json = parser.parse(simdjson::padded_string(response.body)).get(body) == simdjson::SUCCESS;
  if (!is_json || body["error"]["message"].get(message) != simdjson::SUCCESS) message = "(without a reason)";
  if (!is_json || body["error"]["param"].get(field) != simdjson::SUCCESS) field = "";
  if (message.starts_with(field)) field = "";
  const std::string_view colon = field.empty() ? "" : ": ";
  return {ErrorCode::kInvalidArgument,
          fmt::format("the router answers {}: {}{}{}", response.status, field, colon, message), ""};
}

}  // namespace roost::roostctl
