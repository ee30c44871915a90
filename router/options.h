// The flags of roost-router, their defaults and their bounds. One declaration serves the command line, the environment
// and the configuration file.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/result.h"
#include "common/config/config.h"

namespace roost::router {

// Each is a quarter of what the process may use, where that is less. Half is left for what neither bounds: threads,
// sockets, answers, tokenizers, the allocator's slack.
inline constexpr std::uint64_t kMaxDefaultInputMemoryBytes = std::uint64_t{2} << 30U;
inline constexpr std::uint64_t kMaxDefaultIndexMemoryBytes = std::uint64_t{1} << 30U;

struct RouterOptions {
  // Clients
  std::string http_address = "127.0.0.1:8000";
  std::uint32_t http_threads = 1;
  std::uint32_t max_connections = 10'000;
  std::uint64_t max_body_bytes = 8U << 20U;
  std::uint64_t input_memory_bytes = kMaxDefaultInputMemoryBytes;
  std::uint32_t text_threads = 2;
  double request_head_timeout_seconds = 10;

  // Workers
  std::string link_address = "tcp://127.0.0.1:7001";
  double worker_timeout_seconds = 2;
  double stall_timeout_seconds = 10;
  std::uint32_t max_in_flight_requests = 10'000;
  double request_timeout_seconds = 3600;

  // Queue
  std::uint64_t index_memory_bytes = kMaxDefaultIndexMemoryBytes;
  std::uint32_t worker_queue_bound = 128;
  std::uint32_t max_queue = 1024;
  std::uint32_t max_queue_wait_ms = 30'000;

  // Routing
  std::string policy = "cache-aware";

  // Operation
  std::string record;  // file; empty: nothing is recorded
  bool show_prefix_text = false;
  bool insecure_bind = false;
  double drain_announce_seconds = 5;
  double drain_timeout_seconds = 30;
  std::string log_level = "info";
  std::string log_format = "text";
};

// The defaults that depend on the machine: of memory that the process may use, and of its processors.
struct Machine {
  std::uint64_t memory_bytes = 0;
  std::uint32_t processor_count = 1;
};
[[nodiscard]] RouterOptions DefaultsFor(const Machine& machine);

// The parts of input_memory_bytes. What workers send has its own, an eighth and at least room for the largest frame, so
// that clients who fill theirs cut off no worker.
struct InputShares {
  std::uint64_t clients = 0;
  std::uint64_t workers = 0;
};
[[nodiscard]] InputShares SharesOf(std::uint64_t input_memory_bytes);

// Do index and input fit into the memory? kInvalidArgument names the flags.
[[nodiscard]] Result<void> CheckMemory(const RouterOptions& options, const Machine& machine);

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
