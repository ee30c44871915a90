#include "worker/worker_listener.h"

#include <cstddef>
#include <utility>

#include "common/http/listener_address.h"
#include "common/http/listener_tls.h"

namespace roost::worker {
namespace {

constexpr const char* kMetricsAddressFlag = "metrics-address";

Result<HttpServerOptions> OptionsAt(const WorkerListenerOptions& options) {
  // Probes and a scraper need few connections, and no bodies.
  constexpr std::size_t kMaxConnections = 64;
  constexpr std::size_t kMaxBodyBytes = 4096;
  ROOST_ASSIGN_OR_RETURN(ListenerAddress address, ParseListenerAddress(options.address, kMetricsAddressFlag));
  const bool is_guarded = !options.tls.client_ca.empty();
  if (address.IsBeyondLoopback() && !is_guarded && options.insecure_bind == wire::InsecureBind::kRefuse) {
    return InvalidArgument(kMetricsAddressFlag,
                           "{} can be reached from other hosts, and without --tls-client-ca anyone there may ask; "
                           "--insecure-bind allows it",
                           options.address);
  }
  HttpServerOptions http;
  http.address = std::move(address.host);
  http.port = address.port;
  http.unix_path = std::move(address.unix_path);
  http.max_connections = kMaxConnections;
  http.body_bytes = kMaxBodyBytes;
  return http;
}

}  // namespace

Result<void> WorkerListener::Check(const WorkerListenerOptions& options) {
  if (options.address.empty()) return {};
  ROOST_RETURN_IF_ERROR(OptionsAt(options));
  return CheckTls(options.tls);
}

Result<std::unique_ptr<WorkerListener>> WorkerListener::Start(const WorkerListenerOptions& options, WorkerApi api,
                                                              std::function<void(const TlsValidity&)> on_certificate) {
  ROOST_ASSIGN_OR_RETURN(HttpServerOptions http, OptionsAt(options));
  std::unique_ptr<WorkerListener> listener(new WorkerListener(std::move(api)));
  ROOST_ASSIGN_OR_RETURN(const std::shared_ptr<const TlsContext> tls,
                         OpenTls(options.tls, listener->reloader_, std::move(on_certificate)));
  if (http.unix_path.empty()) http.tls = tls;
  Result<std::unique_ptr<HttpServer>> server =
      HttpServer::Start(http, [&api = listener->api_](const HttpRequest& request, const auto& responder) {
        responder->Respond(api.Answer(request));
      });
  if (!server.ok()) return Error{ErrorCode::kUnavailable, server.error().message, kMetricsAddressFlag};
  listener->server_ = std::move(server).value();
  listener->url_ = UrlOf(http, *listener->server_);
  return listener;
}

}  // namespace roost::worker
