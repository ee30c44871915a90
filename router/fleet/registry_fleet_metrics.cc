#include "router/fleet/registry_fleet_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>

#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "common/metrics/registry.h"
#include "router/route/apart.h"

namespace roost::router {

namespace {

using metrics::Metric;

constexpr std::array kModes{WorkerMode::kExact, WorkerMode::kPredicted, WorkerMode::kBlind};

// A worker may also find part of a block cached. Reports count only full blocks, so less than a block more is no error.
std::uint32_t PredictionError(const CacheOutcome& outcome) {
  const std::uint32_t predicted = outcome.predicted_cached_tokens;
  const std::uint32_t actual = outcome.actual_cached_tokens;
  if (actual < predicted) return predicted - actual;
  return actual - predicted < outcome.block_tokens ? 0 : actual - predicted;
}

// The names of an enumeration's values. NameOf says "unknown" behind the last one.
template <typename Enum>
std::vector<std::string> NamesOf() {
  std::vector<std::string> names;
  for (std::uint8_t value = 0;; ++value) {
    const std::string_view name = NameOf(static_cast<Enum>(value));
    if (name == "unknown") return names;
    names.emplace_back(name);
  }
}

// The fleet's metrics with the label `model` alone, and with `choice` too.
constexpr std::array kCountersOfModel{&metrics::kRouterPromptTokens,
                                      &metrics::kRouterCachedTokens,
                                      &metrics::kRouterPredictedCachedTokens,
                                      &metrics::kRouterPredictionErrorTokens,
                                      &metrics::kRouterCacheOff,
                                      &metrics::kRouterCopiedTokens,
                                      &metrics::kRouterPulledTokens,
                                      &metrics::kRouterRegretTokens,
                                      &metrics::kRouterRegretSeconds,
                                      &metrics::kRouterRegretWhole};
constexpr std::array kCountersOfChoice{&metrics::kRouterRoutedMatchedTokens, &metrics::kRouterRoutedTtft,
                                       &metrics::kRouterRoutedWhole};
constexpr std::array kHistogramsOfModel{&metrics::kRouterPredictedTtft, &metrics::kRouterDispatchTtft,
                                        &metrics::kRouterTtftError,     &metrics::kRouterPredictedItl,
                                        &metrics::kRouterMeanItl,       &metrics::kRouterItlError,
                                        &metrics::kRouterPullError,     &metrics::kRouterQueueWait};

class RegistryFleetMetrics final : public FleetMetrics {
 public:
  RegistryFleetMetrics(metrics::Registry& registry, std::string_view policy)
      : registry_(registry),
        decision_seconds_(registry.Histogram(metrics::kRouterDecisionSeconds)),
        malformed_(registry.Counter(metrics::kRouterMalformedMessages)),
        unknown_(registry.Counter(metrics::kRouterUnknownMessages)),
        refused_peers_{registry.Counter(metrics::kRouterLinkRefusedPeers, {"mechanism"}),
                       registry.Counter(metrics::kRouterLinkRefusedPeers, {"handshake"}),
                       registry.Counter(metrics::kRouterLinkRefusedPeers, {"unknown_key"}),
                       registry.Counter(metrics::kRouterLinkRefusedPeers, {"name"})},
        stored_(registry.Counter(metrics::kRouterIndexEvents, {"stored"})),
        removed_(registry.Counter(metrics::kRouterIndexEvents, {"removed"})),
        index_blocks_(registry.Gauge(metrics::kRouterIndexBlocks)),
        index_bytes_(registry.Gauge(metrics::kRouterIndexBytes)),
        shed_blocks_(registry.Counter(metrics::kRouterIndexShedBlocks)) {
    for (auto& reason : NamesOf<DecisionReason>()) Counter(metrics::kRouterDecisions, {std::string(policy), reason});
    for (auto& reason : NamesOf<ResyncReason>()) Counter(metrics::kRouterIndexResyncs, {reason});
    for (auto& mode : NamesOf<WorkerMode>()) {
      for (auto& reason : NamesOf<ModeReason>()) Counter(metrics::kRouterWorkerModeChanges, {mode, reason});
    }
  }

  void OnDecision(std::string_view policy, DecisionReason reason) override {
    Counter(metrics::kRouterDecisions, {std::string(policy), std::string(NameOf(reason))}).Increment();
  }
  void OnDecisionAudit(const std::string& model, const Decision& decision, const DecisionAudit& audit) override {
    Counter(metrics::kRouterRoutedMatchedTokens, {model, "chosen"}).Increment(decision.matched_tokens);
    Counter(metrics::kRouterRoutedMatchedTokens, {model, "round_robin"}).Increment(audit.rotation_matched_tokens);
    Counter(metrics::kRouterRegretTokens, {model}).Increment(audit.regret_tokens);
    // Values that are not times must not be added to the sums of seconds.
    const double scale = decision.in_seconds ? 1 : 0;
    Counter(metrics::kRouterRoutedTtft, {model, "chosen"}).Increment(scale * decision.predicted_ttft_seconds);
    Counter(metrics::kRouterRoutedTtft, {model, "round_robin"}).Increment(scale * audit.rotation_ttft_seconds);
    Counter(metrics::kRouterRegretSeconds, {model}).Increment(scale * audit.regret_seconds);
    Counter(metrics::kRouterRoutedWhole, {model, "chosen"}).Increment(scale * decision.predicted_whole_seconds);
    Counter(metrics::kRouterRoutedWhole, {model, "round_robin"}).Increment(scale * audit.rotation_whole_seconds);
    Counter(metrics::kRouterRegretWhole, {model}).Increment(scale * audit.regret_whole_seconds);
    // One that goes on was counted with its prompt.
    if (!decision.together.empty() && decision.together != NameOf(Together::kBegun)) {
      Counter(metrics::kRouterPromptsTogether, {model, std::string(decision.together)}).Increment();
    }
  }
  void OnTtft(const std::string& model, const TimeOutcome& outcome) override {
    Histogram(metrics::kRouterPredictedTtft, model).Observe(outcome.predicted_seconds);
    Histogram(metrics::kRouterDispatchTtft, model).Observe(outcome.actual_seconds);
    Histogram(metrics::kRouterTtftError, model).Observe(std::abs(outcome.predicted_seconds - outcome.actual_seconds));
  }
  void OnItl(const std::string& model, const TimeOutcome& outcome) override {
    Histogram(metrics::kRouterPredictedItl, model).Observe(outcome.predicted_seconds);
    Histogram(metrics::kRouterMeanItl, model).Observe(outcome.actual_seconds);
    Histogram(metrics::kRouterItlError, model).Observe(std::abs(outcome.predicted_seconds - outcome.actual_seconds));
  }
  void OnDecisionSeconds(double seconds) override { decision_seconds_.Observe(seconds); }
  void OnSent(const std::string& model, const std::string& worker_id) override {
    Counter(metrics::kRouterWorkerRequests, {model, worker_id}).Increment();
  }
  void OnFirstToken(const std::string& model, const CacheOutcome& outcome) override {
    const double predicted = outcome.predicted_cached_tokens;
    const double actual = outcome.actual_cached_tokens;
    Counter(metrics::kRouterPromptTokens, {model}).Increment(outcome.prompt_tokens);
    Counter(metrics::kRouterCachedTokens, {model}).Increment(actual);
    Counter(metrics::kRouterPredictedCachedTokens, {model}).Increment(predicted);
    Counter(metrics::kRouterPredictionErrorTokens, {model}).Increment(PredictionError(outcome));
  }
  void OnCopied(const std::string& model, std::uint32_t tokens) override {
    Counter(metrics::kRouterCopiedTokens, {model}).Increment(tokens);
  }
  void OnPull(const std::string& model, PullOutcome outcome, std::uint64_t tokens) override {
    Counter(metrics::kRouterPulls, {model, std::string(NameOf(outcome))}).Increment();
    Counter(metrics::kRouterPulledTokens, {model}).Increment(static_cast<double>(tokens));
  }
  void OnPullSeconds(const std::string& model, const TimeOutcome& outcome) override {
    Histogram(metrics::kRouterPullError, model).Observe(std::abs(outcome.predicted_seconds - outcome.actual_seconds));
  }
  void OnCacheOff(const std::string& model) override { Counter(metrics::kRouterCacheOff, {model}).Increment(); }
  void OnRetry(const std::string& model, RetryReason reason) override {
    Counter(metrics::kRouterRetries, {model, std::string(NameOf(reason))}).Increment();
  }
  void OnQueueWait(const std::string& model, double seconds) override {
    Histogram(metrics::kRouterQueueWait, model).Observe(seconds);
  }
  void OnQueueRefused(const std::string& model, QueueRefusal refusal) override {
    Counter(metrics::kRouterQueueRefused, {model, std::string(NameOf(refusal))}).Increment();
  }
  void SetQueued(const std::string& model, std::uint32_t requests) override {
    Gauge(metrics::kRouterQueued, {model}).Set(requests);
  }
  void OnWorkerLost(const std::string& model, LostReason reason) override {
    Counter(metrics::kRouterWorkersLost, {model, std::string(NameOf(reason))}).Increment();
  }
  void OnHandover(const std::string& model, HandoverKind kind, HandoverEnd end) override {
    Counter(metrics::kRouterHandovers, {model, std::string(NameOf(kind)), std::string(NameOf(end))}).Increment();
  }
  void OnResync(ResyncReason reason) override {
    Counter(metrics::kRouterIndexResyncs, {std::string(NameOf(reason))}).Increment();
  }
  void OnModeChange(WorkerMode to, ModeReason reason) override {
    Counter(metrics::kRouterWorkerModeChanges, {std::string(NameOf(to)), std::string(NameOf(reason))}).Increment();
  }
  void OnIndexEvents(std::uint64_t stored_blocks, std::uint64_t removed_blocks) override {
    stored_.Increment(static_cast<double>(stored_blocks));
    removed_.Increment(static_cast<double>(removed_blocks));
  }
  void OnMalformedMessage() override { malformed_.Increment(); }
  void OnUnknownMessage() override { unknown_.Increment(); }
  void OnPeerRefused(wire::PeerRefusal refusal) override { refused_peers_[IndexOf(refusal)].get().Increment(); }
  void SetWorkers(const std::string& model, const WorkerCounts& counts) override {
    AddModel(model);
    for (const WorkerState state : kWorkerStates) {
      Gauge(metrics::kRouterWorkers, {model, std::string(NameOf(state))}).Set(counts.of(state));
    }
  }
  void ForgetModel(const std::string& model) override {
    for (const WorkerState state : kWorkerStates) {
      Remove(gauges_, metrics::kRouterWorkers, {model, std::string(NameOf(state))});
    }
  }
  void SetIndex(const IndexUse& use) override {
    index_blocks_.Set(static_cast<double>(use.block_count));
    index_bytes_.Set(static_cast<double>(use.memory_bytes));
    shed_blocks_.Increment(
        static_cast<double>(use.shed_blocks_total - std::exchange(shed_told_, use.shed_blocks_total)));
  }
  void SetInFlight(const std::string& model, const std::string& worker_id, std::uint32_t requests) override {
    const Metric& metric = metrics::kRouterWorkerInFlight;
    auto [entry, is_new] = gauges_.try_emplace({metric.name, {model, worker_id}}, nullptr);
    if (is_new) {
      entry->second = &registry_.Gauge(metric, {model, worker_id});
      AddWorker(model, worker_id);
    }
    entry->second->Set(requests);
  }
  void SetCacheValue(const std::string& model, const std::string& worker_id, double seconds) override {
    Gauge(metrics::kRouterWorkerCacheValue, {model, worker_id}).Set(seconds);
  }
  void SetMode(const std::string& model, const std::string& worker_id, WorkerMode mode) override {
    for (const WorkerMode other : kModes) {
      Gauge(metrics::kRouterWorkerMode, {model, worker_id, std::string(NameOf(other))}).Set(mode == other ? 1 : 0);
    }
  }
  void ForgetWorker(const std::string& model, const std::string& worker_id) override {
    Remove(counters_, metrics::kRouterWorkerRequests, {model, worker_id});
    Remove(gauges_, metrics::kRouterWorkerInFlight, {model, worker_id});
    Remove(gauges_, metrics::kRouterWorkerCacheValue, {model, worker_id});
    for (const WorkerMode mode : kModes) {
      Remove(gauges_, metrics::kRouterWorkerMode, {model, worker_id, std::string(NameOf(mode))});
    }
  }

 private:
  // Alerts and rates need a zero before the first event.
  void AddWorker(const std::string& model, const std::string& worker_id) {
    Counter(metrics::kRouterWorkerRequests, {model, worker_id});
    AddModel(model);
  }

  void AddModel(const std::string& model) {
    if (!models_.insert(model).second) return;
    for (auto& reason : NamesOf<RetryReason>()) Counter(metrics::kRouterRetries, {model, reason});
    for (auto& reason : NamesOf<LostReason>()) Counter(metrics::kRouterWorkersLost, {model, reason});
    for (auto& reason : NamesOf<QueueRefusal>()) Counter(metrics::kRouterQueueRefused, {model, reason});
    for (auto& reason : NamesOf<Together>()) Counter(metrics::kRouterPromptsTogether, {model, reason});
    for (auto& kind : NamesOf<HandoverKind>()) {
      for (auto& end : NamesOf<HandoverEnd>()) Counter(metrics::kRouterHandovers, {model, kind, end});
    }
    for (const std::string_view outcome : wire::kHoldOutcomeNames) {
      Counter(metrics::kRouterPulls, {model, std::string(outcome)});
    }
    Counter(metrics::kRouterPulls, {model, std::string(kUnanswered)});
    for (const Metric* metric : kCountersOfModel) Counter(*metric, {model});
    for (const Metric* metric : kCountersOfChoice) {
      for (const char* choice : {"chosen", "round_robin"}) Counter(*metric, {model, choice});
    }
    for (const Metric* metric : kHistogramsOfModel) Histogram(*metric, model);
    Gauge(metrics::kRouterQueued, {model});
  }

  // Resolves each combination of labels once.
  prometheus::Counter& Counter(const Metric& metric, std::vector<std::string> values) {
    auto [entry, is_new] = counters_.try_emplace({metric.name, std::move(values)}, nullptr);
    if (is_new) entry->second = &registry_.Counter(metric, entry->first.second);
    return *entry->second;
  }

  prometheus::Gauge& Gauge(const Metric& metric, std::vector<std::string> values) {
    auto [entry, is_new] = gauges_.try_emplace({metric.name, std::move(values)}, nullptr);
    if (is_new) entry->second = &registry_.Gauge(metric, entry->first.second);
    return *entry->second;
  }

  template <typename Series>
  void Remove(Series& series, const Metric& metric, const std::vector<std::string>& values) {
    if (series.erase({metric.name, values}) > 0) registry_.Remove(metric, values);
  }

  prometheus::Histogram& Histogram(const Metric& metric, const std::string& model) {
    auto [entry, is_new] = histograms_.try_emplace({metric.name, model}, nullptr);
    if (is_new) entry->second = &registry_.Histogram(metric, {model});
    return *entry->second;
  }

  metrics::Registry& registry_;
  prometheus::Histogram& decision_seconds_;
  prometheus::Counter& malformed_;
  prometheus::Counter& unknown_;
  std::array<std::reference_wrapper<prometheus::Counter>, wire::kPeerRefusalNames.size()> refused_peers_;
  prometheus::Counter& stored_;
  prometheus::Counter& removed_;
  prometheus::Gauge& index_blocks_;
  prometheus::Gauge& index_bytes_;
  prometheus::Counter& shed_blocks_;
  std::uint64_t shed_told_ = 0;
  std::set<std::string> models_;  // that have series
  std::map<std::pair<std::string_view, std::vector<std::string>>, prometheus::Counter*> counters_;
  std::map<std::pair<std::string_view, std::vector<std::string>>, prometheus::Gauge*> gauges_;
  std::map<std::pair<std::string_view, std::string>, prometheus::Histogram*> histograms_;
};

}  // namespace

std::unique_ptr<FleetMetrics> MakeFleetMetrics(metrics::Registry& registry, std::string_view policy) {
  return std::make_unique<RegistryFleetMetrics>(registry, policy);
}

}  // namespace roost::router
