#include "common/http/listener_address.h"

#include <fmt/format.h>

#include <charconv>
#include <cstddef>
#include <string_view>
#include <system_error>

namespace roost {
namespace {

// People copy addresses from where they are URLs.
Result<void> CheckNoScheme(const std::string& text, const std::string& flag) {
  constexpr std::string_view kMark = "://";
  const std::size_t mark = text.find(kMark);
  if (mark == std::string::npos) return {};
  return InvalidArgument(flag, "'{}' begins with {}, but an address has no scheme: write {}", text,
                         text.substr(0, mark + kMark.size()), text.substr(mark + kMark.size()));
}

}  // namespace

bool ListenerAddress::IsBeyondLoopback() const {
  return unix_path.empty() && !host.starts_with("127.") && host != "::1";
}

Result<ListenerAddress> ParseListenerAddress(const std::string& text, const std::string& flag) {
  constexpr std::string_view kUnix = "unix:";
  ROOST_RETURN_IF_ERROR(CheckNoScheme(text, flag));
  ListenerAddress parsed;
  if (text.starts_with(kUnix)) {
    parsed.unix_path = text.substr(kUnix.size());
    if (parsed.unix_path.empty()) return InvalidArgument(flag, "'{}' has no path", text);
    return parsed;
  }
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return InvalidArgument(flag, "'{}' is not ADDRESS:PORT", text);
  parsed.host = text.substr(0, colon);
  if (parsed.host.size() > 2 && parsed.host.front() == '[' && parsed.host.back() == ']') {
    parsed.host = parsed.host.substr(1, parsed.host.size() - 2);
  }
  if (parsed.host == "localhost") parsed.host = "127.0.0.1";
  const char* const begin = text.data() + colon + 1;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(begin, end, parsed.port);
  if (error != std::errc() || stop != end) return InvalidArgument(flag, "'{}' has no port from 0 to 65535", text);
  return parsed;
}

std::string UrlOf(const HttpServerOptions& options, const HttpServer& server) {
  if (!options.unix_path.empty()) return "unix:" + options.unix_path;
  const std::string& address = options.address;
  const std::string host = address.find(':') == std::string::npos ? address : "[" + address + "]";
  return fmt::format("{}://{}:{}", options.tls == nullptr ? "http" : "https", host, server.port());
}

}  // namespace roost
