// roost-router: takes OpenAI-style requests, sends each to the worker that is predicted to answer it first, and streams
// the answer back.

#include <prometheus/counter.h>
#include <sysexits.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/byte_budget.h"
#include "common/base/clock.h"
#include "common/base/core_dumps.h"
#include "common/base/cpu_limit.h"
#include "common/base/descriptors.h"
#include "common/base/log.h"
#include "common/base/memory_limit.h"
#include "common/base/random_seed.h"
#include "common/base/reload.h"
#include "common/base/result.h"
#include "common/base/service_notifier.h"
#include "common/base/termination.h"
#include "common/config/config.h"
#include "common/http/listener_address.h"
#include "common/http/listener_tls.h"
#include "common/http/server.h"
#include "common/metrics/process_metrics.h"
#include "common/metrics/registry.h"
#include "common/trace/span_exporter.h"
#include "router/access/key_ring.h"
#include "router/api/diagnosis_memory.h"
#include "router/api/key_file.h"
#include "router/api/requests/shared_prefixes.h"
#include "router/api/routes/api.h"
#include "router/api_metrics.h"
#include "router/fleet/core/fleet.h"
#include "router/fleet/forwards/forward_table.h"
#include "router/fleet/registry_fleet_metrics.h"
#include "router/fleet/workers/text_bundle.h"
#include "router/ledger/ledger.h"
#include "router/options.h"
#include "router/record/recorder.h"
#include "router/text/prompt_memo.h"
#include "router/text/text_pool.h"
#include "router/throughput_log.h"
#include "router/traffic_history.h"

namespace roost::router {
namespace {

// The router's HTTP listeners: the API's for clients, and two for operators.
struct ListenerPlan {
  HttpServerOptions api;
  HttpServerOptions admin;
  std::optional<HttpServerOptions> metrics;
};

class Listeners {
 public:
  // Binds and serves; `api` outlives them. Errors name the flag.
  [[nodiscard]] static Result<std::unique_ptr<Listeners>> Open(const ListenerPlan& plan, Api& api);

  // With the real ports.
  [[nodiscard]] const std::string& api_url() const { return api_url_; }
  [[nodiscard]] const std::string& admin_url() const { return admin_url_; }
  [[nodiscard]] const std::string& metrics_url() const { return metrics_url_; }  // "none" without
  [[nodiscard]] HttpServer& api_server() { return *api_; }

  // Operators can look on until the last request of a client has ended.
  void StopOperators();

 private:
  std::unique_ptr<HttpServer> api_;
  std::unique_ptr<HttpServer> admin_;
  std::unique_ptr<HttpServer> metrics_;  // null without
  std::string api_url_;
  std::string admin_url_;
  std::string metrics_url_ = "none";
};

// The flags that let clients in at an address.
struct Admittance {
  std::string flag;
  std::string_view keys_flag;
  const std::string& keys;  // file
};

Result<HttpServerOptions> OptionsAt(const std::string& address, const Admittance& admittance,
                                    const RouterOptions& options) {
  ROOST_ASSIGN_OR_RETURN(ListenerAddress parsed, ParseListenerAddress(address, admittance.flag));
  const bool is_guarded = !admittance.keys.empty() || !options.tls_client_ca.empty();
  if (parsed.IsBeyondLoopback() && !is_guarded && !options.insecure_bind) {
    return InvalidArgument(admittance.flag,
                           "{} is not a loopback address, and without --{} or --tls-client-ca requests are not "
                           "authenticated; --insecure-bind allows it",
                           address, admittance.keys_flag);
  }
  HttpServerOptions http;
  http.address = std::move(parsed.host);
  http.port = parsed.port;
  http.unix_path = std::move(parsed.unix_path);
  http.body_bytes = options.max_body_bytes;
  http.idle_timeout = std::chrono::duration_cast<std::chrono::milliseconds>(FromSeconds(options.http_idle_seconds));
  return http;
}

void Observe(HttpServerOptions& http, ApiMetrics& metrics, std::shared_ptr<const TlsContext> tls) {
  if (http.unix_path.empty()) http.tls = std::move(tls);
  http.on_refused = [&metrics](const Error& error) { metrics.OnAnswer("other", TraitsOf(error.code).http_status); };
  http.on_handshake_failed = [&metrics](HandshakeFailure failure) { metrics.OnHandshakeFailed(failure); };
}

// Clients get no more than their share of the process's descriptors, whatever the flag says.
void BoundConnections(RouterOptions& options, std::size_t descriptor_count) {
  const std::size_t most = SharesOfDescriptors(descriptor_count, options.http_threads).clients;
  if (options.max_connections <= most) return;
  LogWarning("max-connections is lowered to what the limit on open files leaves for clients",
             {{"max_connections", options.max_connections}, {"open_files", descriptor_count}, {"now", most}});
  options.max_connections = most;
}

// Few connections, and a budget of their own: clients who fill theirs keep no operator out.
Result<HttpServerOptions> OperatorOptionsAt(const std::string& address, const std::string& flag,
                                            const RouterOptions& options, std::shared_ptr<ByteBudget> memory) {
  ROOST_ASSIGN_OR_RETURN(HttpServerOptions http, OptionsAt(address, {flag, "admin-keys", options.admin_keys}, options));
  http.max_connections = SharesOfDescriptors(DescriptorLimit(), options.http_threads).operators;
  http.input_budget = std::move(memory);
  return http;
}

Result<std::unique_ptr<HttpServer>> Serve(HttpServerOptions options, const std::string& flag, Api& api,
                                          Listener listener) {
  options.check_head = [&api, listener](const HttpRequest& head) { return api.CheckHead(listener, head); };
  Result<std::unique_ptr<HttpServer>> server = HttpServer::Start(
      std::move(options), [&api, listener](HttpRequest request, std::shared_ptr<Responder> responder) {
        api.Handle(listener, std::move(request), std::move(responder));
      });
  if (!server.ok()) return Error{server.error().code, server.error().message, flag};
  return server;
}

// Reads the certificates, and checks that no address is open to others without keys or client certificates, unless the
// operator wants it so. Errors name the flag.
[[nodiscard]] Result<ListenerPlan> PlanListeners(const RouterOptions& options, Reloader& reloader,
                                                 std::shared_ptr<ByteBudget> client_memory, ApiMetrics& metrics) {
  ROOST_ASSIGN_OR_RETURN(
      const std::shared_ptr<const TlsContext> tls,
      OpenTls({.certificate = options.tls_cert, .key = options.tls_key, .client_ca = options.tls_client_ca}, reloader,
              [&metrics](const TlsValidity& validity) { metrics.OnCertificate(validity); }));
  ListenerPlan plan;
  ROOST_ASSIGN_OR_RETURN(plan.api,
                         OptionsAt(options.http_address, {"http-address", "api-keys", options.api_keys}, options));
  plan.api.thread_count = options.http_threads;
  plan.api.max_connections = options.max_connections;
  const MemoryShares shares = SharesOf(options.memory_bytes);
  plan.api.input_budget = std::move(client_memory);
  plan.api.head_budget = std::make_shared<ByteBudget>(shares.heads);
  plan.api.cors_origins = options.cors_origins;
  Observe(plan.api, metrics, tls);
  const auto operator_memory = std::make_shared<ByteBudget>(shares.operators);
  ROOST_ASSIGN_OR_RETURN(plan.admin,
                         OperatorOptionsAt(options.admin_address, "admin-address", options, operator_memory));
  Observe(plan.admin, metrics, tls);
  if (options.metrics_address.empty()) return plan;
  ROOST_ASSIGN_OR_RETURN(plan.metrics,
                         OperatorOptionsAt(options.metrics_address, "metrics-address", options, operator_memory));
  Observe(*plan.metrics, metrics, tls);
  return plan;
}

Result<std::unique_ptr<Listeners>> Listeners::Open(const ListenerPlan& plan, Api& api) {
  auto listeners = std::make_unique<Listeners>();
  ROOST_ASSIGN_OR_RETURN(listeners->admin_, Serve(plan.admin, "admin-address", api, Listener::kAdmin));
  listeners->admin_url_ = UrlOf(plan.admin, *listeners->admin_);
  if (plan.metrics) {
    ROOST_ASSIGN_OR_RETURN(listeners->metrics_, Serve(*plan.metrics, "metrics-address", api, Listener::kMetrics));
    listeners->metrics_url_ = UrlOf(*plan.metrics, *listeners->metrics_);
  }
  // Last: who can reach the API can rely on the rest.
  ROOST_ASSIGN_OR_RETURN(listeners->api_, Serve(plan.api, "http-address", api, Listener::kApi));
  listeners->api_url_ = UrlOf(plan.api, *listeners->api_);
  return listeners;
}

void Listeners::StopOperators() {
  admin_->Stop(std::chrono::milliseconds(0));
  if (metrics_ != nullptr) metrics_->Stop(std::chrono::milliseconds(0));
}

// The files that the router reads again when they change, but for its certificates (common/http/listener_tls.h).

// Each is null where its flag names no file.
struct WatchedFiles {
  std::shared_ptr<KeyRing> api_keys;
  std::shared_ptr<KeyRing> admin_keys;
  std::shared_ptr<SharedPrefixes> shared_prefixes;
};

Result<std::shared_ptr<KeyRing>> OpenKeys(const std::string& path, const std::string& what,
                                          std::shared_ptr<ByteBudget> memory, Reloader& reloader) {
  if (path.empty()) return std::shared_ptr<KeyRing>();
  auto ring = std::make_shared<KeyRing>(std::vector<ApiKey>(), std::move(memory));
  const auto reload = [ring, path]() -> Result<void> {
    ROOST_ASSIGN_OR_RETURN(std::vector<ApiKey> keys, ReadKeyFile(path));
    ring->Replace(std::move(keys));
    return {};
  };
  ROOST_RETURN_IF_ERROR(reloader.Add({.what = what, .paths = {path}, .reload = reload}));
  return ring;
}

Result<std::shared_ptr<SharedPrefixes>> OpenSharedPrefixes(const std::string& path, Reloader& reloader) {
  if (path.empty()) return std::shared_ptr<SharedPrefixes>();
  auto shared = std::make_shared<SharedPrefixes>();
  const auto reload = [shared, path]() -> Result<void> {
    ROOST_ASSIGN_OR_RETURN(std::vector<SharedPrefix> prefixes, ReadSharedPrefixes(path));
    shared->Replace(std::move(prefixes));
    return {};
  };
  ROOST_RETURN_IF_ERROR(reloader.Add({.what = "the shared prefixes", .paths = {path}, .reload = reload}));
  return shared;
}

// Reads them now, and whenever `reloader` finds a change. API keys share `client_memory`. Errors name the file.
[[nodiscard]] Result<WatchedFiles> OpenFiles(const RouterOptions& options, std::shared_ptr<ByteBudget> client_memory,
                                             Reloader& reloader) {
  WatchedFiles files;
  ROOST_ASSIGN_OR_RETURN(files.api_keys,
                         OpenKeys(options.api_keys, "the API keys", std::move(client_memory), reloader));
  ROOST_ASSIGN_OR_RETURN(files.admin_keys, OpenKeys(options.admin_keys, "the admin keys", nullptr, reloader));
  ROOST_ASSIGN_OR_RETURN(files.shared_prefixes, OpenSharedPrefixes(options.shared_prefixes, reloader));
  return files;
}

std::int64_t UnixSeconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::chrono::milliseconds Milliseconds(double seconds) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(FromSeconds(seconds));
}

FleetOptions FleetOptionsOf(const RouterOptions& options, std::optional<wire::ServerKeys> link_keys,
                            std::shared_ptr<ByteBudget> input_budget) {
  FleetOptions fleet;
  fleet.link_keys = std::move(link_keys);
  fleet.input_budget = std::move(input_budget);
  fleet.frame_budget = std::make_shared<ByteBudget>(SharesOf(options.memory_bytes).workers);
  fleet.bind = options.link_address;
  fleet.insecure_bind = options.insecure_bind ? wire::InsecureBind::kAllow : wire::InsecureBind::kRefuse;
  fleet.policy = options.policy;
  fleet.core.worker_timeout = FromSeconds(options.worker_timeout_seconds);
  fleet.core.stall_timeout = FromSeconds(options.stall_timeout_seconds);
  fleet.core.requests.max_requests = static_cast<std::uint32_t>(options.max_connections);
  fleet.core.forwards = ForwardTableOptions{.max_requests = static_cast<std::uint32_t>(options.max_connections)};
  fleet.core.index_memory_bytes = SharesOf(options.memory_bytes).index;
  fleet.core.requests.worker_queue_bound = options.worker_queue_bound;
  fleet.core.requests.max_queue = options.max_queue;
  fleet.core.requests.max_queue_wait = std::chrono::milliseconds(options.max_queue_wait_ms);
  fleet.core.requests.routing = {.min_copies = options.min_copies,
                                 .slo = {options.slo_ttft_ms / 1e3, options.slo_itl_ms / 1e3},
                                 .pulls = options.pulls == "on" ? RequestPulls::kOn : RequestPulls::kOff};
  fleet.core.unix_seconds = &UnixSeconds;
  fleet.core.version.release = Version();
  return fleet;
}

// Null when no file for recording is set.
Result<std::unique_ptr<Recorder>> OpenRecorder(const RouterOptions& options, metrics::Registry& registry) {
  prometheus::Counter& written = registry.Counter(metrics::kRouterRecordedRequests, {"written"});
  prometheus::Counter& dropped = registry.Counter(metrics::kRouterRecordedRequests, {"dropped"});
  if (options.record.empty()) return std::unique_ptr<Recorder>();
  return Recorder::Open({.path = options.record, .on_outcome = [&written, &dropped](RecordOutcome outcome) {
                           (outcome == RecordOutcome::kWritten ? written : dropped).Increment();
                         }});
}

// Null when no folder for a ledger is set.
Result<std::unique_ptr<Ledger>> OpenLedger(const RouterOptions& options, metrics::Registry& registry,
                                           ApiObserver& next) {
  prometheus::Counter& written = registry.Counter(metrics::kRouterLedgerWrites, {"written"});
  prometheus::Counter& failed = registry.Counter(metrics::kRouterLedgerWrites, {"failed"});
  if (options.ledger.empty()) return std::unique_ptr<Ledger>();
  return Ledger::Open(
      {.folder = options.ledger,
       .unix_seconds = &UnixSeconds,
       .on_write = [&written,
                    &failed](LedgerWrite write) { (write == LedgerWrite::kWritten ? written : failed).Increment(); }},
      next);
}

Result<trace::SpanOutlet> OpenSpans(const RouterOptions& options, metrics::Registry& registry) {
  return trace::OpenCountedOutlet(options.otlp_endpoint,
                                  {.service_name = "roost-router",
                                   .service_version = std::string(Version()),
                                   .service_instance_id = options.http_address},
                                  registry, metrics::kRouterTraceSpans);
}

// Continues to serve while /ready answers 503. Load balancers check it every few seconds; requests would be lost if the
// listener closed before they have seen the 503. Each answer meanwhile tells its client to take another connection. A
// second signal ends the wait. Returns how many signals must have come to end the process at once.
int Announce(std::chrono::milliseconds time, Api& api, HttpServer& server, Termination& termination) {
  api.BeginDrain();
  server.CloseAfterAnswers();
  if (time.count() == 0) return 2;
  LogInfo("router will drain", {{"seconds", ToSeconds(time)}});
  return termination.Wait(time, 2) ? 3 : 2;
}

// Waits for open requests to end. Cuts them off after `timeout`; exits at once when signal number `last_signal` comes.
void Drain(HttpServer& server, std::chrono::milliseconds timeout, int last_signal, Termination& termination) {
  constexpr std::chrono::milliseconds kLook{50};
  std::atomic<bool> stopped = false;
  std::thread stopper([&server, &stopped, timeout] {
    server.Stop(timeout);
    stopped = true;
  });
  while (!stopped) {
    if (!termination.Wait(kLook, last_signal)) continue;
    LogWarning("open requests are cut off", {{"why", "one more signal"}});
    FlushLog();
    std::_Exit(1);
  }
  stopper.join();
}

// The peers of the link, whenever their file changes. The router's own key is read once.
Result<void> WatchLinkPeers(const RouterOptions& options, const std::optional<wire::ServerKeys>& keys,
                            Reloader& reloader) {
  if (!keys) return {};
  return reloader.Add({.what = "the link's peers",
                       .paths = {options.link_peers},
                       .reload = [path = options.link_peers, guard = keys->guard]() -> Result<void> {
                         ROOST_ASSIGN_OR_RETURN(wire::LinkPeers peers,
                                                wire::LinkPeers::Read(path, wire::PeersOf::kRouter));
                         guard->Replace(std::move(peers));
                         return {};
                       }});
}

// The records that are written every few seconds.
struct Diaries {
  ThroughputLog& throughput;
  TrafficHistory& history;
};

// Until a signal comes. Logs the throughput, and tells the service manager that the router is alive as long as all its
// event loops turn.
void Serve(HttpServer& server, Fleet& fleet, Diaries diaries, Termination& termination, ServiceNotifier& notifier) {
  using std::chrono::milliseconds;
  const SteadyClock clock;
  const auto turn = [&] {
    const bool http = server.LoopsTurn();
    const bool link = fleet.LinkTurns();
    return http && link;
  };
  Instant next_line = clock.Now() + kThroughputInterval;
  const auto wait = [&] {
    const auto until_line = std::chrono::ceil<milliseconds>(std::max(next_line - clock.Now(), Duration(0)));
    return std::min(notifier.look_interval().value_or(until_line), until_line);
  };
  termination.BeginServing();
  notifier.Ready("serves");
  (void)turn();  // asks the loops for a turn, which the first look finds
  while (!termination.Wait(wait(), 1)) {
    const Instant now = clock.Now();
    notifier.KeepAlive(now, turn);
    if (now < next_line) continue;
    next_line = now + kThroughputInterval;
    diaries.throughput.Tell();
    const std::shared_ptr<const FleetSnapshot> view = fleet.View();
    diaries.history.OnWorkers(view->standing, view->queues);
  }
  notifier.Stopping();
}

// The options of the API that flags alone decide.
Result<ApiOptions> ApiOptionsOf(const RouterOptions& options) {
  using Content = RenderSettings::Content;
  ApiOptions api;
  api.version = std::string(Version());
  api.seed = RandomSeed();
  api.request_timeout = FromSeconds(options.request_timeout_seconds);
  api.prefix_text = options.show_prefix_text ? PrefixText::kShow : PrefixText::kHide;
  api.message_content = options.content_may_contain_special_tokens ? Content::kMaySpellSpecialTokens : Content::kText;
  api.tool_family = ToolFamilyNamed(options.tool_parser);  // none for auto
  ROOST_ASSIGN_OR_RETURN(api.model_aliases, ParseModelAliases(options.model_alias));
  api.pass_through = options.pass_through;
  api.cors_origins = options.cors_origins;
  ROOST_ASSIGN_OR_RETURN(api.session_headers, SessionHeaders::Parse(options.session_headers));
  api.diagnosis_memory = std::make_shared<DiagnosisMemory>(options.diagnosis_memory_bytes, RandomSeed());
  api.unix_seconds_now = &UnixSeconds;
  return api;
}

// Serves until a signal comes, announces the shutdown, and lets open requests end within the drain timeout. A further
// signal ends the announcement; during the drain it ends the process.
Result<void> Run(const RouterOptions& options, Termination& termination, ServiceNotifier& notifier) {
  const SteadyClock clock;
  metrics::Registry registry;
  metrics::ExportProcess(registry, {.version = Version(), .revision = Revision()});
  ApiMetrics api_metrics(registry);
  Reloader reloader;  // after what its entries touch
  const HangupReload hangup_reload(termination, [&reloader] { reloader.RequestAll(); });
  const std::unique_ptr<FleetMetrics> fleet_metrics = MakeFleetMetrics(registry, options.policy);
  const auto input_budget = std::make_shared<ByteBudget>(SharesOf(options.memory_bytes).clients);
  ROOST_ASSIGN_OR_RETURN(const ListenerPlan plan, PlanListeners(options, reloader, input_budget, api_metrics));
  ROOST_ASSIGN_OR_RETURN(ApiOptions api_options, ApiOptionsOf(options));
  ROOST_ASSIGN_OR_RETURN(const WatchedFiles files, OpenFiles(options, input_budget, reloader));
  ROOST_ASSIGN_OR_RETURN(const std::unique_ptr<Recorder> recorder, OpenRecorder(options, registry));
  TrafficHistory history(api_metrics, &UnixSeconds);
  ThroughputLog throughput(history, clock);
  ROOST_ASSIGN_OR_RETURN(const std::unique_ptr<Ledger> ledger, OpenLedger(options, registry, throughput));
  const auto on_refused = [&fleet_metrics](wire::PeerRefusal refusal) { fleet_metrics->OnPeerRefused(refusal); };
  ROOST_ASSIGN_OR_RETURN(const std::optional<wire::ServerKeys> link_keys, ReadLinkKeys(options, clock, on_refused));
  ROOST_RETURN_IF_ERROR(WatchLinkPeers(options, link_keys, reloader));
  FleetOptions fleet_options = FleetOptionsOf(options, link_keys, input_budget);
  if (recorder != nullptr) fleet_options.on_submit = RecordTo(*recorder, clock);
  ROOST_ASSIGN_OR_RETURN(const std::unique_ptr<Fleet> fleet,
                         Fleet::Start(fleet_options, &ReadTextBundle, *fleet_metrics));
  TextPool text({.thread_count = options.text_threads, .max_jobs = options.max_connections});
  ROOST_ASSIGN_OR_RETURN(const trace::SpanOutlet spans, OpenSpans(options, registry));
  const auto prompt_memo = std::make_shared<PromptMemo>(SharesOf(options.memory_bytes).memo);
  api_options.prompt_memo = prompt_memo;
  api_options.shared_prefixes = files.shared_prefixes;
  api_options.api_keys = files.api_keys;
  api_options.admin_keys = files.admin_keys;
  api_options.tracing = {.spans = spans, .sample_ratio = options.otlp_sample_ratio};
  api_options.metrics_text = [&] {
    api_metrics.OnPromptMemo(prompt_memo->counts());
    api_metrics.OnModels(fleet->View()->models->models);
    if (files.api_keys != nullptr) api_metrics.OnKeys(files.api_keys->Accounts());
    return registry.Text();
  };
  api_options.history_json = [&] {
    const std::shared_ptr<const FleetSnapshot> view = fleet->View();
    history.OnWorkers(view->standing, view->queues);
    return history.Json();
  };
  ApiObserver& observer = ledger == nullptr ? static_cast<ApiObserver&>(throughput) : *ledger;
  Api api(*fleet, observer, clock, text, std::move(api_options));
  ROOST_ASSIGN_OR_RETURN(const std::unique_ptr<Listeners> listeners, Listeners::Open(plan, api));
  LogInfo("router ready", {{"http", listeners->api_url()},
                           {"admin", listeners->admin_url()},
                           {"metrics", listeners->metrics_url()},
                           {"link", fleet->endpoint()},
                           {"link_keys", link_keys ? "on" : "off"},
                           {"policy", options.policy},
                           {"max_connections", options.max_connections},
                           {"open_files", DescriptorLimit()},
                           {"version", std::string(Version())}});

  Serve(listeners->api_server(), *fleet, {throughput, history}, termination, notifier);
  const int last_signal =
      Announce(Milliseconds(options.drain_announce_seconds), api, listeners->api_server(), termination);
  LogInfo("router drains", {{"connections", listeners->api_server().connection_count()}});
  Drain(listeners->api_server(), Milliseconds(options.drain_timeout_seconds), last_signal, termination);
  listeners->StopOperators();
  text.Stop();
  fleet->Stop();
  LogInfo("router stopped", {});
  return {};
}

int Main(int argc, char** argv) {
  const Result<std::size_t> descriptors = RaiseDescriptorLimit();
  if (!descriptors.ok()) {
    LogError("roost-router can not start", {{"error", descriptors.error().ToString()}});
    return EX_CONFIG;
  }
  const Machine machine{MemoryLimitBytes(), UsableCpuCount(), *descriptors};
  RouterOptions options = DefaultsFor(machine);
  ConfigParser parser("roost-router",
                      "Takes OpenAI-style requests and sends each to the worker where its first token comes soonest. "
                      "Workers connect to it and bring their models along.");
  Declare(options, parser);
  const auto outcome = parser.Parse(argc, argv);
  if (!outcome.ok()) {
    LogError("roost-router can not start", {{"error", outcome.error().ToString()}});
    return EX_USAGE;
  }
  if (*outcome == ParseOutcome::kExit) return EX_OK;
  if (!options.core_dumps) ForbidCoreDumps();
  SetUpLogging(ParseLogLevel(options.log_level).value(), ParseLogFormat(options.log_format).value());
  ServiceNotifier notifier = ServiceNotifier::FromEnvironment();
  // It blocks the signals before any thread starts, so that all threads inherit the mask and only it gets signals.
  Termination termination(Termination::Hangup::kReloads);
  const LogThread log_thread;
  BoundConnections(options, *descriptors);
  Result<void> run = CheckMemory(options, machine);
  if (run.ok()) run = CheckPassThrough(options);
  if (run.ok()) run = Run(options, termination, notifier);
  if (run.ok()) return EX_OK;
  LogError("roost-router can not start", {{"error", run.error().ToString()}});
  return run.error().code == ErrorCode::kInvalidArgument ? EX_CONFIG : EX_UNAVAILABLE;
}

}  // namespace

}  // namespace roost::router

int main(int argc, char** argv) { return roost::router::Main(argc, argv); }
