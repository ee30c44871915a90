#include "router/api/tool_names.h"

#include <optional>

#include "router/api/json_object.h"

namespace roost::router {

std::string CustomInputOf(const std::string& arguments) {
  JsonBody json(arguments);
  const Result<JsonObject> object = json.Parse();
  if (!object.ok()) return arguments;
  const Result<std::optional<std::string_view>> input = object->String(kCustomToolInput);
  return input.ok() && *input ? std::string(**input) : arguments;
}

}  // namespace roost::router
