// The answer of a daemon's /metrics, in the text format of Prometheus.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace roost::roostctl {

struct MetricSample {
  std::string name;
  std::map<std::string, std::string> labels;
  double value = 0;
};

class MetricsText {
 public:
  MetricsText() = default;
  // Lines that are none are left out.
  explicit MetricsText(std::string_view text);

  // The sum over the samples with this name and these labels; nothing if there is none.
  using Labels = std::vector<std::pair<std::string_view, std::string_view>>;
  [[nodiscard]] std::optional<double> Sum(std::string_view name, const Labels& labels = {}) const;

  // The counts of a histogram's buckets by their upper bounds, over all its label values; cumulative.
  [[nodiscard]] std::map<double, double> Buckets(std::string_view name) const;

  [[nodiscard]] const std::vector<MetricSample>& samples() const { return samples_; }

 private:
  std::vector<MetricSample> samples_;
};

// The value below which `share` of the observations between two states of a histogram lie, as Prometheus estimates it:
// linear inside a bucket. Nothing if there were none, or if they lie above the last bound.
[[nodiscard]] std::optional<double> HistogramQuantile(const std::map<double, double>& before,
                                                      const std::map<double, double>& after, double share);

}  // namespace roost::roostctl
