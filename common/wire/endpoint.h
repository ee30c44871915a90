// Addresses of the wire: tcp://HOST:PORT, an IPv6 HOST in brackets.
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
  // By its spelling: localhost, 127.x.x.x or ::1.
  [[nodiscard]] bool IsLoopback() const;
};

// kInvalidArgument, with `text` as the field, when it is not one.
[[nodiscard]] Result<Endpoint> ParseEndpoint(const std::string& text);

}  // namespace roost::wire
