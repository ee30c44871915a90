// The flags of roost-worker, their defaults and their bounds. One declaration serves the command line, the environment
// and the configuration file. A flag that sets an option of the engine takes the engine's default.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"
#include "common/base/result.h"
#include "common/config/config.h"
#include "worker/engine/engine.h"
#include "worker/model/step_size.h"

namespace roost::worker {

struct WorkerOptions {
  // Model
  std::string model;              // a Hugging Face folder, or synthetic:<preset>
  std::string served_model_name;  // empty: the folder's or preset's name
  std::string compute_dtype = "auto";
  std::string backend = "auto";
  std::uint32_t device = 0;
  std::uint32_t tensor_parallel = 1;     // ranks
  std::string cuda_module;               // empty: the one beside the program
  std::uint32_t max_context_tokens = 0;  // 0: the model's

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
  double pin_limit = EngineOptions().pinned_share_limit;  // of the pool
  std::uint32_t min_hold_ms = 0;
  double hold_limit = EngineOptions().held_share_limit;  // of the blocks that are not pinned
  std::vector<std::string> tenant_share;                 // NAME=FRACTION; see ParseTenantShares
  double verify_hits = 0;                                // of the requests with hits
  bool check_invariants = false;

  // Engine
  std::uint32_t max_batch_tokens = 0;  // 0: by the device, see StepBoundsOf
  std::uint32_t short_step_tokens = kDefaultShortStepTokens;
  std::uint32_t max_running_requests = 0;  // 0: the same
  std::uint32_t max_waiting_requests = EngineOptions().max_waiting_requests;
  std::string schedule{kDefaultSchedulePolicy};
  std::uint32_t max_partial_prefills = EngineOptions().max_partial_prefills;  // 0: no limit
  std::uint64_t first_token_target_ms = kDefaultFirstTokenTargetMs;           // 0: none
  std::uint32_t max_queue_wait_ms = 0;                                        // 0: no limit
  std::string plan_ahead = "auto";  // on a device that computes beside the host
  std::uint32_t threads = 0;        // 0: all cores

  // Constrained output
  std::uint64_t grammar_cache_bytes = std::uint64_t{256} << 20U;  // 0: none is written
  std::uint32_t grammar_threads = 2;
  double grammar_compile_seconds = 10;

  // Operation
  std::string metrics_address = "127.0.0.1:0";
  bool insecure_bind = false;
  double drain_timeout_seconds = 30;
  std::string log_level = "info";
  std::string log_format = "text";
};

// `options` must outlive the parse.
void Declare(WorkerOptions& options, ConfigParser& parser);
// Only the sections that say what computes and how, for other programs that run an engine.
void DeclareModel(WorkerOptions& options, ConfigParser& parser);
void DeclareCache(WorkerOptions& options, ConfigParser& parser);
void DeclareEngine(WorkerOptions& options, ConfigParser& parser);
void DeclareGrammar(WorkerOptions& options, ConfigParser& parser);

// Checks and defaults that need more than one flag or the machine: a power of two, addresses, the number of cores. It
// runs before the model is read, because that may take minutes.
[[nodiscard]] Result<void> Complete(WorkerOptions& options);

// The bounds of a step: from the flags, otherwise what suits the device. A CUDA device reads all weights in every step
// and is idle with few tokens. The CPU is busy with few; more would only make each step longer.
enum class DeviceKind : std::uint8_t { kCpu, kCuda };
[[nodiscard]] StepBounds StepBoundsOf(const WorkerOptions& options, DeviceKind device);

// The shares that NAME=FRACTION values give: names of at most 200 bytes, each once, the empty one for requests of no
// tenant; fractions above 0, together at most 1; at most 64 tenants.
[[nodiscard]] Result<std::vector<TenantShare>> ParseTenantShares(const std::vector<std::string>& values);
// Can requests have these tenants? kInvalidArgument names a tenant that no request can have.
[[nodiscard]] Result<void> CheckTenants(std::span<const TenantShare> shares);

// Memory for KV blocks.
struct KvMemory {
  std::optional<double> share;         // of what is free on the device beside the weights
  std::optional<std::uint64_t> bytes;  // neither: what suits the device
};

// "auto", a share above 0 and below 1, or bytes from 1 MiB.
[[nodiscard]] Result<KvMemory> ParseKvMemory(std::string_view value);

// How the process ends when it can not start, after sysexits.h: 65 a damaged file, 66 a file that is not there, 69 an
// address that can not be bound, 78 a model or value that is not supported, 70 anything else. (64: wrong flags.)
[[nodiscard]] int ExitCodeOf(const Error& error);

}  // namespace roost::worker
