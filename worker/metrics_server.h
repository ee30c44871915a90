// Serves a registry to Prometheus over HTTP, at /metrics, with prometheus-cpp's exposer and its own threads.
#pragma once

#include <memory>
#include <string>

#include "common/base/result.h"
#include "common/metrics/registry.h"
#include "common/wire/socket.h"

namespace roost::worker {

class MetricsServer {
 public:
  // `address` is ADDRESS:PORT; port 0 takes a free one. `registry` outlives the server. kInvalidArgument: not an
  // address, or an address that is not loopback without permission. kUnavailable: the address can not be bound.
  [[nodiscard]] static Result<std::unique_ptr<MetricsServer>> Start(const std::string& address,
                                                                    wire::InsecureBind insecure,
                                                                    const metrics::Registry& registry);
  ~MetricsServer();

  // http://ADDRESS:PORT/metrics, with the real port.
  [[nodiscard]] const std::string& url() const { return url_; }

 private:
  struct State;
  MetricsServer(std::unique_ptr<State> state, std::string url);

  std::unique_ptr<State> state_;
  std::string url_;
};

}  // namespace roost::worker
