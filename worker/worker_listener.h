// The worker's HTTP listener: a WorkerApi behind common/http's server, with TLS if its files are given.
//
// Threads: Start and the destructor from one; the rest from any.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "common/base/reload.h"
#include "common/base/result.h"
#include "common/http/server.h"
#include "common/http/tls_context.h"
#include "common/wire/socket.h"
#include "worker/worker_api.h"

namespace roost::worker {

struct WorkerListenerOptions {
  std::string address;  // ADDRESS:PORT or unix:PATH; empty: none
  TlsFiles tls = {};    // without a certificate: plain HTTP
  wire::InsecureBind insecure_bind = wire::InsecureBind::kRefuse;
};

class WorkerListener {
 public:
  // Checks what can be checked before the model is loaded: the address, who can reach it, the TLS files. Errors name
  // the flag.
  [[nodiscard]] static Result<void> Check(const WorkerListenerOptions& options);

  // Binds and serves; with port 0 at a free one. `on_certificate` is called for each certificate that comes into use,
  // on this thread and on the reloader's. Errors as Check's; kUnavailable: the address can not be bound.
  [[nodiscard]] static Result<std::unique_ptr<WorkerListener>> Start(
      const WorkerListenerOptions& options, WorkerApi api, std::function<void(const TlsValidity&)> on_certificate);

  // With the real port, without a path.
  [[nodiscard]] const std::string& url() const { return url_; }
  // The TLS files are read again; so they are when they change.
  void Reload() { reloader_.RequestAll(); }

 private:
  explicit WorkerListener(WorkerApi api) : api_(std::move(api)) {}

  const WorkerApi api_;
  Reloader reloader_;
  std::unique_ptr<HttpServer> server_;
  std::string url_;
};

}  // namespace roost::worker
