// Metrics of one daemon, kept by prometheus-cpp. Resolve a metric's label values once and keep the reference: resolving
// costs microseconds under a lock, counting does not.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/metrics/catalog.h"

namespace prometheus {
class Counter;
class Gauge;
class Histogram;
class Registry;
}  // namespace prometheus

namespace roost::metrics {

// Thread-safe. References stay valid as long as the registry, or until Remove.
class Registry {
 public:
  // A label that every metric carries.
  struct ConstantLabel {
    std::string name;
    std::string value;
  };
  explicit Registry(std::vector<ConstantLabel> constant_labels = {});
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // `values` are the label values, in the order of metric.labels. Each combination of values is made once. The
  // number of values and the metric's kind are checked.
  prometheus::Counter& Counter(const Metric& metric, const std::vector<std::string>& values = {});
  prometheus::Gauge& Gauge(const Metric& metric, const std::vector<std::string>& values = {});
  prometheus::Histogram& Histogram(const Metric& metric, const std::vector<std::string>& values = {});

  // Drops the series with these label values, if there is one: it is no longer exported.
  void Remove(const Metric& metric, const std::vector<std::string>& values);

  // All metrics in Prometheus' text format.
  [[nodiscard]] std::string Text() const;

 private:
  std::vector<ConstantLabel> constant_labels_;
  std::shared_ptr<prometheus::Registry> registry_;
};

}  // namespace roost::metrics
