#include "common/metrics/registry.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "common/base/check.h"

namespace roost::metrics {
namespace {

using Labels = std::map<std::string, std::string>;

const Label& LabelNamed(std::string_view name) {
  const auto* const found =
      std::find_if(kLabels.begin(), kLabels.end(), [name](const Label& label) { return label.name == name; });
  ROOST_CHECK(found != kLabels.end(), "the label '{}' is not declared", name);
  return *found;
}

}  // namespace

class Registry::State {
 public:
  explicit State(const std::vector<ConstantLabel>& constant_labels) {
    for (const auto& label : constant_labels) constant_labels_[label.name] = label.value;
  }

  // Builder is what prometheus::BuildCounter() and its siblings return. A second registration of a family returns the
  // first.
  template <typename Builder>
  auto& Family(Builder builder, const Metric& metric) {
    return builder.Name(std::string(metric.name))
        .Help(std::string(metric.help))
        .Labels(constant_labels_)
        .Register(registry_);
  }

  Labels PairLabels(const Metric& metric, const std::vector<std::string>& values) {
    Labels labels;
    std::stringstream names{std::string(metric.labels)};
    std::string name;
    std::size_t used = 0;
    while (std::getline(names, name, ',')) {
      ROOST_CHECK(used < values.size(), "{}: no value for label {}", metric.name, name);
      labels[name] = Bounded(LabelNamed(name), values[used++]);
    }
    ROOST_CHECK(used == values.size(), "{}: {} values for the labels '{}'", metric.name, values.size(), metric.labels);
    return labels;
  }

  void OnRead(std::function<void()> update) {
    const std::lock_guard lock(mutex_);
    updates_.push_back(std::move(update));
  }

  [[nodiscard]] std::vector<prometheus::MetricFamily> Collect() const {
    {
      const std::lock_guard lock(mutex_);
      for (const auto& update : updates_) update();
    }
    return registry_.Collect();
  }

 private:
  std::string Bounded(const Label& label, const std::string& value) {
    if (label.bound != Label::Bound::kRegistry) return value;
    const std::lock_guard lock(names_mutex_);
    std::set<std::string>& known = names_[label.name];
    if (known.contains(value)) return value;
    if (known.size() == label.most) return std::string(kOtherValue);
    known.insert(value);
    return value;
  }

  Labels constant_labels_;
  prometheus::Registry registry_;
  mutable std::mutex mutex_;
  std::vector<std::function<void()>> updates_;  // guarded by mutex_
  std::mutex names_mutex_;
  std::map<std::string_view, std::set<std::string>> names_;  // that each bounded label has; guarded by names_mutex_
};

Registry::Registry(const std::vector<ConstantLabel>& constant_labels)
    : state_(std::make_unique<State>(constant_labels)) {}

Registry::~Registry() = default;

prometheus::Counter& Registry::Counter(const Metric& metric, const std::vector<std::string>& values) {
  ROOST_CHECK(metric.kind == Kind::kCounter, "{}", metric.name);
  return state_->Family(prometheus::BuildCounter(), metric).Add(state_->PairLabels(metric, values));
}

prometheus::Gauge& Registry::Gauge(const Metric& metric, const std::vector<std::string>& values) {
  ROOST_CHECK(metric.kind == Kind::kGauge, "{}", metric.name);
  return state_->Family(prometheus::BuildGauge(), metric).Add(state_->PairLabels(metric, values));
}

prometheus::Histogram& Registry::Histogram(const Metric& metric, const std::vector<std::string>& values) {
  ROOST_CHECK(metric.kind == Kind::kHistogram, "{}", metric.name);
  const prometheus::Histogram::BucketBoundaries buckets(metric.buckets.begin(), metric.buckets.end());
  return state_->Family(prometheus::BuildHistogram(), metric).Add(state_->PairLabels(metric, values), buckets);
}

void Registry::OnRead(std::function<void()> update) { state_->OnRead(std::move(update)); }

void Registry::Remove(const Metric& metric, const std::vector<std::string>& values) {
  const auto labels = state_->PairLabels(metric, values);
  const auto remove = [&](auto& family, auto&... arguments) {
    if (family.Has(labels)) family.Remove(&family.Add(labels, arguments...));
  };
  switch (metric.kind) {
    case Kind::kCounter: return remove(state_->Family(prometheus::BuildCounter(), metric));
    case Kind::kGauge: return remove(state_->Family(prometheus::BuildGauge(), metric));
    case Kind::kHistogram: {
      const prometheus::Histogram::BucketBoundaries buckets(metric.buckets.begin(), metric.buckets.end());
      return remove(state_->Family(prometheus::BuildHistogram(), metric), buckets);
    }
  }
}

std::string Registry::Text() const { return prometheus::TextSerializer().Serialize(state_->Collect()); }

// A family is told in one piece.
std::string TextOf(std::span<const Registry* const> registries) {
  std::vector<prometheus::MetricFamily> all;
  std::map<std::string, std::size_t> places;
  for (const Registry* const registry : registries) {
    for (prometheus::MetricFamily& family : registry->state_->Collect()) {
      const auto [place, is_new] = places.try_emplace(family.name, all.size());
      if (is_new) {
        all.push_back(std::move(family));
        continue;
      }
      std::vector<prometheus::ClientMetric>& metrics = all[place->second].metric;
      metrics.insert(metrics.end(), std::make_move_iterator(family.metric.begin()),
                     std::make_move_iterator(family.metric.end()));
    }
  }
  return prometheus::TextSerializer().Serialize(all);
}

}  // namespace roost::metrics
