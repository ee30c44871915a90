// The address that a daemon's listener binds, as its flag has it: ADDRESS:PORT, or unix:PATH.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/result.h"
#include "common/http/server.h"

namespace roost {

struct ListenerAddress {
  std::string host;  // numeric, without brackets; localhost is 127.0.0.1
  std::uint16_t port = 0;
  std::string unix_path = {};  // instead of both; the permissions of the socket's file decide who may connect

  // Can other hosts reach it?
  [[nodiscard]] bool IsBeyondLoopback() const;
};

// kInvalidArgument, with `flag` as the field, when `text` is no such address.
[[nodiscard]] Result<ListenerAddress> ParseListenerAddress(const std::string& text, const std::string& flag);

// http://ADDRESS:PORT, https:// with TLS, or unix:PATH.
[[nodiscard]] std::string UrlOf(const HttpServerOptions& options, const HttpServer& server);

}  // namespace roost
