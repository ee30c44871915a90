// Metrics of one daemon, kept by prometheus-cpp. Resolve a metric's label values once and keep the reference: resolving
// costs microseconds under a lock, counting does not.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/metrics/catalog.h"

namespace prometheus {
class Counter;
class Gauge;
class Histogram;
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
  explicit Registry(const std::vector<ConstantLabel>& constant_labels = {});
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // `values` are the label values, in the order of metric.labels. Each combination of values is made once. The number
  // of values, the metric's kind and that kLabels has its labels are checked. If the registry bounds a label, further
  // values of it become kOtherValue.
  prometheus::Counter& Counter(const Metric& metric, const std::vector<std::string>& values = {});
  prometheus::Gauge& Gauge(const Metric& metric, const std::vector<std::string>& values = {});
  prometheus::Histogram& Histogram(const Metric& metric, const std::vector<std::string>& values = {});

  // Calls `update` before each read of the metrics, one call at a time, so that it can set those that no other code
  // sets. It may be called for as long as the registry exists.
  void OnRead(std::function<void()> update);

  // Drops the series with these label values, if there is one: it is no longer exported.
  void Remove(const Metric& metric, const std::vector<std::string>& values);

  // All metrics in Prometheus' text format.
  [[nodiscard]] std::string Text() const;

 private:
  friend std::string TextOf(std::span<const Registry* const> registries);
  class State;
  std::unique_ptr<State> state_;
};

// All metrics of several registries, whose constant labels differ, as one text.
[[nodiscard]] std::string TextOf(std::span<const Registry* const> registries);

}  // namespace roost::metrics
