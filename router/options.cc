#include "router/options.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "common/base/byte_size.h"
#include "common/wire/codec.h"
#include "common/wire/gate.h"
#include "common/wire/messages.h"
#include "router/policies/policies.h"
#include "router/route/candidates.h"

namespace roost::router {
namespace {

constexpr std::uint64_t kMinMemoryBytes = std::uint64_t{16} << 20U;

}  // namespace

RouterOptions DefaultsFor(const Machine& machine) {
  RouterOptions options;
  options.memory_bytes = std::clamp(machine.memory_bytes / 2, kMinMemoryBytes, kMaxDefaultMemoryBytes);
  // At least two, so that short requests need not wait for a long one. At most four, because workers on the same
  // machine need the processors more.
  options.text_threads = std::clamp(machine.processor_count, 2U, 4U);
  options.max_connections =
      std::min(options.max_connections, SharesOfDescriptors(machine.descriptor_count, options.http_threads).clients);
  return options;
}

ConnectionShares SharesOfDescriptors(std::size_t descriptor_count, std::uint32_t http_threads) {
  constexpr std::size_t kOwn = 64;
  constexpr std::size_t kOfAThread = 4;  // its epoll, timers and wake-ups
  constexpr std::size_t kMaxOperators = 64;
  const std::size_t quarter = descriptor_count / 4;
  const std::size_t operators = std::clamp<std::size_t>(descriptor_count / 16, 4, kMaxOperators);
  const std::size_t reserved = kOwn + kOfAThread * http_threads + 2 * operators + HttpServer::kMaxLingering +
                               wire::Gate::DescriptorsOf(descriptor_count);
  return {.clients = std::max(quarter, descriptor_count - std::min(reserved, descriptor_count)),
          .operators = operators};
}

MemoryShares SharesOf(std::uint64_t memory_bytes) {
  const std::uint64_t part = memory_bytes / 32;
  return {.clients = 11 * part,
          .workers = std::max<std::uint64_t>(2 * part, wire::WireLimits::kMaxFrameBytes),
          .operators = 2 * part,
          .heads = part,
          .index = 8 * part,
          .memo = 2 * part};
}

Result<void> CheckMemory(const RouterOptions& options, const Machine& machine) {
  if (options.memory_bytes <= machine.memory_bytes) return {};
  return InvalidArgument("memory",
                         "{} are more than the {} that this process may use: the least of its cgroup's limit, its "
                         "address space's and the machine's memory",
                         ByteSizeText(options.memory_bytes), ByteSizeText(machine.memory_bytes));
}

Result<void> CheckPassThrough(const RouterOptions& options) {
  const std::vector<Api::RouteName> routes = Api::RouteNames();
  for (const std::string& path : options.pass_through) {
    if (!path.starts_with('/') || path.size() > wire::kMaxRouteBytes ||
        path.find_first_of("?# ") != std::string::npos) {
      return InvalidArgument("pass-through", "'{}' is no path such as /v1/audio/translations", path);
    }
    if (std::any_of(routes.begin(), routes.end(), [&path](const auto& route) { return route.path == path; })) {
      return InvalidArgument("pass-through", "{} is a route already", path);
    }
  }
  return {};
}

Result<std::optional<wire::ServerKeys>> ReadLinkKeys(const RouterOptions& options, const Clock& clock,
                                                     wire::LinkGuard::OnRefused on_refused) {
  if (options.link_secret_key.empty() != options.link_peers.empty()) {
    return InvalidArgument(options.link_peers.empty() ? "link-peers" : "link-secret-key",
                           "is missing: link-secret-key and link-peers are given together");
  }
  if (options.link_secret_key.empty()) return std::optional<wire::ServerKeys>();
  wire::ServerKeys keys;
  ROOST_ASSIGN_OR_RETURN(keys.own, wire::ReadLinkKey(options.link_secret_key));
  ROOST_ASSIGN_OR_RETURN(wire::LinkPeers peers, wire::LinkPeers::Read(options.link_peers, wire::PeersOf::kRouter));
  keys.guard = std::make_shared<wire::LinkGuard>(std::move(peers), clock, std::move(on_refused));
  return std::optional(std::move(keys));
}

namespace {

void DeclareMemory(RouterOptions& options, ConfigParser& parser) {
  parser.Section("Memory").AddBytes(
      "memory", options.memory_bytes,
      "Memory that the router may fill. Half of it is for requests, from their arrival until they can no "
      "longer be sent again, and for answers until they are read; a request that does not fit is answered "
      "429, or 413 if it can never fit. A quarter is for the index of what workers hold, which leaves out "
      "the deepest blocks when it is full; a sixteenth is for the tokens and hashes of earlier prompts. The "
      "rest is for what is not counted. Default: half of what the process may use, at most 4 GiB",
      {kMinMemoryBytes, 1e15});
}

void DeclareClients(RouterOptions& options, ConfigParser& parser) {
  parser.Section("Clients")
      .Add("http-address", options.http_address, "Address and port of the HTTP API; port 0 takes a free one")
      .Add("http-threads", options.http_threads, "Threads that serve clients", {1, 256})
      .Add("max-connections", options.max_connections,
           "Open client connections, and open requests, at most; another one is answered 429. Default: what the limit "
           "on open files (ulimit -n) leaves beside operators and workers, at most 10000",
           {1, 1e6})
      .AddBytes("max-body-bytes", options.max_body_bytes,
                "Size of a request's body, in bytes or with a unit such as 8MiB; a larger one is answered 413",
                {1024, 1e9})
      .Add("http-idle-seconds", options.http_idle_seconds,
           "Time after which a connection without a request is closed. Behind a load balancer, longer than it keeps "
           "connections: Google's keep theirs for 600",
           {0.01, 86400})
      .AddList(
          "model-alias", options.model_alias,
          "Other names for models, ALIAS=MODEL: clients that ask for the alias get the model or adapter, under the "
          "name that they asked for. A key's model_aliases in api-keys come first")
      .AddList("cors-origins", options.cors_origins,
               "Web pages that may call the API from a browser: origins such as https://chat.example.com, or * for "
               "all; none by default")
      .AddList(
          "pass-through", options.pass_through,
          "More paths, such as /v1/audio/translations, whose POST goes unread to a worker beside an engine that has "
          "them; embeddings, reranking, scores, pooling, classes and transcriptions go there by themselves")
      .AddList("session-headers", options.session_headers,
               "Headers that name a request's session where its body has no session_id: the first that is there. With "
               "NAME+NAME the second, where it is there, is a part of the name. Replaces the default; empty: none")
      .Add("tls-cert", options.tls_cert,
           "File with this server's certificate and those between it and its root, in PEM: clients use HTTPS. It is "
           "read "
           "again, with the other two, when it changes and at SIGHUP")
      .Add("tls-key", options.tls_key, "File with the certificate's private key, in PEM without a password")
      .Add("tls-client-ca", options.tls_client_ca,
           "File with certificates of authorities, in PEM: clients must show a certificate that one of them has signed")
      .Add("api-keys", options.api_keys,
           "File with the API keys that clients may use, one JSON object per line (roostctl key new makes them); it is "
           "read again when it changes. Without it anyone may call, so the API binds to loopback alone")
      .Add("shared-prefixes", options.shared_prefixes,
           "File with the prefixes that tenants share in the cache, one JSON object per line, as /admin/v1/warm takes "
           "prompts; it is read again when it changes. By default tenants share nothing");
}

void DeclareOperatorsAndWorkers(RouterOptions& options, ConfigParser& parser) {
  parser.Section("Operators")
      .Add("admin-address", options.admin_address,
           "Address and port of /admin/v1, for roostctl, or unix:PATH of a socket for this user alone; port 0 takes a "
           "free "
           "one")
      .Add("metrics-address", options.metrics_address,
           "Address and port of /metrics, for Prometheus; port 0 takes a free one; empty for none")
      .Add(
          "admin-keys", options.admin_keys,
          "File with the keys that operators need at the admin and metrics addresses, in the form of api-keys; without "
          "it anyone on this machine may use them");
  parser.Section("Workers")
      .Add("link-address", options.link_address, "Address tcp://HOST:PORT that workers dial; port 0 takes a free one")
      .Add("link-secret-key", options.link_secret_key,
           "File with this router's secret key (roostctl key link): workers must have keys too, and the link is "
           "encrypted; with link-peers")
      .Add("link-peers", options.link_peers,
           "File with the public keys of workers, a JSON object per line: public_key, workers and models that it may "
           "have")
      .Add("worker-timeout-seconds", options.worker_timeout_seconds,
           "Time without a message after which a worker counts as dead, up to five times as long if its messages come "
           "late; "
           "workers report four times a second",
           {0.5, 3600})
      .Add("stall-timeout-seconds", options.stall_timeout_seconds,
           "Time without a step or a part of one after which a worker that has work counts as hung; half of it without "
           "a token leaves out a worker that owes a first token; both are longer if its steps take long",
           {0.5, 3600})
      .Add("request-timeout-seconds", options.request_timeout_seconds,
           "Time after which a request ends with an error, even in mid-stream; a request may shorten it with "
           "x-request-timeout-ms",
           {0.1, 86'400});
}

void DeclareRouting(RouterOptions& options, ConfigParser& parser) {
  parser.Section("Queue")
      .Add("worker-queue-bound", options.worker_queue_bound,
           "Requests that may wait at a worker; new ones wait at the router while every worker has that many", {1, 1e6})
      .Add("max-queue", options.max_queue,
           "Requests that may wait at the router for one model or adapter; another one is answered 429", {0, 1e6})
      .Add("max-queue-wait-ms", options.max_queue_wait_ms, "Time after which a request that waits is answered 429",
           {1, 86'400'000});
  const std::span<const std::string_view> policies = PolicyNames();
  parser.Section("Routing")
      .AddChoice("policy", options.policy, {policies.begin(), policies.end()}, "How a worker is chosen")
      .Add("slo-ttft-ms", options.slo_ttft_ms,
           "Bound of the time to the first token. The default policy avoids workers where it, or the next bound, would "
           "be "
           "broken. 0: none",
           {0, 1e9})
      .Add("slo-itl-ms", options.slo_itl_ms, "Bound of the mean time between the tokens of an answer. 0: none",
           {0, 1e9})
      .Add("min-copies", options.min_copies,
           "Workers that should hold a prefix that many requests share, by the default policy; more than 1 copies it "
           "before "
           "anyone waits for it",
           {1, kMaxHolders})
      .AddChoice("pulls", options.pulls, {"on", "off"},
                 "Whether workers may fetch blocks for a request from workers that hold them, by the default policy; "
                 "copies and warm-ups do in any case");
  parser.Section("Answers").AddBytes(
      "diagnosis-memory-bytes", options.diagnosis_memory_bytes,
      "Memory for hashes of earlier requests, in addition to memory: later ones are compared with them, to say why a "
      "prompt was not found in the cache. 0: none are kept",
      {0, 1e12});
  parser.AddChoice("tool-parser", options.tool_parser,
                   {"auto", "none", "hermes", "llama", "pythonic", "mistral", "harmony", "deepseek", "granite", "glm",
                    "qwen-xml", "kimi", "seed-oss", "minimax-m2", "deepseek-dsml", "gemma4"},
                   "Format in which models write tool calls; auto: detect it from the chat template");
  parser.Section("Prompts").AddSwitch("content-may-contain-special-tokens", options.content_may_contain_special_tokens,
                                      "Read the text of a special token, such as <|im_end|>, in messages and tools as "
                                      "that token; by default it is plain text");
}

void DeclareOperation(RouterOptions& options, ConfigParser& parser) {
  parser.Section("Operation")
      .Add("ledger", options.ledger,
           "Folder for the savings ledger: what each tenant, key and model used in each hour, and the prefill that the "
           "cache saved of it. Several routers may share it; roostctl savings adds the files up")
      .Add("record", options.record,
           "File in which the router records the lengths, block hashes and keys' names of all requests, but no text; "
           "roostctl "
           "simulate reads it")
      .AddSwitch("show-prefix-text", options.show_prefix_text,
                 "Show the text of the most used prefixes in /admin/v1/prefixes; workers then send their tokens")
      .Add(
          "otlp-endpoint", options.otlp_endpoint,
          "URL of an OpenTelemetry collector that takes OTLP over HTTP, such as http://127.0.0.1:4318; the router then "
          "sends a span of each request")
      .Add("otlp-sample-ratio", options.otlp_sample_ratio,
           "Share of the requests that are traced, of those whose client sends no traceparent", {0, 1})
      .AddSwitch("insecure-bind", options.insecure_bind,
                 "Allow addresses beyond loopback, where anyone who reaches them may send requests or, without "
                 "link-secret-key, pose as a worker")
      .Add(
          "drain-announce-seconds", options.drain_announce_seconds,
          "Time after SIGTERM during which /ready answers 503 and requests are still accepted; a second signal ends it",
          {0, 86400})
      .Add("drain-timeout-seconds", options.drain_timeout_seconds,
           "Time that open requests then have to end; one more signal cuts them off at once", {0, 86400})
      .AddSwitch("core-dumps", options.core_dumps,
                 "Allow core dumps, and debuggers and profilers to attach: both see prompts and keys")
      .AddChoice("log-level", options.log_level, {"debug", "info", "warning", "error"}, "Lowest level that is logged")
      .AddChoice("log-format", options.log_format, {"auto", "text", "json"},
                 "Form of the log lines; auto: text on a terminal, JSON elsewhere");
}

}  // namespace

void Declare(RouterOptions& options, ConfigParser& parser) {
  DeclareMemory(options, parser);
  DeclareClients(options, parser);
  DeclareOperatorsAndWorkers(options, parser);
  DeclareRouting(options, parser);
  DeclareOperation(options, parser);
}

}  // namespace roost::router
