// The value of a tenant's share of the pool. Four tenants replay their parts of a trace; then a fifth one, which until
// then sent as much as each of them, sends a hundred times as much, all of it new.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <vector>

#include "deploy/roostctl/workload/generators.h"
#include "deploy/roostctl/workload/replay.h"
#include "deploy/roostctl/workload/source.h"
#include "tests/support/night.h"
#include "tests/support/shared_data.h"
#include "worker/cache/eviction/eviction_factory.h"

namespace roost::workload {
namespace {

constexpr std::uint32_t kTenantCount = 5;
constexpr std::uint32_t kGreedy = kTenantCount;
constexpr std::uint32_t kGreedyFactor = 100;
constexpr double kAllowedFall = 0.1;  // part of a tenant's hit rate

// Tenants share no content, as their scopes differ.
void AddTenant(std::uint32_t tenant, const Trace& trace, Trace& all) {
  all.block_tokens = trace.block_tokens;
  for (TraceRequest request : trace.requests) {
    request.tenant = tenant;
    for (ContentId& id : request.blocks) id = id * (kTenantCount + 1) + tenant;
    all.requests.push_back(std::move(request));
  }
}

// New prompts all the time, on average as long as the others', `factor` times as many as one other tenant sends.
Trace GreedyTrace(const Trace& others, std::uint32_t factor) {
  const auto count = static_cast<std::uint32_t>(others.requests.size());
  const double seconds = others.requests.back().arrival_seconds;
  const std::uint32_t request_count = count / (kTenantCount - 1) * factor;
  std::uint64_t input = 0;
  std::uint64_t output = 0;
  for (const TraceRequest& request : others.requests) {
    input += request.input_token_count;
    output += request.output_token_count;
  }
  return NoReuse({.block_tokens = others.block_tokens,
                  .request_count = request_count,
                  .mean_input_token_count = static_cast<std::uint32_t>(input / count),
                  .mean_output_token_count = static_cast<std::uint32_t>(output / count),
                  .requests_per_second = request_count / seconds,
                  .seed = 7});
}

Trace WithGreedy(Trace others, std::uint32_t factor) {
  SortByArrival(others);
  Trace all = others;
  AddTenant(kGreedy, GreedyTrace(others, factor), all);
  SortByArrival(all);
  return all;
}

// The largest part of its hit rate that a tenant other than the greedy one loses to it.
double WorstFall(const Trace& others, std::uint32_t block_count, std::string_view policy,
                 const std::vector<double>& shares) {
  const auto replay = [&](std::uint32_t factor) {
    return Replay(WithGreedy(others, factor), block_count,
                  worker::MakeEvictionPolicy(policy, block_count, shares).value(), shares);
  };
  const ReplayResult before = replay(1);
  const ReplayResult after = replay(kGreedyFactor);
  double worst = 0;
  for (std::uint32_t tenant = 1; tenant < kGreedy; ++tenant) {
    worst = std::max(worst, 1 - after.tenants[tenant].hit_ratio() / before.tenants[tenant].hit_ratio());
  }
  return worst;
}

Trace ChatTenants(std::uint32_t sessions_each) {
  Trace all;
  for (std::uint32_t tenant = 1; tenant < kGreedy; ++tenant) {
    MultiTurnChatOptions options;
    options.session_count = sessions_each;
    options.seed = tenant;
    AddTenant(tenant, MultiTurnChat(options), all);
  }
  return all;
}

std::filesystem::path AgentSessionsPath() { return testing_support::SharedDir() / "traces/weka_sessions_q0.jsonl"; }

Result<Trace> AgentTenants() {
  ROOST_ASSIGN_OR_RETURN(const auto sessions, LoadAgentSessions(AgentSessionsPath()));
  Trace all;
  constexpr std::uint32_t kSessionsEach = 3;
  for (std::uint32_t tenant = 1; tenant < kGreedy; ++tenant) {
    const auto first = sessions.begin() + (tenant - 1) * kSessionsEach;
    AddTenant(tenant, ComposeAgentTrace({first, first + kSessionsEach}, {.seed = tenant}), all);
  }
  return all;
}

void ExpectSharesToProtect(const Trace& others, std::uint32_t kilotokens, std::string_view policy) {
  SCOPED_TRACE(testing::Message() << policy << " with " << kilotokens << "k tokens");
  const std::uint32_t block_count = kilotokens * 1000 / others.block_tokens;
  const std::vector<double> equal_shares(kTenantCount, 1.0 / kTenantCount);
  EXPECT_LE(WorstFall(others, block_count, policy, equal_shares), kAllowedFall);
  EXPECT_GT(WorstFall(others, block_count, policy, {}), 3 * kAllowedFall) << "there is nothing to protect from";
}

TEST(TenantTraceTest, SharesKeepChatsCachedBesideAGreedyTenant) {
  ExpectSharesToProtect(ChatTenants(40), 120, worker::kDefaultEvictionPolicy);
  if (!testing_support::IsNight()) return;
  ExpectSharesToProtect(ChatTenants(150), 100, worker::kDefaultEvictionPolicy);  // far from enough
}

TEST(TenantTraceTest, SharesKeepRecordedAgentsCachedBesideAGreedyTenant) {
  ROOST_SKIP_WITHOUT(AgentSessionsPath());
  const auto agents = AgentTenants();
  ASSERT_TRUE(agents.ok()) << agents.error().ToString();
  ExpectSharesToProtect(*agents, 1000, worker::kDefaultEvictionPolicy);
  if (testing_support::IsNight()) ExpectSharesToProtect(*agents, 1000, "lru");
}

}  // namespace
}  // namespace roost::workload
