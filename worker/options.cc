#include "worker/options.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sysexits.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "common/base/byte_size.h"
#include "common/base/cpu_limit.h"
#include "common/base/utf8.h"
#include "common/prefix/block_hash.h"
#include "common/wire/codec.h"
#include "common/wire/endpoint.h"
#include "worker/adapters/engine_protocol.h"
#include "worker/link/router_keys.h"
#include "worker/model/loading/shard.h"

namespace roost::worker {
namespace {

// A step's events must fit one message; see WireLimits.
constexpr double kMaxBatchTokens = 65536;
constexpr double kMaxRequests = 65536;
constexpr double kMaxThreads = 1024;
constexpr double kMaxDevices = 1023;
constexpr double kMaxBlocks = 1U << 24U;
constexpr StepBounds kCpuSteps{.token_count = 512, .request_count = 64};
constexpr StepBounds kCudaSteps{.token_count = 4096, .request_count = 256};
constexpr double kMaxHoldMs = 24.0 * 3600 * 1000;
constexpr double kMaxTransferBytes = 1e15;
constexpr double kMaxDiskCacheBytes = 1e15;

template <typename Table>
std::vector<std::string> Names(const Table& table) {
  std::vector<std::string> names;
  names.reserve(table.size());
  for (const auto& [name, value] : table) names.emplace_back(name);
  return names;
}

Result<TenantShare> ParseTenantShare(const std::string& value) {
  // The last one: a name may contain an equals sign, a fraction can not.
  const std::size_t equals = value.rfind('=');
  if (equals == std::string::npos) return InvalidArgument("tenant-share", "'{}' is not NAME=FRACTION", value);
  TenantShare share{value.substr(0, equals), 0};
  if (share.name.size() > wire::WireLimits::kMaxTenantBytes || !IsValidUtf8(share.name)) {
    return InvalidArgument("tenant-share", "the name in '{}' is not at most {} bytes of UTF-8", value,
                           wire::WireLimits::kMaxTenantBytes);
  }
  const std::string_view fraction = std::string_view(value).substr(equals + 1);
  const char* const end = fraction.data() + fraction.size();
  const auto [parsed_to, error] = std::from_chars(fraction.data(), end, share.share);
  if (error != std::errc() || parsed_to != end || !(share.share > 0 && share.share <= 1)) {
    return InvalidArgument("tenant-share", "the fraction in '{}' is not above 0 and at most 1", value);
  }
  return share;
}

std::vector<std::string> EngineNames() {
  std::vector<std::string> names{std::string(kOwnEngine)};
  names.insert(names.end(), adapters::kEngineProtocolNames.begin(), adapters::kEngineProtocolNames.end());
  return names;
}

// An address of another engine. Prompts and answers pass there, so beyond this machine only what protects them, or who
// asks for it.
Result<void> CheckEngineAddress(const WorkerOptions& options, const char* flag, const std::string& text) {
  if (text.empty()) return {};
  const Result<wire::Endpoint> endpoint = wire::ParseEndpoint(text);
  if (!endpoint.ok()) return InvalidArgument(flag, "{}", endpoint.error().ToString());
  if (endpoint->IsLoopback() || options.insecure_bind) return {};
  return InvalidArgument(flag,
                         "{} is beyond loopback, where anyone on the way reads prompts: put the worker beside its "
                         "engine, or allow it with --insecure-bind",
                         text);
}

// "http://host:8000/path" as tcp://host:8000; with https nothing, which needs no check.
std::string PlainAddressOf(const std::string& url) {
  constexpr std::string_view kScheme = "http://";
  if (!url.starts_with(kScheme)) return "";
  const std::string authority = url.substr(kScheme.size(), url.find('/', kScheme.size()) - kScheme.size());
  const bool has_port =
      authority.find(':', authority.rfind(']') == std::string::npos ? 0 : authority.rfind(']')) != std::string::npos;
  return "tcp://" + authority + (has_port ? "" : ":80");
}

// Beside a server that takes no tokens: what is about a model's files or events would have no effect.
Result<void> CheckUnread(const WorkerOptions& options) {
  const std::pair<const char*, bool> given[] = {{"model", !options.model.empty()},
                                                {"chat-template", !options.chat_template.empty()},
                                                {"fingerprint", options.fingerprint != "text"},
                                                {"engine-events", !options.engine_events.empty()}};
  for (const auto& [flag, is_given] : given) {
    if (is_given)
      return InvalidArgument(flag, "has no meaning with --engine {}: its server reads all requests", options.engine);
  }
  return {};
}

Result<void> CheckAdapter(const WorkerOptions& options) {
  if (options.engine == kOwnEngine) {
    if (options.engine_events.empty() && options.engine_replay.empty() && options.engine_key_file.empty()) return {};
    return InvalidArgument("engine", "is roost, which has no events, replay or key file: give another engine");
  }
  if (!adapters::EngineProtocolOf(options.engine)->takes_tokens()) ROOST_RETURN_IF_ERROR(CheckUnread(options));
  if (options.engine == "llama.cpp" && !options.engine_events.empty()) {
    return InvalidArgument("engine-events", "has no meaning with --engine llama.cpp: its server has no events");
  }
  if (options.engine_url.find('@') != std::string::npos) {
    return InvalidArgument("engine-url", "names a user or a password, which logs would show: give engine-key-file");
  }
  ROOST_RETURN_IF_ERROR(CheckEngineAddress(options, "engine-url", PlainAddressOf(options.engine_url)));
  ROOST_RETURN_IF_ERROR(CheckEngineAddress(options, "engine-events", options.engine_events));
  ROOST_RETURN_IF_ERROR(CheckEngineAddress(options, "engine-replay", options.engine_replay));
  if (options.engine_events.empty() && !options.engine_replay.empty()) {
    return InvalidArgument("engine-events", "is missing: engine-replay alone tells nothing");
  }
  return {};
}

// Addresses and keys. Messages to a router need protection as much as those from it: without keys a worker only
// dials this machine.
Result<void> CheckLinks(const WorkerOptions& options) {
  if (options.link_secret_key.empty() != options.link_peers.empty()) {
    return InvalidArgument(options.link_peers.empty() ? "link-peers" : "link-secret-key",
                           "is missing: link-secret-key and link-peers are given together");
  }
  const bool has_keys = !options.link_secret_key.empty();
  if (has_keys) ROOST_RETURN_IF_ERROR(RouterKeys::Open({options.link_secret_key, options.link_peers}));
  for (const std::string& router : options.routers) {
    const Result<wire::Endpoint> endpoint = wire::ParseEndpoint(router);
    if (!endpoint.ok()) return InvalidArgument("router", "{}", endpoint.error().ToString());
    if (!has_keys && !endpoint->IsLoopback() && !options.insecure_bind) {
      return InvalidArgument("router",
                             "{} is beyond loopback, where anyone on the way reads prompts and may pose as the router: "
                             "--link-secret-key and --link-peers protect the link, --insecure-bind allows it",
                             router);
    }
  }
  return {};
}

// 0.0.0.0 or ::, which stand for all addresses of a host. `endpoint` is numeric.
bool IsAnyAddress(const wire::Endpoint& endpoint) {
  in6_addr bytes{};  // large enough for both families
  (void)inet_pton(endpoint.IsV6() ? AF_INET6 : AF_INET, endpoint.host.c_str(), &bytes);
  if (!endpoint.IsV6()) return bytes.s6_addr32[0] == 0;
  return IN6_IS_ADDR_UNSPECIFIED(&bytes) || (IN6_IS_ADDR_V4MAPPED(&bytes) && bytes.s6_addr32[3] == 0);
}

// A numeric HOST:PORT; with kMaybeAny the port may be 0.
enum class TransferPort { kMaybeAny, kOne };

Result<wire::Endpoint> ParseTransferAddress(const char* flag, const std::string& text, TransferPort port) {
  const Result<wire::Endpoint> endpoint = wire::ParseEndpoint("tcp://" + text);
  if (!endpoint.ok()) return InvalidArgument(flag, "'{}' is not HOST:PORT", text);
  if (!wire::ParseNumericAddress(text.substr(0, text.rfind(':')) + ":1").ok()) {
    return InvalidArgument(flag, "'{}' has no numeric host, such as 10.0.0.5:7100", text);
  }
  if (endpoint->port == 0 && port == TransferPort::kOne) return InvalidArgument(flag, "'{}' has no port", text);
  return *endpoint;
}

// A role beside `both` is no use where no blocks travel. Beside vLLM it says that the engine has a KV connector.
Result<void> CheckRole(const WorkerOptions& options) {
  constexpr const char* kFlag = "role";
  if (options.role == "both") return {};
  if (options.engine != kOwnEngine) {
    if (adapters::EngineProtocolOf(options.engine)->has_connectors()) return {};
    return InvalidArgument(kFlag, "blocks of {} stay there: only vLLM has KV connectors that Roost knows",
                           options.engine);
  }
  const bool fetches = options.role == "decode";
  if (options.transfer == "off" || (fetches ? options.transfer_pulls : options.transfer_readers) == 0) {
    return InvalidArgument(kFlag, "{} needs --transfer auto and --transfer-{} above 0", options.role,
                           fetches ? "pulls" : "readers");
  }
  if (options.prefix_cache == "off" || options.cache_events == "off") {
    return InvalidArgument(kFlag, "{} needs --prefix-cache and --cache-events", options.role);
  }
  return {};
}

Result<void> CheckSlots(const WorkerOptions& options) {
  if (options.slot_directory.empty()) {
    if (options.slot_bytes == 0) return {};
    return InvalidArgument("slot-directory", "is missing: slot-bytes has no meaning without it");
  }
  if (options.engine != "llama.cpp") {
    return InvalidArgument("slot-directory", "has no meaning with --engine {}: only llama.cpp's server saves slots",
                           options.engine);
  }
  if (options.cache_events == "off") return InvalidArgument("slot-directory", "needs --cache-events on");
  constexpr std::uint64_t kLeast = std::uint64_t{16} << 20U;
  if (options.slot_bytes >= kLeast) return {};
  return InvalidArgument("slot-bytes", "{} are less than {}", ByteSizeText(options.slot_bytes), ByteSizeText(kLeast));
}

Result<void> CheckDisk(const WorkerOptions& options) {
  if (options.disk_cache.empty()) {
    if (options.disk_cache_bytes == 0) return {};
    return InvalidArgument("disk-cache", "is missing: disk-cache-bytes has no meaning without it");
  }
  if (options.engine != kOwnEngine) return InvalidArgument("disk-cache", "blocks of another engine stay there");
  if (options.prefix_cache == "off") return InvalidArgument("disk-cache", "needs --prefix-cache on");
  constexpr std::uint64_t kLeast = kLeastSegments * kSegmentBytes;
  if (options.disk_cache_bytes >= kLeast) return {};
  return InvalidArgument("disk-cache-bytes", "{} are less than the {} that disk-cache needs",
                         ByteSizeText(options.disk_cache_bytes), ByteSizeText(kLeast));
}

}  // namespace

Result<std::vector<TenantShare>> ParseTenantShares(const std::vector<std::string>& values) {
  // Decimal fractions that add up to 1 may come out a little above it.
  constexpr double kRounding = 1e-9;
  constexpr std::size_t kMaxTenants = 64;
  std::vector<TenantShare> shares;
  double sum = 0;
  for (const std::string& value : values) {
    ROOST_ASSIGN_OR_RETURN(TenantShare share, ParseTenantShare(value));
    const auto is_same = [&share](const TenantShare& other) { return other.name == share.name; };
    if (std::any_of(shares.begin(), shares.end(), is_same)) {
      return InvalidArgument("tenant-share", "'{}' is given twice", share.name);
    }
    sum += share.share;
    shares.push_back(std::move(share));
  }
  if (shares.size() > kMaxTenants) {
    return InvalidArgument("tenant-share", "{} tenants are more than {}", shares.size(), kMaxTenants);
  }
  if (sum > 1 + kRounding) return InvalidArgument("tenant-share", "the shares add up to {}, which is more than 1", sum);
  return shares;
}

Result<KvMemory> ParseKvMemory(std::string_view value) {
  constexpr std::uint64_t kMinBytes = 1U << 20U;
  constexpr std::uint64_t kMaxBytes = 1'000'000'000'000'000;
  if (value == "auto") return KvMemory{};
  double number = 0;
  const auto [parsed_to, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  const bool is_number = error == std::errc() && parsed_to == value.data() + value.size();
  if (is_number && number > 0 && number < 1) return KvMemory{.share = number, .bytes = std::nullopt};
  const Result<std::uint64_t> bytes = ParseByteSize(value);
  if (!bytes.ok())
    return InvalidArgument("kv-memory", "{}; or a share between 0 and 1, or auto", bytes.error().message);
  if (*bytes < kMinBytes || *bytes > kMaxBytes) {
    return InvalidArgument("kv-memory", "'{}' is not from {} to {}, nor a share between 0 and 1", value,
                           ByteSizeText(kMinBytes), ByteSizeText(kMaxBytes));
  }
  return KvMemory{.share = std::nullopt, .bytes = *bytes};
}

Result<TransferPlace> PlaceOfTransfer(const WorkerOptions& options) {
  constexpr const char* kAddress = "transfer-address";
  constexpr const char* kAdvertise = "transfer-advertise";
  TransferPlace place;
  ROOST_ASSIGN_OR_RETURN(place.address,
                         ParseTransferAddress(kAddress, options.transfer_address, TransferPort::kMaybeAny));
  if (!options.transfer_advertise.empty()) {
    ROOST_ASSIGN_OR_RETURN(place.advertised,
                           ParseTransferAddress(kAdvertise, options.transfer_advertise, TransferPort::kOne));
    if (IsAnyAddress(*place.advertised)) {
      return InvalidArgument(kAdvertise, "{} is an address that no other host can dial", options.transfer_advertise);
    }
    if (place.address.port == 0) {
      return InvalidArgument(kAddress, "{} takes any free port, but {} names one", options.transfer_address,
                             kAdvertise);
    }
  } else if (IsAnyAddress(place.address)) {
    return InvalidArgument(kAdvertise, "is missing: {} is an address that no other host can dial",
                           options.transfer_address);
  }
  if (place.address.IsLoopback() || options.insecure_bind || !options.link_secret_key.empty()) return place;
  return InvalidArgument(kAddress,
                         "{} is beyond loopback, where anyone on the way reads blocks, and anyone may fetch them: "
                         "--link-secret-key and --link-peers protect them, --insecure-bind allows it",
                         options.transfer_address);
}

void DeclareModel(WorkerOptions& options, ConfigParser& parser) {
  parser.Section("Model")
      .Add("model", options.model,
           "Model folder in Hugging Face layout, a name ORGANISATION/NAME in the Hugging Face cache, or "
           "synthetic:PRESET with "
           "random weights. Beside llama.cpp a GGUF file, by default the server's own. Beside an engine it may be "
           "missing: then "
           "requests are handed on to the engine unread")
      .Add("served-model-name", options.served_model_name,
           "Name that clients ask for; by default the folder's name, and beside an engine the names that it serves")
      .Add("chat-template", options.chat_template,
           "Name of the folder's chat template for every request; by default tool_use for requests with tools, where "
           "the folder has one, and default for all others")
      .AddChoice("compute-dtype", options.compute_dtype, {"auto", "bf16", "f32"}, "Precision of matrix products")
      .AddChoice("backend", options.backend, {"auto", "cpu", "cuda"},
                 "Device type that computes the model; auto takes CUDA if there is a device, else the CPU")
      .Add("device", options.device, "Number of the CUDA device; with tensor-parallel, of the first one",
           {0, kMaxDevices})
      .Add("tensor-parallel", options.tensor_parallel,
           "Devices that compute the model together, each with a part of the weights and of every KV block; it must "
           "divide the model's heads and inner layer. On the CPU it is only for testing: the ranks share the threads",
           {1, kMaxRanks})
      .Add("cuda-module", options.cuda_module,
           "The CUDA backend's file; by default libroost_cuda.so in ../lib/roost or beside the program")
      .Add("max-context-tokens", options.max_context_tokens,
           "Most tokens of a request, prompt and output together; 0 takes the model's own limit");
}

void DeclareCache(WorkerOptions& options, ConfigParser& parser) {
  parser.Section("Cache")
      .AddChoice(
          "prefix-cache", options.prefix_cache, {"on", "off"},
          "Keep the KV of prompts and answers for later requests; off computes every prompt in full, for comparisons")
      .Add("block-tokens", options.block_tokens,
           "Tokens per KV block, a power of two; the same for all workers of a model",
           {kMinBlockTokens, kMaxBlockTokens})
      .Add("kv-blocks", options.kv_blocks, "KV blocks; 0 takes as many as kv-memory holds", {0, kMaxBlocks})
      .Add("kv-memory", options.kv_memory,
           "Memory for KV blocks when kv-blocks is 0: a size such as 8GiB, or in bytes; or a share below 1 of the CUDA "
           "memory that weights and steps leave free; or auto, which is a share of 0.9 on CUDA, and on the CPU 1 GiB "
           "or half of "
           "the memory, whichever is less")
      .AddChoice("eviction", options.eviction, {kEvictionPolicyNames.begin(), kEvictionPolicyNames.end()},
                 "Policy that chooses which idle block is evicted first")
      .Add("pin-limit", options.pin_limit, "Largest part of the blocks that pins may hold", {0, 1})
      .Add("min-hold-ms", options.min_hold_ms,
           "Time that a new block stays in the cache. A younger block is evicted only if a request could not run "
           "otherwise, the oldest first, and such blocks are at most half of the unpinned ones",
           {0, kMaxHoldMs})
      .AddList(
          "tenant-share", options.tenant_share,
          "NAME=FRACTION: part of the blocks that belongs to a tenant; others may borrow what it does not use. The "
          "tenants are those of the routers' API keys; =FRACTION is the share of requests without a key")
      .Add("verify-hits", options.verify_hits,
           "Share of the requests with cached tokens that are computed again without the cache, to compare the logits",
           {0, 1})
      .AddSwitch("check-invariants", options.check_invariants,
                 "Check the cache's bookkeeping after every step and fill new blocks with NaN; slow, for debugging");
}

void DeclareEngine(WorkerOptions& options, ConfigParser& parser) {
  parser.Section("Engine")
      .Add("max-batch-tokens", options.max_batch_tokens,
           fmt::format("Token budget of one step; 0 takes {} on the CPU and {} on CUDA", kCpuSteps.token_count,
                       kCudaSteps.token_count),
           {0, kMaxBatchTokens})
      .Add("max-running-requests", options.max_running_requests,
           fmt::format("Requests in one batch; 0 takes {} on the CPU and {} on CUDA", kCpuSteps.request_count,
                       kCudaSteps.request_count),
           {0, kMaxRequests})
      .Add("max-waiting-requests", options.max_waiting_requests, "Requests that may wait; one more is refused",
           {1, kMaxRequests})
      .AddChoice("schedule", options.schedule, Names(kSchedulePolicies),
                 "Order in which waiting requests of equal priority are taken")
      .Add("first-token-target-ms", options.first_token_target_ms,
           "Target for the time to the first token: requests that would miss it get a part of each step, whatever the "
           "schedule; 0 for none",
           {0, kMaxHoldMs})
      .Add("max-queue-wait-ms", options.max_queue_wait_ms,
           "Time after which a waiting request is refused, so that the router tries another worker; 0 for no limit",
           {0, kMaxHoldMs})
      .AddChoice("plan-ahead", options.plan_ahead, {"auto", "on", "off"},
                 "Plan the next step while the device computes the current one; auto does so on CUDA unless hits are "
                 "verified. On the CPU it is only for testing: tokens come a step later")
      .Add("threads", options.threads,
           "Compute threads; 0 takes the processors that this process may use, of its affinity and its cgroup's quota, "
           "and fewer while other programs keep them busy",
           {0, kMaxThreads});
}

void DeclareAdapter(WorkerOptions& options, ConfigParser& parser) {
  parser.Section("Another engine")
      .AddChoice(
          "engine", options.engine, EngineNames(),
          "Who computes: roost, this process; or the engine at engine-url, for which this worker speaks. Then the "
          "flags of device, cache, engine and constrained output have no effect, but for max-running-requests, "
          "max-waiting-requests and compute-dtype (auto is bf16)")
      .Add("engine-url", options.engine_url, "Where the other engine serves HTTP")
      .Add("engine-events", options.engine_events,
           "Address tcp://HOST:PORT where the other engine publishes the events of its cache; without, routers assume "
           "that what they sent here is cached")
      .Add("engine-replay", options.engine_replay,
           "Address tcp://HOST:PORT where the other engine sends earlier events again; without, a lost event makes its "
           "cache unknown until it is emptied")
      .Add("engine-key-file", options.engine_key_file, "File with the API key of the other engine")
      .AddChoice("fingerprint", options.fingerprint, {"text", "weights"},
                 "What workers beside engines must have in common to be one fleet: configuration, tokenizer and chat "
                 "template; or the weights too, which are read at the start: for fleets with Roost's own engine")
      .Add("engine-timeout-seconds", options.engine_timeout_seconds,
           "Time without any progress, while it has requests, after which the other engine counts as hung and its "
           "requests go on elsewhere; longer than its longest step, which on a CPU may take half a minute",
           {0.5, 3600})
      .Add("slot-directory", options.slot_directory,
           "Folder of llama.cpp's --slot-save-path, as this process sees it: slots are saved there and restored, for "
           "one "
           "worker. It holds prompts in readable form: encrypt what is below it")
      .AddBytes("slot-bytes", options.slot_bytes, "Space that saved slots may take; needed with slot-directory",
                {0, kMaxDiskCacheBytes})
      .Add("slot-save-after", options.slot_save_after, "Seconds without a request after which a slot is saved",
           {0.1, 86400});
}

void DeclareTransfer(WorkerOptions& options, ConfigParser& parser) {
  parser.Section("Blocks of other workers")
      .AddChoice(
          "transfer", options.transfer, {"auto", "off"},
          "Fetch KV blocks from other workers when a router says so, and serve them blocks; auto does so on the CPU "
          "with prefix cache and cache events on")
      .AddChoice(
          "role", options.role, {"both", "prefill", "decode"},
          "What routers send here while workers of its model with other roles live: prefill, prompts and their first "
          "tokens; decode, answers, and prompts that are better computed beside them; both, all")
      .AddChoice(
          "transfer-numerics", options.transfer_numerics, {"same", "any"},
          "Workers to exchange blocks with: same, those that compute the same bits as this one; any, all with the "
          "same flag, also on other processors, so that answers may differ in their bits")
      .Add("transfer-address", options.transfer_address,
           "Address and port where other workers fetch blocks, numeric; port 0 takes a free one. Beyond loopback it "
           "needs link-secret-key, with which blocks are encrypted")
      .Add(
          "transfer-advertise", options.transfer_advertise,
          "Address and port that other workers dial instead, numeric; needed where transfer-address is 0.0.0.0 or [::]")
      .AddBytes(
          "transfer-memory", options.transfer_bytes,
          "Memory for blocks that have come and wait for a step, at least 8 blocks; 0 takes 256 MiB, or a sixteenth "
          "of the memory if that is less",
          {0, kMaxTransferBytes})
      .Add("transfer-pulls", options.transfer_pulls,
           "Workers that blocks are fetched from at one time, one fetch from each; 0 fetches none", {0, kMostPulls})
      .Add("transfer-readers", options.transfer_readers,
           "Fetches of other workers that are served at one time, each with memory of one block; 0 serves none, and "
           "there is no transfer-address",
           {0, kMostReaders});
}

void DeclareDisk(WorkerOptions& options, ConfigParser& parser) {
  parser.Section("Blocks on disk")
      .Add("disk-cache", options.disk_cache,
           "Folder where KV blocks are also kept, so that a worker that starts again is warm; for one worker. It holds "
           "prompts in readable form: encrypt what is below it. On the CPU alone")
      .AddBytes("disk-cache-bytes", options.disk_cache_bytes,
                "Space that disk-cache may take, at least 1 GiB (and 32 blocks of the model); needed with it",
                {0, kMaxDiskCacheBytes})
      .AddBytes("disk-write-rate", options.disk_write_rate,
                "Bytes a second that are written to disk-cache, for what wears out; 0 for no bound",
                {0, kMaxDiskCacheBytes});
}

void Declare(WorkerOptions& options, ConfigParser& parser) {
  DeclareModel(options, parser);
  DeclareAdapter(options, parser);
  parser.Section("Links")
      .AddList("router", options.routers,
               "Router addresses tcp://HOST:PORT; names are resolved again every few seconds, and every address gets a "
               "link")
      .Add("link-secret-key", options.link_secret_key,
           "File with this worker's secret key (roostctl key link): the link is encrypted, and routers must have keys "
           "too; with link-peers")
      .Add("link-peers", options.link_peers, "File with the public keys of routers, a JSON object per line: public_key")
      .AddChoice("cache-events", options.cache_events, {"on", "off"},
                 "Tell routers which blocks are stored and evicted; with off, routers assume that what they sent here "
                 "is cached")
      .Add("worker-id", options.worker_id,
           "Name of this worker, unique in the cluster; by default the host's name and the first free number");
  DeclareCache(options, parser);
  DeclareEngine(options, parser);
  DeclareTransfer(options, parser);
  DeclareDisk(options, parser);
  parser.Section("Operation")
      .Add("metrics-address", options.metrics_address,
           "Address and port of /health, /livez, /ready, /metrics and /version, or unix:PATH of a socket for this user "
           "alone; port 0 takes a free one; empty for none")
      .Add(
          "tls-cert", options.tls_cert,
          "File with the certificate of metrics-address and those between it and its root, in PEM: it speaks HTTPS. It "
          "is read again, with the other two, when it changes and at SIGHUP")
      .Add("tls-key", options.tls_key, "File with the certificate's private key, in PEM without a password")
      .Add("tls-client-ca", options.tls_client_ca,
           "File with certificates of authorities, in PEM: clients of metrics-address must show a certificate that one "
           "of them has signed")
      .Add("stall-timeout-seconds", options.stall_timeout_seconds,
           "Time without a finished step or part of a step, while there is work, after which /livez answers 503; with "
           "another engine and on a device longer than any step of this model",
           {1, 86400})
      .Add(
          "otlp-endpoint", options.otlp_endpoint,
          "URL of an OpenTelemetry collector that takes OTLP over HTTP, such as http://127.0.0.1:4318; the worker then "
          "sends spans of the requests that the router traces")
      .AddSwitch("insecure-bind", options.insecure_bind,
                 "Allow metrics-address beyond loopback without tls-client-ca, links to such routers and such a "
                 "transfer-address without link-secret-key, and such an engine without https")
      .Add("drain-timeout-seconds", options.drain_timeout_seconds,
           "Time that running requests have to end after SIGTERM; then they continue on other workers", {0, 86400})
      .Add("last-drain-seconds", options.last_drain_seconds,
           "The same while no other worker of these weights can continue them, if that is longer", {0, 86400})
      .Add("handover-seconds", options.handover_seconds,
           "Time after the last request, within drain-timeout-seconds, for other workers to fetch the most used "
           "prefixes "
           "from here",
           {0, 600})
      .AddSwitch("core-dumps", options.core_dumps,
                 "Allow core dumps, and debuggers and profilers to attach: both see prompts and keys")
      .AddChoice("log-level", options.log_level, {"debug", "info", "warning", "error"}, "Lowest level that is logged")
      .AddChoice("log-format", options.log_format, {"auto", "text", "json"},
                 "Form of the log lines; auto: text on a terminal, JSON elsewhere");
}

WorkerListenerOptions ListenerOf(const WorkerOptions& options) {
  return {
      .address = options.metrics_address,
      .tls = {.certificate = options.tls_cert, .key = options.tls_key, .client_ca = options.tls_client_ca},
      .insecure_bind = options.insecure_bind ? wire::InsecureBind::kAllow : wire::InsecureBind::kRefuse,
  };
}

StepBounds StepBoundsOf(const WorkerOptions& options, DeviceKind device) {
  StepBounds bounds = device == DeviceKind::kCpu ? kCpuSteps : kCudaSteps;
  if (options.max_batch_tokens > 0) bounds.token_count = options.max_batch_tokens;
  if (options.max_running_requests > 0) bounds.request_count = options.max_running_requests;
  return bounds;
}

Result<void> Complete(WorkerOptions& options) {
  if (options.model.empty() && options.engine == kOwnEngine) {
    return Error{ErrorCode::kInvalidArgument, "--model is required", ""};
  }
  if (!IsValidBlockTokens(options.block_tokens)) {
    return InvalidArgument("block-tokens", "{} is not a power of two from {} to {}", options.block_tokens,
                           kMinBlockTokens, kMaxBlockTokens);
  }
  ROOST_RETURN_IF_ERROR(CheckAdapter(options));
  ROOST_RETURN_IF_ERROR(CheckLinks(options));
  ROOST_RETURN_IF_ERROR(WorkerListener::Check(ListenerOf(options)));
  ROOST_RETURN_IF_ERROR(PlaceOfTransfer(options));
  ROOST_RETURN_IF_ERROR(CheckRole(options));
  ROOST_RETURN_IF_ERROR(CheckSlots(options));
  ROOST_RETURN_IF_ERROR(CheckDisk(options));
  ROOST_ASSIGN_OR_RETURN(const std::vector<TenantShare> shares, ParseTenantShares(options.tenant_share));
  ROOST_RETURN_IF_ERROR(ParseKvMemory(options.kv_memory));
  if (options.plan_ahead == "on" && options.verify_hits > 0) {
    return InvalidArgument("plan-ahead",
                           "can not be on together with verify-hits, which reads logits that the next step overwrites");
  }
  options.threads_vary = options.threads == 0;
  if (options.threads_vary) options.threads = UsableCpuCount();
  return {};
}

int ExitCodeOf(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalidArgument: return EX_CONFIG;
    case ErrorCode::kMethodNotAllowed: return EX_USAGE;
    case ErrorCode::kDataLoss: return EX_DATAERR;
    case ErrorCode::kNotFound: return EX_NOINPUT;
    case ErrorCode::kUnavailable: return EX_UNAVAILABLE;
    default: return EX_SOFTWARE;
  }
}

}  // namespace roost::worker
