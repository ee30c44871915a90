#include "common/http/cors.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <string_view>

namespace roost {
namespace {

// The name in a Host header: without the port, and an IPv6 address without its brackets.
std::string_view NameIn(std::string_view host) {
  if (host.starts_with('[')) return host.substr(1, host.find(']') - 1);
  return host.substr(0, host.find(':'));
}

// "chat.example.com:8443" of "https://chat.example.com:8443".
std::string_view HostIn(std::string_view origin) {
  const std::size_t scheme_end = origin.find("://");
  return scheme_end == std::string_view::npos ? std::string_view() : origin.substr(scheme_end + 3);
}

bool LooksLikeBrowser(const HttpRequest& request) {
  return request.FindHeader("accept-language") || request.FindHeader("user-agent").value_or("").starts_with("Mozilla/");
}

bool IsLocalName(std::string_view name) {
  constexpr std::string_view kLocal = "localhost";
  if (name.size() < kLocal.size() || !EqualsIgnoringCase(name.substr(name.size() - kLocal.size()), kLocal))
    return false;
  return name.size() == kLocal.size() || name[name.size() - kLocal.size() - 1] == '.';
}

}  // namespace

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

bool IsAllowedPage(std::span<const std::string> allowed, const HttpRequest& request) {
  if (request.FindHeader("origin")) return !CorsHeaders(allowed, request).empty();
  const std::string_view host = request.FindHeader("host").value_or("");
  return std::any_of(allowed.begin(), allowed.end(),
                     [host](const std::string& each) { return each == "*" || EqualsIgnoringCase(HostIn(each), host); });
}

bool IsFromAnotherSite(const HttpRequest& request) {
  const std::optional<std::string_view> origin = request.FindHeader("origin");
  return origin && !EqualsIgnoringCase(HostIn(*origin), request.FindHeader("host").value_or(""));
}

bool MayBeRebound(const HttpRequest& request, BrowserSign sign) {
  const bool tells_origin = request.FindHeader("origin") || request.FindHeader("sec-fetch-site");
  if (!tells_origin && (sign == BrowserSign::kOrigin || !LooksLikeBrowser(request))) return false;
  const std::string_view name = NameIn(request.FindHeader("host").value_or(""));
  boost::system::error_code not_an_address;
  boost::asio::ip::make_address(std::string(name), not_an_address);
  return not_an_address && !IsLocalName(name);
}

}  // namespace roost
