#include "common/wire/endpoint.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <charconv>
#include <string_view>

namespace roost::wire {

Result<Endpoint> ParseEndpoint(const std::string& text) {
  constexpr std::string_view kScheme = "tcp://";
  const auto bad = [&text](const char* why) {
    return InvalidArgument(text, "not an endpoint tcp://HOST:PORT: {}", why);
  };
  std::string_view rest(text);
  if (rest.starts_with("http://") || rest.starts_with("https://")) {
    return bad("it begins with http, but the link between routers and workers speaks a protocol of its own");
  }
  if (!rest.starts_with(kScheme)) return bad("it does not begin with tcp://");
  rest.remove_prefix(kScheme.size());
  const std::size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos) return bad("no port");
  Endpoint endpoint;
  std::string_view host = rest.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.empty()) return bad("no host");
  endpoint.host = host;
  const std::string_view port = rest.substr(colon + 1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), endpoint.port);
  if (error != std::errc{} || end != port.data() + port.size()) return bad("the port is not a number from 0 to 65535");
  return endpoint;
}

Result<Endpoint> ParseNumericAddress(const std::string& text) {
  Result<Endpoint> endpoint = ParseEndpoint("tcp://" + text);
  in6_addr bytes{};  // large enough for both families
  const bool is_numeric = endpoint.ok() && endpoint->port != 0 &&
                          inet_pton(endpoint->IsV6() ? AF_INET6 : AF_INET, endpoint->host.c_str(), &bytes) == 1 &&
                          endpoint->IsV6() == text.starts_with('[');
  if (!is_numeric) return InvalidArgument(text, "not a numeric address HOST:PORT");
  return endpoint;
}

std::string Endpoint::ToString() const {
  return IsV6() ? fmt::format("tcp://[{}]:{}", host, port) : fmt::format("tcp://{}:{}", host, port);
}

bool Endpoint::IsLoopback() const { return host == "localhost" || host == "::1" || host.starts_with("127."); }

}  // namespace roost::wire
