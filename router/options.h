// The flags of roost-router, their defaults and their bounds. One declaration serves the command line, the environment
// and the configuration file. A flag that sets an option of one part of the router has that part's default.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/config/config.h"
#include "common/http/server.h"
#include "common/wire/socket.h"
#include "router/api/requests/session_headers.h"
#include "router/api/routes/api.h"
#include "router/fleet/core/fleet_core.h"
#include "router/text/text_pool.h"

namespace roost::router {

// Upper bound of the default, which is half of the memory that the process may use.
inline constexpr std::uint64_t kMaxDefaultMemoryBytes = std::uint64_t{4} << 30U;

struct RouterOptions {
  std::uint64_t memory_bytes = kMaxDefaultMemoryBytes;

  // Clients
  std::string http_address = "127.0.0.1:8000";
  std::uint32_t http_threads = HttpServerOptions().thread_count;
  std::size_t max_connections = HttpServerOptions().max_connections;
  std::size_t max_body_bytes = HttpServerOptions().body_bytes;
  std::uint32_t text_threads = TextPoolOptions().thread_count;
  double http_idle_seconds = ToSeconds(HttpServerOptions().idle_timeout);
  std::vector<std::string> model_alias;  // ALIAS=MODEL
  std::vector<std::string> cors_origins;
  std::vector<std::string> pass_through;
  std::vector<std::string> session_headers = UsualSessionHeaders();
  std::string tls_cert;  // files; empty: plain HTTP
  std::string tls_key;
  std::string tls_client_ca;    // empty: clients show no certificate
  std::string api_keys;         // file; empty: anyone may call
  std::string shared_prefixes;  // file; empty: tenants share nothing

  // Operators
  std::string admin_address = "127.0.0.1:8001";
  std::string metrics_address = "127.0.0.1:8002";  // empty: none
  std::string admin_keys;                          // file, for both; empty: anyone on this machine may

  // Workers
  std::string link_address = "tcp://127.0.0.1:7001";
  std::string link_secret_key;  // files; both or none
  std::string link_peers;
  double worker_timeout_seconds = ToSeconds(FleetCoreOptions().worker_timeout);
  double stall_timeout_seconds = ToSeconds(FleetCoreOptions().stall_timeout);
  double request_timeout_seconds = ToSeconds(ApiOptions().request_timeout);

  // Queue
  std::uint32_t worker_queue_bound = RequestTableOptions().worker_queue_bound;
  std::uint32_t max_queue = RequestTableOptions().max_queue;
  std::uint32_t max_queue_wait_ms = static_cast<std::uint32_t>(1000 * ToSeconds(RequestTableOptions().max_queue_wait));

  // Routing
  std::string policy = "cache-aware";
  double slo_ttft_ms = 0;  // 0: no bound
  double slo_itl_ms = 0;
  std::uint32_t min_copies = RoutingWishes().min_copies;
  std::string pulls = "on";  // or "off"

  // Answers
  std::uint64_t diagnosis_memory_bytes = std::uint64_t{32} << 20U;
  std::string tool_parser = "auto";

  // Prompts
  bool content_may_contain_special_tokens = false;  // in the client's messages and tools

  // Operation
  std::string ledger;  // a folder; empty: none
  std::string record;  // a file; empty: no recording
  bool show_prefix_text = false;
  bool insecure_bind = false;
  bool core_dumps = false;
  std::string otlp_endpoint;  // empty: no traces
  double otlp_sample_ratio = 1;
  double drain_announce_seconds = 5;
  double drain_timeout_seconds = 30;
  std::string log_level = "info";
  std::string log_format = "auto";
};

// The machine's size, which some defaults depend on.
struct Machine {
  std::uint64_t memory_bytes = 0;
  std::uint32_t processor_count = 1;
  std::size_t descriptor_count = 1'048'576;  // that the process may open
};
[[nodiscard]] RouterOptions DefaultsFor(const Machine& machine);

// The parts of memory_bytes. What comes in has half of it in four parts, so that a flood of one kind of input keeps no
// other kind out. 3/16 are left for threads, sockets, tokenizers and allocator slack, which are not counted.
struct MemoryShares {
  std::uint64_t clients = 0;    // 11/32: bodies, prompts and answers
  std::uint64_t workers = 0;    // 1/16, but at least room for the largest frame: messages that are still arriving
  std::uint64_t operators = 0;  // 1/16: bodies and answers
  std::uint64_t heads = 0;      // 1/32: heads of requests, whose senders are not known yet
  std::uint64_t index = 0;      // 1/4
  std::uint64_t memo = 0;       // 1/16; 256 MiB suffice for about 100 MB of prompt text
};
[[nodiscard]] MemoryShares SharesOf(std::uint64_t memory_bytes);

// The connections that descriptors suffice for, so that clients keep out neither operators nor workers. The gate before
// the workers takes its part itself (Gate::MaxConnections); the rest is for the process's own files, sockets and
// timers.
struct ConnectionShares {
  std::size_t clients = 0;
  std::size_t operators = 0;  // at each of their two listeners
};
[[nodiscard]] ConnectionShares SharesOfDescriptors(std::size_t descriptor_count, std::uint32_t http_threads);

// The keys of the link, from their files; nothing where none are named. `on_refused` is called from any thread, `clock`
// outlives the keys. The error names the flag, or the file and its line.
[[nodiscard]] Result<std::optional<wire::ServerKeys>> ReadLinkKeys(const RouterOptions& options, const Clock& clock,
                                                                   wire::LinkGuard::OnRefused on_refused);

// An error when memory_bytes exceeds the machine's memory. kInvalidArgument names the flag.
[[nodiscard]] Result<void> CheckMemory(const RouterOptions& options, const Machine& machine);

// An error for a path of pass_through that is none, or a route of the router. kInvalidArgument names the flag.
[[nodiscard]] Result<void> CheckPassThrough(const RouterOptions& options);

// `options` must outlive the parse.
void Declare(RouterOptions& options, ConfigParser& parser);

}  // namespace roost::router
