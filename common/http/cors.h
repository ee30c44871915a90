// Which web pages may call this server from a browser (CORS, fetch.spec.whatwg.org). Without a list no page may:
// browsers hide the answers from the page and do not send a POST of JSON at all.
//
// A page escapes that by pointing its own name at this machine once it is loaded (DNS rebinding): the browser then
// takes the server for the page's own. Such requests have that name as their Host.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/http/http_message.h"

namespace roost {

// The headers that let the page that sent `request` read the answer; for a preflight, also those that say what the page
// may send. Empty when `allowed` does not hold the page's origin ("https://chat.example.com"); "*" allows every origin.
[[nodiscard]] std::vector<HttpHeader> CorsHeaders(std::span<const std::string> allowed, const HttpRequest& request);

// Did a browser send it to a name that anybody could have pointed here: neither an IP address nor localhost?
[[nodiscard]] bool MayBeRebound(const HttpRequest& request);

}  // namespace roost
