#include "worker/metrics_server.h"

#include <prometheus/exposer.h>

#include <exception>
#include <utility>
#include <vector>

#include "common/wire/endpoint.h"

namespace roost::worker {

struct MetricsServer::State {
  std::shared_ptr<prometheus::Collectable> collectable;  // the exposer keeps a weak pointer
  prometheus::Exposer exposer;
};

MetricsServer::MetricsServer(std::unique_ptr<State> state, std::string url)
    : state_(std::move(state)), url_(std::move(url)) {}
MetricsServer::~MetricsServer() = default;

Result<std::unique_ptr<MetricsServer>> MetricsServer::Start(const std::string& address, wire::InsecureBind insecure,
                                                            const metrics::Registry& registry) {
  constexpr std::size_t kThreads = 2;
  Result<wire::Endpoint> endpoint = wire::ParseEndpoint("tcp://" + address);
  if (!endpoint.ok()) return InvalidArgument("metrics-address", "'{}' is not ADDRESS:PORT", address);
  if (!endpoint->IsLoopback() && insecure == wire::InsecureBind::kRefuse) {
    return InvalidArgument("metrics-address", "'{}' can be reached from other hosts; --insecure-bind allows it",
                           address);
  }
  if (endpoint->host == "localhost") endpoint->host = "127.0.0.1";
  try {
    const std::string bind = endpoint->ToString().substr(std::string("tcp://").size());
    auto state = std::unique_ptr<State>(new State{registry.collectable(), prometheus::Exposer(bind, kThreads)});
    state->exposer.RegisterCollectable(state->collectable);
    const std::vector<int> ports = state->exposer.GetListeningPorts();
    if (!ports.empty()) endpoint->port = static_cast<std::uint16_t>(ports.front());
    std::string url = "http" + endpoint->ToString().substr(std::string("tcp").size()) + "/metrics";
    return std::unique_ptr<MetricsServer>(new MetricsServer(std::move(state), std::move(url)));
  } catch (const std::exception& exception) {
    return Error{ErrorCode::kUnavailable, fmt::format("{} can not be bound: {}", address, exception.what()),
                 "metrics-address"};
  }
}

}  // namespace roost::worker
