#include "deploy/roostctl/remote/metrics_text.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

namespace roost::roostctl {
namespace {

std::optional<double> ParseNumber(std::string_view text) {
  if (text == "+Inf") return std::numeric_limits<double>::infinity();
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Reads a quoted label value behind its opening quote, and leaves what follows the closing one.
std::string TakeQuoted(std::string_view& text) {
  std::string value;
  while (!text.empty() && text.front() != '"') {
    if (text.front() == '\\' && text.size() > 1) {
      text.remove_prefix(1);
      value += text.front() == 'n' ? '\n' : text.front();
    } else {
      value += text.front();
    }
    text.remove_prefix(1);
  }
  if (!text.empty()) text.remove_prefix(1);
  return value;
}

// Reads {a="b",c="d"} behind its opening brace, and leaves what follows the closing one.
std::map<std::string, std::string> TakeLabels(std::string_view& text) {
  std::map<std::string, std::string> labels;
  while (!text.empty() && text.front() != '}') {
    const std::size_t equals = text.find("=\"");
    if (equals == std::string_view::npos) break;
    std::string name(text.substr(0, equals));
    text.remove_prefix(equals + 2);
    labels[std::move(name)] = TakeQuoted(text);
    if (!text.empty() && text.front() == ',') text.remove_prefix(1);
  }
  if (!text.empty()) text.remove_prefix(1);
  return labels;
}

std::optional<MetricSample> ParseLine(std::string_view line) {
  if (line.empty() || line.front() == '#') return std::nullopt;
  const std::size_t end = line.find_first_of("{ ");
  if (end == std::string_view::npos) return std::nullopt;
  MetricSample sample{.name = std::string(line.substr(0, end)), .labels = {}};
  line.remove_prefix(end);
  if (line.front() == '{') {
    line.remove_prefix(1);
    sample.labels = TakeLabels(line);
  }
  while (!line.empty() && line.front() == ' ') line.remove_prefix(1);
  const std::optional<double> value = ParseNumber(line.substr(0, line.find_first_of(" \r")));
  if (!value) return std::nullopt;
  sample.value = *value;
  return sample;
}

}  // namespace

MetricsText::MetricsText(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (std::optional<MetricSample> sample = ParseLine(text.substr(0, end))) samples_.push_back(*std::move(sample));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

std::optional<double> MetricsText::Sum(std::string_view name, const Labels& labels) const {
  std::optional<double> sum;
  for (const MetricSample& sample : samples_) {
    if (sample.name != name) continue;
    const bool fits = std::all_of(labels.begin(), labels.end(), [&sample](const auto& wanted) {
      const auto found = sample.labels.find(std::string(wanted.first));
      return found != sample.labels.end() && found->second == wanted.second;
    });
    if (fits) sum = sum.value_or(0) + sample.value;
  }
  return sum;
}

std::map<double, double> MetricsText::Buckets(std::string_view name) const {
  std::map<double, double> buckets;
  const std::string bucket_name = std::string(name) + "_bucket";
  for (const MetricSample& sample : samples_) {
    if (sample.name != bucket_name) continue;
    const auto bound = sample.labels.find("le");
    if (bound == sample.labels.end()) continue;
    if (const std::optional<double> le = ParseNumber(bound->second)) buckets[*le] += sample.value;
  }
  return buckets;
}

std::optional<double> HistogramQuantile(const std::map<double, double>& before, const std::map<double, double>& after,
                                        double share) {
  const auto count_at = [&](const auto& entry) {
    const auto found = before.find(entry.first);
    return entry.second - (found == before.end() ? 0 : found->second);
  };
  if (after.empty()) return std::nullopt;
  const double total = count_at(*after.rbegin());
  if (total <= 0) return std::nullopt;
  double low = 0;
  double below = 0;
  for (const auto& entry : after) {
    const double count = count_at(entry);
    if (count >= share * total) {
      if (std::isinf(entry.first)) return std::nullopt;
      return count > below ? low + (entry.first - low) * (share * total - below) / (count - below) : entry.first;
    }
    low = entry.first;
    below = count;
  }
  return std::nullopt;
}

}  // namespace roost::roostctl
