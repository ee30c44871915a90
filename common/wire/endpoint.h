// Addresses on the wire: tcp://HOST:PORT. An IPv6 HOST stands in brackets.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/result.h"

namespace roost::wire {

struct Endpoint {
  std::string host;  // without brackets
  std::uint16_t port = 0;

  [[nodiscard]] std::string ToString() const;
  [[nodiscard]] bool IsV6() const { return host.find(':') != std::string::npos; }
  // Looks at the spelling only: localhost, 127.x.x.x or ::1.
  [[nodiscard]] bool IsLoopback() const;
};

// kInvalidArgument, with `text` as the field, when `text` is not an address.
[[nodiscard]] Result<Endpoint> ParseEndpoint(const std::string& text);

// "10.0.0.5:7100" or "[::1]:7100": an address that is dialled without a name service. kInvalidArgument, with `text` as
// the field, for anything else, also without a port or with port 0.
[[nodiscard]] Result<Endpoint> ParseNumericAddress(const std::string& text);

}  // namespace roost::wire
