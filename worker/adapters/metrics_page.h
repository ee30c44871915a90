// The few numbers that a worker needs of an engine's /metrics, in Prometheus' text format. A view: the text outlives
// it. Each question reads the text from the start, O(bytes): pages have some 100 KiB, and few names are asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace roost::worker::adapters {

inline constexpr std::size_t kMaxPageBytes = std::size_t{8} << 20U;

class MetricsPage {
 public:
  // Series that have the label with another value are left out.
  struct Only {
    std::string_view label;
    std::string value;
  };
  explicit MetricsPage(std::string_view text, std::optional<Only> only = {}) : text_(text), only_(std::move(only)) {}

  // The sum of all series of the name; nothing if there is none that is a number.
  [[nodiscard]] std::optional<double> Sum(std::string_view name) const;
  // The same as a whole number, which a negative or huge sum is not: it becomes the nearest one.
  [[nodiscard]] std::optional<std::uint32_t> Count(std::string_view name) const;
  [[nodiscard]] std::optional<double> Largest(std::string_view name) const;
  // The label's value in each series of the name that has it.
  [[nodiscard]] std::vector<std::string> Labels(std::string_view name, std::string_view label) const;

 private:
  struct Series {
    std::string_view labels;  // without the braces
    std::string_view value;
  };
  [[nodiscard]] std::vector<Series> Find(std::string_view name) const;
  [[nodiscard]] std::vector<double> Values(std::string_view name) const;

  std::string_view text_;
  std::optional<Only> only_;
};

}  // namespace roost::worker::adapters
