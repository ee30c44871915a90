// Which web pages may call this server from a browser (CORS, fetch.spec.whatwg.org). Without a list no page may:
// browsers hide the answers from the page and do not send a POST of JSON at all.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "router/http/http_message.h"

namespace roost::router {

// The headers that let the page that sent `request` read the answer; for a preflight, also those that say what the page
// may send. Empty when `allowed` does not hold the page's origin ("https://chat.example.com"); "*" allows every origin.
[[nodiscard]] std::vector<HttpHeader> CorsHeaders(std::span<const std::string> allowed, const HttpRequest& request);

}  // namespace roost::router
