// The router's HTTP listeners: the API's for clients, and two for operators.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/base/byte_budget.h"
#include "common/base/reload.h"
#include "common/base/result.h"
#include "common/http/server.h"
#include "router/api/api.h"
#include "router/api_metrics.h"
#include "router/options.h"

namespace roost::router {

struct ListenerPlan {
  HttpServerOptions api;
  HttpServerOptions admin;
  std::optional<HttpServerOptions> metrics;
};

// Reads the certificates, and checks that no address is open to others without keys or client certificates, unless the
// operator wants it so. Errors name the flag.
[[nodiscard]] Result<ListenerPlan> PlanListeners(const RouterOptions& options, Reloader& reloader,
                                                 std::shared_ptr<ByteBudget> client_memory, ApiMetrics& metrics);

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

}  // namespace roost::router
