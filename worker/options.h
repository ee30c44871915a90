// The flags of roost-worker, their defaults and their limits. One declaration serves the command line, the environment
// and the configuration file. A flag that sets an engine option takes the engine's default.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/result.h"
#include "common/config/config.h"
#include "common/wire/endpoint.h"
#include "worker/disk/disk_cache.h"
#include "worker/engine/engine.h"
#include "worker/model/step_size.h"
#include "worker/transfer/block_transfer.h"
#include "worker/worker_api.h"
#include "worker/worker_listener.h"

namespace roost::worker {

// The value of --engine for Roost's own.
inline constexpr std::string_view kOwnEngine = "roost";

struct WorkerOptions {
  // Model
  std::string model;              // a Hugging Face folder, or synthetic:<preset>
  std::string served_model_name;  // empty: the folder's or preset's name; beside an engine, those that it has there
  std::string chat_template;      // name of one of the folder's; empty: the default
  std::string compute_dtype = "auto";
  std::string backend = "auto";
  std::uint32_t device = 0;
  std::uint32_t tensor_parallel = 1;     // ranks
  std::string cuda_module;               // empty: the one beside the program
  std::uint32_t max_context_tokens = 0;  // 0: the model's

  // Another program's engine
  std::string engine = std::string(kOwnEngine);
  std::string engine_url = "http://127.0.0.1:8000";
  std::string engine_events;  // endpoints, tcp://HOST:PORT; empty: none
  std::string engine_replay;
  std::string engine_key_file;
  std::string fingerprint = "text";
  double engine_timeout_seconds = 15;
  std::string slot_directory;    // of llama.cpp's server; empty: no slots are saved
  std::uint64_t slot_bytes = 0;  // given with slot_directory
  double slot_save_after = 5;    // seconds

  // Links
  std::vector<std::string> routers{"tcp://127.0.0.1:7001"};
  std::string link_secret_key;  // files; both or none
  std::string link_peers;
  std::string cache_events = "on";
  std::string worker_id;  // empty: see WorkerName

  // Cache
  std::string prefix_cache = "on";
  std::uint32_t block_tokens = CacheOptions().block_tokens;
  std::uint32_t kv_blocks = 0;     // 0: as many as kv_memory holds
  std::string kv_memory = "auto";  // see ParseKvMemory
  std::string eviction = std::string(kDefaultEvictionPolicy);
  double pin_limit = EngineOptions().pinned_share_limit;  // share of the pool
  std::uint32_t min_hold_ms = 0;
  std::vector<std::string> tenant_share;  // NAME=FRACTION; see ParseTenantShares
  double verify_hits = 0;                 // share of the requests with hits
  bool check_invariants = false;

  // Engine
  std::uint32_t max_batch_tokens = 0;      // 0: by the device, see StepBoundsOf
  std::uint32_t max_running_requests = 0;  // 0: by the device, see StepBoundsOf
  std::uint32_t max_waiting_requests = EngineOptions().max_waiting_requests;
  std::string schedule{kDefaultSchedulePolicy};
  std::uint64_t first_token_target_ms = kDefaultFirstTokenTargetMs;  // 0: none
  std::uint32_t max_queue_wait_ms = 0;                               // 0: no limit
  std::string plan_ahead = "auto";  // auto: on a device that computes while the host plans
  std::uint32_t threads = 0;        // 0: see UsableCpuCount
  bool threads_vary = false;        // Complete sets it where `threads` was 0

  // Blocks of other workers
  std::string transfer = "auto";  // auto: where this worker can, see prepare.cc
  std::string role = "both";
  std::string transfer_numerics = "same";
  std::string transfer_address = "127.0.0.1:0";
  std::string transfer_advertise;    // empty: transfer_address as bound
  std::uint64_t transfer_bytes = 0;  // 0: see FrameCountOf
  std::uint32_t transfer_pulls = kDefaultPulls;
  std::uint32_t transfer_readers = kDefaultReaders;

  // Blocks on disk
  std::string disk_cache;              // a folder; empty: none
  std::uint64_t disk_cache_bytes = 0;  // given with disk_cache
  std::uint64_t disk_write_rate = kDefaultDiskWriteRate;

  // Operation
  std::string metrics_address = "127.0.0.1:0";
  std::string tls_cert;  // files; empty: plain HTTP
  std::string tls_key;
  std::string tls_client_ca;  // empty: clients show no certificate
  std::string otlp_endpoint;  // empty: no traces
  double stall_timeout_seconds = ToSeconds(kDefaultStallTimeout);
  bool insecure_bind = false;
  bool core_dumps = false;
  double drain_timeout_seconds = 30;
  double last_drain_seconds = 900;
  double handover_seconds = 10;
  std::string log_level = "info";
  std::string log_format = "auto";
};

// `options` must outlive the parse.
void Declare(WorkerOptions& options, ConfigParser& parser);
// Only the sections about the model, the cache and the engine, for other programs that run an engine.
void DeclareModel(WorkerOptions& options, ConfigParser& parser);
void DeclareCache(WorkerOptions& options, ConfigParser& parser);
void DeclareEngine(WorkerOptions& options, ConfigParser& parser);
void DeclareGrammar(WorkerOptions& options, ConfigParser& parser);

// Checks and defaults that need more than one flag or the machine: a power of two, addresses, the number of cores. It
// runs before the model is read, because that may take minutes.
[[nodiscard]] Result<void> Complete(WorkerOptions& options);

[[nodiscard]] WorkerListenerOptions ListenerOf(const WorkerOptions& options);

// The limits of a step: from the flags, or else what suits the device. A CUDA device reads all weights in every step,
// so few tokens leave it idle. Few tokens keep the CPU busy; more would only make each step longer.
enum class DeviceKind : std::uint8_t { kCpu, kCuda };
[[nodiscard]] StepBounds StepBoundsOf(const WorkerOptions& options, DeviceKind device);

// The shares that NAME=FRACTION values give. A name has at most 200 bytes and occurs once; the empty name is for
// requests without a tenant. Fractions are above 0 and add up to at most 1. At most 64 tenants.
[[nodiscard]] Result<std::vector<TenantShare>> ParseTenantShares(const std::vector<std::string>& values);
// Memory for KV blocks.
struct KvMemory {
  std::optional<double> share;         // of the device memory that the weights leave free
  std::optional<std::uint64_t> bytes;  // neither is set: what suits the device
};

// "auto", a share above 0 and below 1, or a size (ParseByteSize) from 1 MiB.
[[nodiscard]] Result<KvMemory> ParseKvMemory(std::string_view value);

// Where other workers fetch blocks.
struct TransferPlace {
  wire::Endpoint address;                    // numeric; port 0: any
  std::optional<wire::Endpoint> advertised;  // none: they dial the address that is bound
};

// Beyond loopback blocks need keys of the link, or insecure_bind; an address that no other host could dial needs
// transfer_advertise. kInvalidArgument names the flag.
[[nodiscard]] Result<TransferPlace> PlaceOfTransfer(const WorkerOptions& options);

// The exit code of a process that can not start, after sysexits.h: 64 a flag that has no meaning here, 65 a damaged
// file, 66 a missing file, 69 an address that can not be bound, 78 a model or value that is not supported, 70 anything
// else. (64: wrong flags.)
[[nodiscard]] int ExitCodeOf(const Error& error);

}  // namespace roost::worker
