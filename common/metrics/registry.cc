#include "common/metrics/registry.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <cstddef>
#include <map>
#include <sstream>
#include <utility>

#include "common/base/check.h"

namespace roost::metrics {
namespace {

std::map<std::string, std::string> PairLabels(const Metric& metric, const std::vector<std::string>& values) {
  std::map<std::string, std::string> labels;
  std::stringstream names{std::string(metric.labels)};
  std::string name;
  std::size_t used = 0;
  while (std::getline(names, name, ',')) {
    ROOST_CHECK(used < values.size(), "{}: no value for label {}", metric.name, name);
    labels[name] = values[used++];
  }
  ROOST_CHECK(used == values.size(), "{}: {} values for the labels '{}'", metric.name, values.size(), metric.labels);
  return labels;
}

// Builder is what prometheus::BuildCounter() and its siblings return. A second registration of a family returns the
// first.
template <typename Builder>
auto& Family(Builder builder, const Metric& metric, const std::vector<Registry::ConstantLabel>& constant_labels,
             prometheus::Registry& registry) {
  std::map<std::string, std::string> labels;
  for (const auto& label : constant_labels) labels[label.name] = label.value;
  return builder.Name(std::string(metric.name)).Help(std::string(metric.help)).Labels(labels).Register(registry);
}

}  // namespace

Registry::Registry(std::vector<ConstantLabel> constant_labels)
    : constant_labels_(std::move(constant_labels)), registry_(std::make_shared<prometheus::Registry>()) {}

Registry::~Registry() = default;

prometheus::Counter& Registry::Counter(const Metric& metric, const std::vector<std::string>& values) {
  ROOST_CHECK(metric.kind == Kind::kCounter, "{}", metric.name);
  return Family(prometheus::BuildCounter(), metric, constant_labels_, *registry_).Add(PairLabels(metric, values));
}

prometheus::Gauge& Registry::Gauge(const Metric& metric, const std::vector<std::string>& values) {
  ROOST_CHECK(metric.kind == Kind::kGauge, "{}", metric.name);
  return Family(prometheus::BuildGauge(), metric, constant_labels_, *registry_).Add(PairLabels(metric, values));
}

prometheus::Histogram& Registry::Histogram(const Metric& metric, const std::vector<std::string>& values) {
  ROOST_CHECK(metric.kind == Kind::kHistogram, "{}", metric.name);
  const prometheus::Histogram::BucketBoundaries buckets(metric.buckets.begin(), metric.buckets.end());
  return Family(prometheus::BuildHistogram(), metric, constant_labels_, *registry_)
      .Add(PairLabels(metric, values), buckets);
}

void Registry::Remove(const Metric& metric, const std::vector<std::string>& values) {
  const auto labels = PairLabels(metric, values);
  const auto remove = [&](auto& family, auto&... arguments) {
    if (family.Has(labels)) family.Remove(&family.Add(labels, arguments...));
  };
  switch (metric.kind) {
    case Kind::kCounter: return remove(Family(prometheus::BuildCounter(), metric, constant_labels_, *registry_));
    case Kind::kGauge: return remove(Family(prometheus::BuildGauge(), metric, constant_labels_, *registry_));
    case Kind::kHistogram: {
      const prometheus::Histogram::BucketBoundaries buckets(metric.buckets.begin(), metric.buckets.end());
      return remove(Family(prometheus::BuildHistogram(), metric, constant_labels_, *registry_), buckets);
    }
  }
}

std::string Registry::Text() const { return prometheus::TextSerializer().Serialize(registry_->Collect()); }

}  // namespace roost::metrics
