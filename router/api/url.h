// Decodes the parts of a URL, which the server passes on as they were sent.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace roost::router {

// %41 becomes A; anything that is not an escape stays unchanged.
[[nodiscard]] std::string PercentDecode(std::string_view text);

struct QueryParameter {
  std::string name;
  std::string value;  // empty when there is no '='
};
// The decoded parameters of a query such as "a=1&b=%20", in order.
[[nodiscard]] std::vector<QueryParameter> ParseQuery(std::string_view query);

}  // namespace roost::router
