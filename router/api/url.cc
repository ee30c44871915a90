#include "router/api/url.h"

#include <algorithm>
#include <optional>

namespace roost::router {
namespace {

std::optional<unsigned> HexDigit(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A' + 10);
  return std::nullopt;
}

}  // namespace

std::string PercentDecode(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto high = text[i] == '%' && i + 2 < text.size() ? HexDigit(text[i + 1]) : std::nullopt;
    const auto low = high ? HexDigit(text[i + 2]) : std::nullopt;
    if (!low) {
      out += text[i];
      continue;
    }
    out += static_cast<char>(*high * 16 + *low);
    i += 2;
  }
  return out;
}

std::vector<QueryParameter> ParseQuery(std::string_view query) {
  std::vector<QueryParameter> parameters;
  while (!query.empty()) {
    const std::string_view part = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(part.size() + 1, query.size()));
    if (part.empty()) continue;
    const std::size_t equals = std::min(part.find('='), part.size());
    parameters.push_back(
        {PercentDecode(part.substr(0, equals)), PercentDecode(part.substr(std::min(equals + 1, part.size())))});
  }
  return parameters;
}

}  // namespace roost::router
