// Decides which web pages may call this server from a browser (CORS, fetch.spec.whatwg.org). Without a list no page
// may: browsers hide the answers from the page and do not send a POST of JSON at all.
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

// Is the page that sent `request` in `allowed`? Pages do not say who they are when they get something from their own
// server: then that server must be in the list.
[[nodiscard]] bool IsAllowedPage(std::span<const std::string> allowed, const HttpRequest& request);

// The signs that a browser sent a request. Browsers send Origin with every POST, and Sec-Fetch-Site to https and to
// this machine. When a page gets something over http from the name that it came from, the request has neither. But it
// has Accept-Language and a User-Agent that begins with Mozilla: no browser lets a page take away both. A few programs
// have them as well; Prometheus, curl and roostctl do not.
enum class BrowserSign { kOrigin, kOriginOrLooks };

// Was it sent by a page that this server has not given out, as far as its Origin says?
[[nodiscard]] bool IsFromAnotherSite(const HttpRequest& request);

// Did a browser send it to a name that any web site could have pointed here: neither an IP address nor localhost?
[[nodiscard]] bool MayBeRebound(const HttpRequest& request, BrowserSign sign);

}  // namespace roost
