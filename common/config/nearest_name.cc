#include "common/config/nearest_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <vector>

namespace roost {
namespace {

// Longer ones are no names, and the search takes quadratic time.
constexpr std::size_t kMaxLetters = 64;
constexpr std::size_t kMinPrefix = 4;

std::string Plain(std::string_view name) {
  std::string plain(name);
  for (char& c : plain) c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return plain;
}

// Letters to insert, remove, replace, or swap with their neighbour (optimal string alignment).
std::size_t Distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> least(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) least[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) least[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = least[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      least[i][j] = std::min({replaced, least[i - 1][j] + 1, least[i][j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) least[i][j] = std::min(least[i][j], least[i - 2][j - 2] + 1);
    }
  }
  return least[a.size()][b.size()];
}

}  // namespace

std::optional<std::string> NearestName(std::string_view written, std::span<const std::string> names) {
  const std::string plain = Plain(written);
  if (plain.empty() || plain.size() > kMaxLetters) return std::nullopt;
  std::optional<std::string> nearest;
  std::size_t least = std::max<std::size_t>(1, plain.size() / 3) + 1;
  for (const std::string& name : names) {
    const bool begins = plain.size() >= kMinPrefix && name.starts_with(plain);
    const std::size_t distance = begins ? 1 : Distance(plain, name);
    if (distance >= least || distance >= plain.size()) continue;  // not a letter in common
    least = distance;
    nearest = name;
  }
  return nearest;
}

std::string DidYouMean(std::string_view written, std::span<const std::string> names, std::string_view prefix) {
  const std::optional<std::string> nearest = NearestName(written, names);
  return nearest ? fmt::format("; did you mean {}{}?", prefix, *nearest) : std::string();
}

}  // namespace roost
