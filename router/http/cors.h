// Which web pages may call this server from a browser (CORS, fetch.spec.whatwg.org). Without a list none may: browsers
// keep the answers from them, and a POST of JSON is not even sent.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "router/http/http_message.h"

namespace roost::router {

// The headers that let the page which sent `request` read its answer, and for a preflight what it may send. None where
// the page's origin ("https://chat.example.com") is not among `allowed`; "*" stands for every origin.
[[nodiscard]] std::vector<HttpHeader> CorsHeaders(std::span<const std::string> allowed, const HttpRequest& request);

}  // namespace roost::router
