// The API as an OpenAPI 3.1 document (spec.openapis.org), made from the field tables that also parse the requests.
#pragma once

#include <string>

namespace roost::router {

[[nodiscard]] std::string OpenApiBody(const std::string& version);

}  // namespace roost::router
