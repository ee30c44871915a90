#include "deploy/roostctl/simulate/cost_profiles.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

namespace roost::simulate {
namespace {

struct Term {
  std::string_view name;
  double ServiceModel::*member;
  double unit;
  double least;
  double most;
};
constexpr double kMost = 1e9;
constexpr Term kTerms[] = {
    {"step-base-ms", &ServiceModel::step_base_seconds, 1e-3, 0, kMost},
    {"prefill-base-ms", &ServiceModel::prefill_base_seconds, 1e-3, 0, kMost},
    {"prefill-rate", &ServiceModel::prefill_tokens_per_second, 1, 1, kMost},
    {"attention-ns", &ServiceModel::attention_seconds, 1e-9, 0, kMost},
    {"decode-base-ms", &ServiceModel::decode_base_seconds, 1e-3, 0, kMost},
    {"decode-us-per-request", &ServiceModel::decode_seconds_per_request, 1e-6, 0, kMost},
    {"decode-ns-per-context-token", &ServiceModel::decode_seconds_per_context_token, 1e-9, 0, kMost},
};

Result<void> Change(ServiceModel& service, std::string_view text) {
  const std::size_t equals = text.find('=');
  const std::string_view name = text.substr(0, equals);
  const auto* const term =
      std::find_if(std::begin(kTerms), std::end(kTerms), [&](const Term& known) { return known.name == name; });
  if (equals == std::string_view::npos || term == std::end(kTerms)) {
    return InvalidArgument("costs", "'{}' is not TERM=NUMBER of one of the terms {}", text, CostTermNames());
  }
  const std::string_view number = text.substr(equals + 1);
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  const bool is_number = error == std::errc() && end == number.data() + number.size() && std::isfinite(value);
  if (!is_number || value < term->least || value > term->most) {
    return InvalidArgument("costs", "{} must be a number of at least {} and at most {}, not '{}'", name, term->least,
                           term->most, number);
  }
  service.*(term->member) = value * term->unit;
  return {};
}

}  // namespace

std::vector<std::string_view> CostProfileNames() {
  std::vector<std::string_view> names;
  names.reserve(kCostProfiles.size());
  for (const CostProfile& known : kCostProfiles) names.push_back(known.name);
  return names;
}

Result<ServiceModel> ParseCosts(std::span<const std::string> costs) {
  if (costs.empty()) return InvalidArgument("costs", "the name of a profile is needed");
  const auto profile = std::find_if(kCostProfiles.begin(), kCostProfiles.end(),
                                    [&](const CostProfile& known) { return known.name == costs.front(); });
  if (profile == kCostProfiles.end()) {
    return InvalidArgument("costs", "there is no profile '{}'; the profiles are {}", costs.front(),
                           fmt::join(CostProfileNames(), ", "));
  }
  ServiceModel service = profile->service;
  for (const std::string& text : costs.subspan(1)) ROOST_RETURN_IF_ERROR(Change(service, text));
  return service;
}

std::string CostTermNames() {
  std::vector<std::string_view> names;
  for (const Term& term : kTerms) names.push_back(term.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace roost::simulate
