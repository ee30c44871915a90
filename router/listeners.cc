#include "router/listeners.h"

#include <chrono>
#include <string_view>
#include <utility>

#include "common/http/listener_address.h"
#include "common/http/listener_tls.h"

namespace roost::router {
namespace {

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
  http.header_timeout =
      std::chrono::duration_cast<std::chrono::milliseconds>(FromSeconds(options.request_head_timeout_seconds));
  http.idle_timeout = std::chrono::duration_cast<std::chrono::milliseconds>(FromSeconds(options.http_idle_seconds));
  return http;
}

void Observe(HttpServerOptions& http, ApiMetrics& metrics, std::shared_ptr<const TlsContext> tls) {
  if (http.unix_path.empty()) http.tls = std::move(tls);
  http.on_refused = [&metrics](const Error& error) { metrics.OnAnswer("other", TraitsOf(error.code).http_status); };
  http.on_handshake_failed = [&metrics](HandshakeFailure failure) { metrics.OnHandshakeFailed(failure); };
}

// Few connections, and a budget of their own: clients who fill theirs keep no operator out.
Result<HttpServerOptions> OperatorOptionsAt(const std::string& address, const std::string& flag,
                                            const RouterOptions& options, std::shared_ptr<ByteBudget> memory) {
  constexpr std::size_t kMostConnections = 64;
  ROOST_ASSIGN_OR_RETURN(HttpServerOptions http, OptionsAt(address, {flag, "admin-keys", options.admin_keys}, options));
  http.max_connections = kMostConnections;
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

}  // namespace

Result<ListenerPlan> PlanListeners(const RouterOptions& options, Reloader& reloader,
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
  const InputShares shares = SharesOf(options.input_memory_bytes);
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

}  // namespace roost::router
