// The parts of a URL that the server leaves as they were sent.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace roost::router {

// %41 becomes A; what is no escape stays as it is.
[[nodiscard]] std::string PercentDecode(std::string_view text);

struct QueryParameter {
  std::string name;
  std::string value;  // empty when there is no '='
};
// Of a query like "a=1&b=%20", decoded, in order.
[[nodiscard]] std::vector<QueryParameter> ParseQuery(std::string_view query);

}  // namespace roost::router
