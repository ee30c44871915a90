#include "router/policies/policies.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "router/policies/baselines.h"
#include "router/route/cache_aware.h"

namespace roost::router {

namespace {

struct Entry {
  std::string_view name;
  std::unique_ptr<Policy> (*make)(std::uint64_t seed);
};

constexpr std::array kPolicies{
    Entry{"cache-aware", &MakeCacheAware},
    Entry{"round-robin", [](std::uint64_t) { return MakeRoundRobin(); }},
    Entry{"random", &MakeRandom},
    Entry{"least-requests", &MakeLeastRequests},
    Entry{"least-tokens", &MakeLeastTokens},
    Entry{"power-of-two", &MakePowerOfTwo},
    Entry{"consistent-hash", &MakeConsistentHash},
    Entry{"session", &MakeSession},
    Entry{"sglang", &MakeSglang},
    Entry{"dynamo", &MakeDynamo},
    Entry{"dynamo-credit", &MakeDynamoCredit},
    Entry{"llm-d", &MakeLlmD},
    Entry{"lmetric", &MakeLmetric},
};

constexpr auto kNames = [] {
  std::array<std::string_view, kPolicies.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kPolicies[i].name;
  return names;
}();

}  // namespace

std::span<const std::string_view> PolicyNames() { return kNames; }

Result<std::unique_ptr<Policy>> MakePolicy(std::string_view name, std::uint64_t seed) {
  const auto found =
      std::find_if(kPolicies.begin(), kPolicies.end(), [name](const Entry& entry) { return entry.name == name; });
  if (found != kPolicies.end()) return found->make(seed);
  return InvalidArgument("policy", "there is no policy '{}'; the policies are {}", name, fmt::join(kNames, ", "));
}

}  // namespace roost::router
