#include "worker/adapters/metrics_page.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>

namespace roost::worker::adapters {
namespace {

// The position after the brace that closes the labels, or npos. A brace inside a quoted value closes nothing.
std::size_t EndOfLabels(std::string_view line) {
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (quoted && line[i] == '\\') {
      ++i;
    } else if (line[i] == '"') {
      quoted = !quoted;
    } else if (!quoted && line[i] == '}') {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

// The text of a quoted value that begins after its first quote.
std::string Unquoted(std::string_view text) {
  std::string value;
  for (std::size_t i = 0; i < text.size() && text[i] != '"'; ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) ++i;
    value += text[i];
  }
  return value;
}

// The value of `label`, or nothing. Names of labels hold no quotes, so a name is found where a value ends.
std::optional<std::string> LabelIn(std::string_view labels, std::string_view label) {
  while (!labels.empty()) {
    const std::size_t equals = labels.find("=\"");
    if (equals == std::string_view::npos) return std::nullopt;
    std::string_view name = labels.substr(0, equals);
    name.remove_prefix(std::min(name.find_first_not_of(", "), name.size()));
    labels.remove_prefix(equals + 2);
    if (name == label) return Unquoted(labels);
    std::size_t end = 0;
    while (end < labels.size() && labels[end] != '"') end += labels[end] == '\\' ? 2 : 1;
    labels.remove_prefix(std::min(end + 1, labels.size()));
  }
  return std::nullopt;
}

}  // namespace

std::vector<MetricsPage::Series> MetricsPage::Find(std::string_view name) const {
  std::vector<Series> found;
  for (std::string_view rest = text_; !rest.empty();) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.substr(0, name.size()) != name) continue;
    line.remove_prefix(name.size());
    Series series;
    if (!line.empty() && line.front() == '{') {
      const std::size_t end = EndOfLabels(line);
      if (end == std::string_view::npos) continue;
      series.labels = line.substr(1, end - 2);
      line.remove_prefix(end);
    }
    if (line.empty() || line.front() != ' ') continue;
    line.remove_prefix(1);
    series.value = line.substr(0, line.find(' '));
    if (only_ && LabelIn(series.labels, only_->label).value_or(only_->value) != only_->value) continue;
    found.push_back(series);
  }
  return found;
}

std::vector<double> MetricsPage::Values(std::string_view name) const {
  std::vector<double> values;
  for (const Series& series : Find(name)) {
    double value = 0;
    const auto [end, error] = std::from_chars(series.value.begin(), series.value.end(), value);
    if (error == std::errc() && std::isfinite(value)) values.push_back(value);
  }
  return values;
}

std::optional<double> MetricsPage::Sum(std::string_view name) const {
  const std::vector<double> values = Values(name);
  if (values.empty()) return std::nullopt;
  return std::accumulate(values.begin(), values.end(), 0.0);
}

std::optional<std::uint32_t> MetricsPage::Count(std::string_view name) const {
  const std::optional<double> sum = Sum(name);
  if (!sum) return std::nullopt;
  return static_cast<std::uint32_t>(std::clamp(*sum, 0.0, double{std::numeric_limits<std::uint32_t>::max()}));
}

std::optional<double> MetricsPage::Largest(std::string_view name) const {
  const std::vector<double> values = Values(name);
  if (values.empty()) return std::nullopt;
  return *std::max_element(values.begin(), values.end());
}

std::vector<std::string> MetricsPage::Labels(std::string_view name, std::string_view label) const {
  std::vector<std::string> values;
  for (const Series& series : Find(name)) {
    if (std::optional<std::string> value = LabelIn(series.labels, label)) values.push_back(*std::move(value));
  }
  return values;
}

}  // namespace roost::worker::adapters
