// Workers and fleets for tests of decisions.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/rng.h"
#include "router/policies/policies.h"
#include "router/route/policy.h"

namespace roost::router {

// An idle worker with space for everything that computes 2,000 prompt tokens per second.
inline WorkerView Idle(std::uint32_t slot) {
  WorkerView worker;
  worker.slot = WorkerSlot(slot);
  worker.prefill_tokens_per_second = 2000;
  worker.decode_step_seconds = 0.02;
  return worker;
}

inline FleetView FleetOf(const std::vector<WorkerView>& workers) {
  FleetView fleet;
  for (const WorkerView& worker : workers) fleet.Set(worker);
  return fleet;
}

inline WorkerMatch Holds(std::uint32_t slot, std::uint32_t block_count) { return {WorkerSlot(slot), block_count}; }

inline std::unique_ptr<Policy> Make(std::string_view name, std::uint64_t seed = 1) {
  return std::move(MakePolicy(name, seed)).value();
}

// The blocks of a chain that differs for each seed.
inline std::vector<BlockHash> Chain(std::uint64_t seed, std::size_t count) {
  Rng rng(seed);
  std::vector<BlockHash> chain;
  for (std::size_t i = 0; i < count; ++i) chain.push_back({rng(), rng()});
  return chain;
}

// The features that requests may need.
inline constexpr std::array kNeeds{wire::Feature::kFullSampling, wire::Feature::kLogprobs,
                                   wire::Feature::kMinOutputTokens, wire::Feature::kConstrainsOutput};

// A possible situation: some workers, some of which hold something, are full, slow or of unknown speed.
struct Situation {
  FleetView fleet;
  std::vector<WorkerMatch> matches;
  std::vector<BlockHash> block_hashes;
  std::uint32_t prompt_token_count = 0;
  std::uint32_t sample_count = 1;
  wire::Features needs;
  std::string adapter;
  std::uint64_t session_hash = 0;
  std::uint32_t waiting_bound = kNoBound;

  [[nodiscard]] RouteQuery query() const {
    return {.prompt_token_count = prompt_token_count,
            .sample_count = sample_count,
            .needs = needs,
            .adapter = adapter,
            .matches = matches,
            .block_hashes = block_hashes,
            .session_hash = session_hash,
            .waiting_bound = waiting_bound};
  }
  // In the order of slots.
  [[nodiscard]] std::vector<WorkerView> Eligible() const {
    std::vector<WorkerView> eligible;
    for (const WorkerView& worker : fleet.workers()) {
      const bool lacks_one = std::any_of(kNeeds.begin(), kNeeds.end(), [&](wire::Feature feature) {
        return needs.contains(feature) && !worker.features.contains(feature);
      });
      const bool knows = worker.max_sample_count >= sample_count && !lacks_one &&
                         (adapter.empty() || (worker.adapters != nullptr && worker.adapters->count(adapter) == 1));
      if (worker.waiting_requests < waiting_bound && knows) eligible.push_back(worker);
    }
    std::sort(eligible.begin(), eligible.end(),
              [](const WorkerView& a, const WorkerView& b) { return a.slot < b.slot; });
    return eligible;
  }
  [[nodiscard]] std::uint32_t BlocksOn(WorkerSlot slot) const {
    for (const WorkerMatch& match : matches) {
      if (match.worker == slot) return match.block_count;
    }
    return 0;
  }
  // The last token of a prompt is always computed, and only full blocks are shared.
  [[nodiscard]] std::uint32_t CachedOn(WorkerSlot slot) const {
    return std::min(BlocksOn(slot), (prompt_token_count - 1) / 16) * 16;
  }
};

inline WorkerView RandomWorker(WorkerSlot slot, Rng& rng) {
  WorkerView worker = Idle(slot.value());
  const auto below = [&](std::uint32_t bound) { return static_cast<std::uint32_t>(rng.Below(bound)); };
  worker.epoch = 1;
  worker.queued_prefill_tokens = below(2) * rng.Below(100'000);
  worker.waiting_requests = below(10);
  worker.running_requests = below(40);
  worker.running_context_tokens = worker.running_requests * rng.Below(1000);
  worker.in_flight_requests = below(80);
  worker.max_batch_tokens = 512 + below(2) * 1024;
  worker.max_sample_count = 1 + below(4);
  for (const wire::Feature feature : kNeeds) {
    if (below(4) > 0) worker.features.insert(feature);
  }
  static const AdapterNames kPoetAndClerk{"clerk", "poet"};
  static const AdapterNames kClerk{"clerk"};
  worker.adapters = below(2) == 0 ? &kPoetAndClerk : below(2) == 0 ? &kClerk : nullptr;
  worker.last_sent = rng.Below(1000);
  worker.busy_share = rng.Uniform();
  worker.prefill_tokens_per_second = below(3) == 0 ? 0 : 1 + 10'000 * rng.Uniform();
  worker.decode_step_seconds = below(3) == 0 ? 0 : 0.001 + 0.1 * rng.Uniform();
  return worker;
}

inline Situation RandomSituation(Rng& rng) {
  Situation situation;
  for (std::uint64_t left = 1 + rng.Below(12); left > 0; --left) {
    situation.fleet.Set(RandomWorker(WorkerSlot(static_cast<std::uint32_t>(rng.Below(40))), rng));
  }
  situation.prompt_token_count = 1 + static_cast<std::uint32_t>(rng.Below(3000));
  situation.block_hashes = Chain(rng.Below(8), situation.prompt_token_count / 16);
  for (std::uint32_t slot = 0; slot < 40; ++slot) {  // also for workers that are gone
    const auto blocks = static_cast<std::uint32_t>(rng.Below(situation.block_hashes.size() + 1));
    if (blocks > 0 && rng.Below(2) == 0) situation.matches.push_back(Holds(slot, blocks));
  }
  std::stable_sort(situation.matches.begin(), situation.matches.end(),
                   [](const WorkerMatch& a, const WorkerMatch& b) { return a.block_count > b.block_count; });
  if (rng.Below(4) == 0) situation.waiting_bound = static_cast<std::uint32_t>(1 + rng.Below(10));
  situation.sample_count = rng.Below(4) == 0 ? 2 : 1;
  for (const wire::Feature feature : kNeeds) {
    if (rng.Below(4) == 0) situation.needs.insert(feature);
  }
  if (rng.Below(4) == 0) situation.adapter = "poet";
  situation.session_hash = rng.Below(3);
  return situation;
}

}  // namespace roost::router
