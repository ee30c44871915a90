// The policies of other routers, for comparison and as alternatives. Each is in its own file, which names its source
// and its defaults. All of them see the same fleet and the same index as the default policy. If a source counts the
// requests that its router has in flight, the policy uses WorkerView::in_flight_requests.
//
// They look at every worker: O(workers + matches) per decision.
#pragma once

#include <cstdint>
#include <memory>

#include "router/route/policy.h"

namespace roost::router {

[[nodiscard]] std::unique_ptr<Policy> MakeRoundRobin();
[[nodiscard]] std::unique_ptr<Policy> MakeRandom(std::uint64_t seed);
[[nodiscard]] std::unique_ptr<Policy> MakeLeastRequests(std::uint64_t seed);
[[nodiscard]] std::unique_ptr<Policy> MakeLeastTokens(std::uint64_t seed);
[[nodiscard]] std::unique_ptr<Policy> MakePowerOfTwo(std::uint64_t seed);
[[nodiscard]] std::unique_ptr<Policy> MakeConsistentHash(std::uint64_t seed);
[[nodiscard]] std::unique_ptr<Policy> MakeSession(std::uint64_t seed);
[[nodiscard]] std::unique_ptr<Policy> MakeSglang(std::uint64_t seed);
[[nodiscard]] std::unique_ptr<Policy> MakeDynamo(std::uint64_t seed);
[[nodiscard]] std::unique_ptr<Policy> MakeDynamoCredit(std::uint64_t seed);
[[nodiscard]] std::unique_ptr<Policy> MakeLlmD(std::uint64_t seed);
[[nodiscard]] std::unique_ptr<Policy> MakeLmetric(std::uint64_t seed);

}  // namespace roost::router
