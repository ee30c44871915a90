#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "router/index/prefix_index.h"
#include "router/policies/policies.h"
#include "router/route/decision_audit.h"
#include "router/route/policy.h"
#include "router/route/transfers.h"
#include "tests/bench/bench.h"

namespace roost::bench {
namespace {

using router::Decision;
using router::DecisionAuditor;
using router::FleetView;
using router::Policy;
using router::PrefixIndex;
using router::RouteQuery;
using router::WorkerView;

constexpr std::uint32_t kWorkers = 256;
constexpr std::uint32_t kHolders = 64;
constexpr std::size_t kBlocks = 512;
constexpr int kPromptsOnTheirWay = 8;  // per worker
constexpr Instant kStart{std::chrono::hours(1)};
constexpr std::uint32_t kPromptTokens = kBlocks * 16 + 1;

// Prompts, each held by kHolders workers to different depths.
class Cluster {
 public:
  explicit Cluster(std::size_t prompt_count) {
    for (std::uint32_t slot = 0; slot < kWorkers; ++slot) {
      fleet.Set(Loaded(slot));
      for (int i = 0; i < kPromptsOnTheirWay; ++i) {
        queues_[slot].Add(queues_[slot].size(), static_cast<std::uint32_t>(rng_.Below(5'000)), kStart);
      }
    }
    for (std::size_t i = 0; i < prompt_count; ++i) AddPrompt();
  }

  // The effects of a decision: the worker is charged now, and reports later.
  void Charge(const Decision& decision) {
    WorkerView worker = *fleet.Find(decision.slot);
    worker.queued_prefill_tokens = rng_.Below(20'000);
    worker.last_sent = ++sent_count_;
    fleet.Set(worker);
  }

  // All workers fetch from each other, at rates between 1 and 2 GB/s.
  void LetBlocksTravel() {
    for (std::uint32_t slot = 0; slot < kWorkers; ++slot) {
      transfers.Join(WorkerSlot(slot), {.fetches = true, .serves = true, .layout = 1});
    }
    for (std::uint32_t i = 0; i < router::PairRates::kMaxPairs; ++i) {
      const router::WorkerPair pair{.from = WorkerSlot(i % kWorkers),
                                    .to = WorkerSlot((i + 1 + i / kWorkers) % kWorkers)};
      transfers.Send(i, pair, 2, kStart);
      const wire::HoldAnswer answer{.arrived_block_count = 2,
                                    .bytes = 4'000'000,
                                    .first_frame_microseconds = 2000,
                                    .microseconds = 3000 + rng_.Below(1000),
                                    .outcome = wire::HoldOutcome::kComplete};
      transfers.End(i, answer, kStart);
    }
  }

  PrefixIndex index;
  FleetView fleet;
  router::Transfers transfers;
  std::vector<std::vector<BlockHash>> prompts;

 private:
  WorkerView Loaded(std::uint32_t slot) {
    WorkerView worker;
    worker.slot = WorkerSlot(slot);
    worker.running_requests = static_cast<std::uint32_t>(rng_.Below(40));
    worker.queued_prefill_tokens = rng_.Below(20'000);
    worker.prefill_tokens_per_second = 8000 + 4000 * rng_.Uniform();
    worker.decode_step_seconds = 0.02;
    worker.busy_share = 0.6;
    worker.ageing_tokens = 100;
    worker.prompts = &queues_[slot];
    return worker;
  }

  void AddPrompt() {
    std::vector<BlockHash> hashes;
    for (std::size_t i = 0; i < kBlocks; ++i) hashes.push_back({rng_(), rng_()});
    for (std::uint32_t i = 0; i < kHolders; ++i) {
      const WorkerSlot slot(static_cast<std::uint32_t>(rng_.Below(kWorkers)));
      index.Store(slot, 0, std::span(hashes).first(1 + rng_.Below(kBlocks)));
    }
    prompts.push_back(std::move(hashes));
  }

  Rng rng_{1};
  std::uint64_t sent_count_ = 0;
  std::vector<router::PromptQueue> queues_{kWorkers};
};

struct Timings {
  std::vector<double> whole;   // lookup and decision
  std::vector<double> policy;  // the decision alone
};

Timings Measure(Cluster& cluster, Policy& policy, std::size_t rounds, const router::Transfers* transfers = nullptr) {
  const SteadyClock clock;
  Rng rng(2);
  router::MatchBuffer lookup;  // kept between decisions, as in the daemon
  Timings timings;
  Instant now = kStart;
  for (std::size_t i = 0; i < rounds; ++i) {
    const std::vector<BlockHash>& prompt = cluster.prompts[rng.Below(cluster.prompts.size())];
    const Instant start = clock.Now();
    cluster.index.Match(prompt, lookup);
    const std::span<const WorkerMatch> matches = lookup.matches();
    const Instant matched = clock.Now();
    const std::optional<Decision> decision = policy.Choose({.prompt_token_count = kPromptTokens,
                                                            .matches = matches,
                                                            .block_hashes = prompt,
                                                            .transfers = transfers,
                                                            .now = now},
                                                           cluster.fleet);
    now += std::chrono::milliseconds(1);
    const Instant decided = clock.Now();
    ROOST_CHECK(decision.has_value() && !matches.empty());
    timings.whole.push_back(ToSeconds(decided - start));
    timings.policy.push_back(ToSeconds(decided - matched));
    cluster.Charge(*decision);
  }
  return timings;
}

double Quantile(std::vector<double> values, double share) {
  const auto place = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + place, values.end());
  return values[static_cast<std::size_t>(place)];
}

double AuditSeconds(Effort effort, Cluster& cluster, Policy& policy) {
  const std::vector<WorkerMatch> matches = cluster.index.Match(cluster.prompts.front());
  const RouteQuery query{.prompt_token_count = kPromptTokens, .matches = matches};
  const Decision decision = policy.Choose(query, cluster.fleet).value();
  DecisionAuditor auditor;
  constexpr int kTimes = 1000;
  return MedianSeconds(effort,
                       [&] {
                         for (int i = 0; i < kTimes; ++i) (void)auditor.Audit(query, cluster.fleet, decision);
                       }) /
         kTimes;
}

}  // namespace

// A decision of the default policy over 256 workers, of which 64 hold parts of the 512-block prompt: with its lookup in
// the index, without it, and the cost of auditing it; and where each may fetch blocks from each other one.
void BenchDecide(Effort effort) {
  const bool quick = effort == Effort::kQuick;
  Cluster cluster(quick ? 4 : 200);
  const std::unique_ptr<Policy> policy = std::move(router::MakePolicy("cache-aware", 1)).value();
  const Timings timings = Measure(cluster, *policy, quick ? 100 : 100'000);
  Figure("decide_p50_us", Quantile(timings.whole, 0.5) * 1e6, "us");
  Figure("decide_p99_us", Quantile(timings.whole, 0.99) * 1e6, "us");
  Figure("decide_policy_p99_us", Quantile(timings.policy, 0.99) * 1e6, "us");
  cluster.LetBlocksTravel();
  const Timings pulling = Measure(cluster, *policy, quick ? 100 : 100'000, &cluster.transfers);
  Figure("decide_pulls_p50_us", Quantile(pulling.whole, 0.5) * 1e6, "us");
  Figure("decide_pulls_p99_us", Quantile(pulling.whole, 0.99) * 1e6, "us");
  Figure("decide_audit_us", AuditSeconds(effort, cluster, *policy) * 1e6, "us");
}

}  // namespace roost::bench
