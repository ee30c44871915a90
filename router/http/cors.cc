#include "router/http/cors.h"

#include <algorithm>

namespace roost::router {

std::vector<HttpHeader> CorsHeaders(std::span<const std::string> allowed, const HttpRequest& request) {
  const std::optional<std::string_view> origin = request.FindHeader("origin");
  if (!origin) return {};
  const bool is_allowed = std::any_of(allowed.begin(), allowed.end(), [&](const std::string& each) {
    return each == "*" || EqualsIgnoringCase(each, *origin);
  });
  if (!is_allowed) return {};
  std::vector<HttpHeader> headers{{"Access-Control-Allow-Origin", std::string(*origin)}, {"Vary", "Origin"}};
  if (request.method == "OPTIONS" && request.FindHeader("access-control-request-method")) {
    headers.push_back({"Access-Control-Allow-Methods", "GET, HEAD, POST, OPTIONS"});
    const std::string_view wanted = request.FindHeader("access-control-request-headers").value_or("");
    if (!wanted.empty()) headers.push_back({"Access-Control-Allow-Headers", std::string(wanted)});
    headers.push_back({"Access-Control-Max-Age", "600"});
  } else {
    headers.push_back({"Access-Control-Expose-Headers",
                       "x-request-id, request-id, x-roost-worker, x-roost-cached-tokens, retry-after, "
                       "x-ratelimit-limit-requests, x-ratelimit-remaining-requests, x-ratelimit-reset-requests, "
                       "x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens"});
  }
  return headers;
}

}  // namespace roost::router
