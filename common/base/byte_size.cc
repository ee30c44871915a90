#include "common/base/byte_size.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <system_error>

namespace roost {
namespace {

constexpr double kMaxBytes = 1e18;
constexpr std::string_view kPrefixes = "kmgt";  // each is a thousand times the one before

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = Lower(c);
  return lower;
}

double Power(double base, std::size_t exponent) {
  double power = 1;
  for (std::size_t i = 0; i < exponent; ++i) power *= base;
  return power;
}

// Bytes of "GiB", "gi", "GB", "b" and "".
std::optional<double> BytesOf(std::string_view unit) {
  const std::string lower = Lower(unit);
  if (lower.empty() || lower == "b") return 1;
  const std::size_t prefix = kPrefixes.find(lower.front());
  if (prefix == std::string_view::npos) return std::nullopt;
  const std::string_view rest = std::string_view(lower).substr(1);
  if (rest == "ib" || rest == "i") return Power(1024, prefix + 1);
  return rest == "b" ? std::optional(Power(1000, prefix + 1)) : std::nullopt;
}

bool CouldBeEither(std::string_view unit) { return unit.size() == 1 && kPrefixes.find(Lower(unit[0])) != unit.npos; }

}  // namespace

Result<std::uint64_t> ParseByteSize(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  unit.remove_prefix(std::min(unit.find_first_not_of(' '), unit.size()));
  if (error == std::errc() && CouldBeEither(unit)) {
    const std::string amount(text.data(), end);
    return InvalidArgument("", "'{}' could be {}{}B (powers of 1000) or {}{}iB (powers of 1024): write one of them",
                           text, amount, unit, amount, unit);
  }
  const std::optional<double> bytes_of_unit = BytesOf(unit);
  if (error != std::errc() || !bytes_of_unit || !(number >= 0)) {
    return InvalidArgument("", "'{}' is not a size: write bytes, or a number with a unit such as 512MiB, 8GiB or 2GB",
                           text);
  }
  const double bytes = number * *bytes_of_unit;
  if (!(bytes <= kMaxBytes)) return InvalidArgument("", "'{}' is more than {:g} bytes", text, kMaxBytes);
  return static_cast<std::uint64_t>(bytes);
}

std::string ByteSizeText(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 5> kUnits{"bytes", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  double amount = static_cast<double>(bytes);
  while (amount >= 1024 && unit + 1 < kUnits.size()) {
    amount /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", amount >= 1000 ? fmt::format("{:.0f}", amount) : fmt::format("{:.3g}", amount),
                     kUnits[unit]);
}

}  // namespace roost
