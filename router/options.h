// The flags of roost-router, their defaults and their bounds. One declaration serves the command line, the environment
// and the configuration file.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/result.h"
#include "common/config/config.h"

namespace roost::router {

struct RouterOptions {
  // Clients
  std::string http_address = "127.0.0.1:8000";
  std::uint32_t http_threads = 1;
  std::uint32_t max_connections = 10'000;
  std::uint64_t max_body_bytes = 8U << 20U;
  double request_head_timeout_seconds = 10;

  // Workers
  std::string link_address = "tcp://127.0.0.1:7001";
  double worker_timeout_seconds = 2;
  std::uint32_t max_in_flight_requests = 10'000;

  // Queue
  std::uint64_t index_memory_bytes = std::uint64_t{1} << 30U;
  std::uint32_t worker_queue_bound = 128;
  std::uint32_t max_queue = 1024;
  std::uint32_t max_queue_wait_ms = 30'000;

  // Routing
  std::string policy = "cache-aware";

  // Operation
  std::string record;  // file; empty: nothing is recorded
  bool insecure_bind = false;
  double drain_timeout_seconds = 30;
  std::string log_level = "info";
  std::string log_format = "text";
};

// `options` must outlive the parse.
void Declare(RouterOptions& options, ConfigParser& parser);

// A numeric address and a port, from "127.0.0.1:8000" or "[::1]:8000".
struct HostAndPort {
  std::string host;
  std::uint16_t port = 0;
};
// kInvalidArgument names `field`.
[[nodiscard]] Result<HostAndPort> ParseHostAndPort(const std::string& text, const std::string& field);

// 127.0.0.0/8 or ::1?
[[nodiscard]] bool IsLoopback(const std::string& host);

}  // namespace roost::router
