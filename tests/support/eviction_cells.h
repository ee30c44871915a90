// The traces and pool sizes on which tests and the benchmark compare eviction policies.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "deploy/roostctl/simulate/cost_profiles.h"
#include "deploy/roostctl/workload/generators.h"
#include "deploy/roostctl/workload/source.h"
#include "deploy/roostctl/workload/trace.h"
#include "worker/cache/eviction/eviction.h"

namespace roost::testing_support {

// One trace, to be replayed with pools of these many thousand tokens.
struct EvictionCase {
  std::string name;
  workload::Trace trace;
  std::vector<std::uint32_t> pool_kilotokens;

  [[nodiscard]] std::uint32_t BlockCount(std::uint32_t kilotokens) const {
    return static_cast<std::uint32_t>(std::uint64_t{kilotokens} * 1000 / trace.block_tokens);
  }
  // The cost of the trace's blocks with an 8B model on an H100.
  [[nodiscard]] worker::RecomputeCost Cost() const {
    return {static_cast<float>(simulate::kLlama8bOnH100.DepthGrowth() * trace.block_tokens)};
  }
};

// Generated loads, small enough for every run.
inline std::vector<EvictionCase> GeneratedEvictionCases() {
  std::vector<EvictionCase> cases;
  cases.push_back({"chat", workload::MultiTurnChat({}), {100, 200, 400}});
  cases.push_back({"shared_prefix", workload::SharedPrefix({}), {50, 100, 200}});
  cases.push_back({"tenant_users", workload::TenantUsers({}), {250, 500, 1000}});
  cases.push_back({"no_reuse", workload::NoReuse({}), {100}});
  return cases;
}

// The recorded traces of `folder`, which must exist.
inline Result<std::vector<EvictionCase>> RecordedEvictionCases(const std::filesystem::path& folder) {
  std::vector<EvictionCase> cases;
  ROOST_ASSIGN_OR_RETURN(workload::Trace conversation,
                         workload::LoadMooncakeTrace(folder / "mooncake_conv_first20min.jsonl"));
  cases.push_back({"conversation", std::move(conversation), {1000, 2000, 4000, 8000}});
  ROOST_ASSIGN_OR_RETURN(workload::Trace synthetic,
                         workload::LoadMooncakeTrace(folder / "mooncake_synth_family_q0.jsonl"));
  cases.push_back({"synthetic", std::move(synthetic), {500, 1000, 2000, 4000}});
  ROOST_ASSIGN_OR_RETURN(const auto sessions, workload::LoadAgentSessions(folder / "weka_sessions_q0.jsonl"));
  cases.push_back({"agents_48", workload::ComposeAgentTrace(sessions, {}), {500, 1000, 2000, 4000}});
  workload::AgentTraceOptions all;
  all.session_count = static_cast<std::uint32_t>(sessions.size());
  cases.push_back({"agents_168", workload::ComposeAgentTrace(sessions, all), {2000, 4000, 8000}});
  return cases;
}

}  // namespace roost::testing_support
