// Bodies of requests to the model "bytes", of which a test gives the part that it is about.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace roost::router {

inline std::string ChatWith(std::string_view members) {
  return fmt::format(R"({{"model":"bytes","messages":[{{"role":"user","content":"hi"}}],{}}})", members);
}
inline std::string ChatOf(std::string_view messages) {
  return fmt::format(R"({{"model":"bytes","messages":{}}})", messages);
}
inline std::string CompletionWith(std::string_view members) {
  return fmt::format(R"({{"model":"bytes","prompt":"hi",{}}})", members);
}

}  // namespace roost::router
