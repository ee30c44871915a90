#include "worker/options.h"

#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <thread>

#include "common/prefix/block_hash.h"
#include "common/wire/endpoint.h"

namespace roost::worker {
namespace {

// A step's events must fit one message; see WireLimits.
constexpr double kMaxBatchTokens = 65536;
constexpr double kMaxRequests = 65536;
constexpr double kMaxThreads = 1024;
constexpr double kMaxBlocks = 1U << 24U;

std::string HostAndProcess() {
  std::array<char, 256> host{};
  // A name that is too long comes without its end; the last byte stays zero.
  if (gethostname(host.data(), host.size() - 1) != 0 || host[0] == '\0') return fmt::format("worker-{}", getpid());
  return fmt::format("{}-{}", host.data(), getpid());
}

}  // namespace

void Declare(WorkerOptions& options, ConfigParser& parser) {
  parser.Section("Model")
      .Add("model", options.model, "Model folder in Hugging Face layout, or synthetic:PRESET with random weights")
      .Require("model")
      .Add("served-model-name", options.served_model_name, "Name that clients ask for; by default the folder's name")
      .AddChoice("compute-dtype", options.compute_dtype, {"auto", "bf16", "f32"}, "Precision of matrix products")
      .Add("max-context-tokens", options.max_context_tokens,
           "Prompt and output of one request together; 0 takes the model's own limit");
  parser.Section("Links")
      .AddList("router", options.routers,
               "Router addresses tcp://HOST:PORT; names are resolved again every few seconds, and every address gets a "
               "link")
      .Add("worker-id", options.worker_id, "Name of this worker, different in each; by default host name and process");
  parser.Section("Cache")
      .Add("block-tokens", options.block_tokens, "Tokens per KV block, a power of two; one value per model fleet",
           {kMinBlockTokens, kMaxBlockTokens})
      .Add("kv-blocks", options.kv_blocks, "KV blocks; 0 takes as many as kv-memory-bytes holds", {0, kMaxBlocks})
      .Add("kv-memory-bytes", options.kv_memory_bytes, "Memory for KV blocks when kv-blocks is 0", {1 << 20, 1e15});
  parser.Section("Engine")
      .Add("max-batch-tokens", options.max_batch_tokens, "Token budget of one step", {1, kMaxBatchTokens})
      .Add("max-running-requests", options.max_running_requests, "Requests in one batch", {1, kMaxRequests})
      .Add("max-waiting-requests", options.max_waiting_requests, "Requests in the queue; more are refused",
           {1, kMaxRequests})
      .Add("threads", options.threads, "Compute threads; 0 takes all cores", {0, kMaxThreads});
  parser.Section("Operation")
      .Add("metrics-address", options.metrics_address, "ADDRESS:PORT of the metrics endpoint; empty for none")
      .AddSwitch("insecure-bind", options.insecure_bind, "Allow metrics on an address that is not loopback")
      .Add("drain-timeout-seconds", options.drain_timeout_seconds,
           "After SIGTERM, how long running requests may take to end", {0, 86400})
      .AddChoice("log-level", options.log_level, {"debug", "info", "warning", "error"}, "Least level that is logged")
      .AddChoice("log-format", options.log_format, {"text", "json"}, "Form of log lines");
}

Result<void> Complete(WorkerOptions& options) {
  if (!IsValidBlockTokens(options.block_tokens)) {
    return InvalidArgument("block-tokens", "{} is not a power of two from {} to {}", options.block_tokens,
                           kMinBlockTokens, kMaxBlockTokens);
  }
  for (const std::string& router : options.routers) {
    const Result<wire::Endpoint> endpoint = wire::ParseEndpoint(router);
    if (!endpoint.ok()) return InvalidArgument("router", "{}", endpoint.error().ToString());
  }
  if (options.worker_id.empty()) options.worker_id = HostAndProcess();
  if (options.threads == 0) options.threads = std::max(1U, std::thread::hardware_concurrency());
  return {};
}

int ExitCodeOf(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalidArgument: return EX_CONFIG;
    case ErrorCode::kDataLoss: return EX_DATAERR;
    case ErrorCode::kNotFound: return EX_NOINPUT;
    case ErrorCode::kUnavailable: return EX_UNAVAILABLE;
    default: return EX_SOFTWARE;
  }
}

}  // namespace roost::worker
