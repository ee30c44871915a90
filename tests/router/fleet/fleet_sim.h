// A fleet core, its workers and its clients on one virtual clock. Messages move when the test says so. Links keep their
// order, as ZeroMQ does, unless a test tampers with a worker's outbox.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "router/fleet/core/fleet_core.h"
#include "tests/router/fleet/fake_worker.h"

namespace roost::router {

// Records what a client sees, and checks the contract: nothing comes after the end.
class RecordingObserver final : public GenerationObserver {
 public:
  void OnDispatched(const Dispatched& dispatched) override;
  void OnPromptLogprobs(std::vector<wire::TokenLogprobs> logprobs) override;
  void OnTokens(ChoiceTokens new_tokens) override;
  void OnChoiceEnd(ChoiceEnd choice_end) override;
  void OnEnd(GenerationEnd end) override;

  std::vector<std::string> workers;  // in order of dispatch
  std::vector<Decision> decisions;
  std::map<std::uint32_t, std::vector<TokenId>> choices;
  std::vector<TokenId>& tokens = choices[0];
  std::map<std::uint32_t, std::vector<wire::TokenLogprobs>> logprobs;  // of each choice
  std::optional<std::vector<wire::TokenLogprobs>> prompt_logprobs;
  std::map<std::uint32_t, std::optional<TokenId>> stop_tokens;  // of choices that ended before the last one
  std::map<std::uint32_t, wire::FinishReason> choice_ends;      // of all but the last
  std::optional<std::uint32_t> cached_token_count;
  std::optional<GenerationEnd> end;
};

struct CountingMetrics final : FleetMetrics {
  void OnDecision(std::string_view, DecisionReason) override { ++decisions; }
  void OnFirstToken(const std::string&, const CacheOutcome& outcome) override { outcomes.push_back(outcome); }
  void OnRetry(const std::string&, RetryReason reason) override { ++retries[std::string(NameOf(reason))]; }
  void OnWorkerLost(const std::string&, LostReason reason) override { ++lost[std::string(NameOf(reason))]; }
  void OnResync(ResyncReason reason) override { ++resyncs[std::string(NameOf(reason))]; }

  void OnModeChange(WorkerMode to, ModeReason reason) override {
    mode_changes.push_back(std::string(NameOf(to)) + " " + std::string(NameOf(reason)));
  }
  void OnSent(const std::string&, const std::string& worker_id) override { series.insert(worker_id); }
  void SetInFlight(const std::string&, const std::string& worker_id, std::uint32_t) override {
    series.insert(worker_id);
  }
  void SetMode(const std::string&, const std::string& worker_id, WorkerMode) override { series.insert(worker_id); }
  void SetWorkers(const std::string& model, const WorkerCounts& counts) override { models[model] = counts; }
  void ForgetModel(const std::string& model) override { models.erase(model); }
  void ForgetWorker(const std::string&, const std::string& worker_id) override { series.erase(worker_id); }
  void OnCacheOff(const std::string&) override { ++cache_off; }
  void OnCopied(const std::string&, std::uint32_t tokens) override { copied_tokens += tokens; }
  void OnPull(const std::string&, PullOutcome outcome, std::uint64_t tokens) override {
    ++pulls[std::string(NameOf(outcome))];
    pulled_tokens += tokens;
  }

  void OnHandover(const std::string&, HandoverKind kind, HandoverEnd end) override {
    ++handovers[std::string(NameOf(kind)) + " " + std::string(NameOf(end))];
  }
  void SetCacheValue(const std::string&, const std::string& worker_id, double seconds) override {
    cache_values[worker_id] = seconds;
  }

  void OnDecisionAudit(const std::string&, const Decision& decision, const DecisionAudit& audit) override {
    matched_tokens += decision.matched_tokens;
    audits.push_back(audit);
  }
  void OnTtft(const std::string&, const TimeOutcome& outcome) override { ttfts.push_back(outcome); }
  void OnPullSeconds(const std::string&, const TimeOutcome& outcome) override { pull_seconds.push_back(outcome); }
  void OnItl(const std::string&, const TimeOutcome& outcome) override { itls.push_back(outcome); }

  int decisions = 0;
  std::uint64_t matched_tokens = 0;
  std::vector<DecisionAudit> audits;
  std::vector<TimeOutcome> ttfts;
  std::vector<TimeOutcome> itls;
  std::vector<TimeOutcome> pull_seconds;
  int cache_off = 0;
  std::uint64_t copied_tokens = 0;
  std::map<std::string, int> pulls;  // by outcome
  std::uint64_t pulled_tokens = 0;
  std::map<std::string, int> handovers;        // by kind and end
  std::map<std::string, double> cache_values;  // by worker
  std::vector<CacheOutcome> outcomes;
  void OnQueueRefused(const std::string&, QueueRefusal refusal) override {
    ++queue_refusals[std::string(NameOf(refusal))];
  }

  std::map<std::string, WorkerCounts> models;
  std::set<std::string> series;  // workers with a series in the metrics
  std::map<std::string, int> queue_refusals;
  std::vector<std::string> mode_changes;
  std::map<std::string, int> retries;
  std::map<std::string, int> lost;
  std::map<std::string, int> resyncs;
};

class FleetSim {
 public:
  explicit FleetSim(std::uint64_t seed = 1, std::string_view policy = "cache-aware", FleetCoreOptions options = {});

  // A worker that has not sent anything yet. It lives as long as the simulation.
  FakeWorker& AddWorker(const std::string& id);
  // The same, welcomed, ready and in sync.
  FakeWorker& JoinWorker(const std::string& id);

  struct Request {
    std::vector<TokenId> prompt;
    std::uint32_t max_output_tokens = 0;
    std::uint32_t sample_count = 1;
    std::uint32_t min_output_tokens = 0;
    std::optional<std::uint32_t> output_logprobs;
    std::optional<std::uint32_t> prompt_logprobs;
    std::shared_ptr<RecordingObserver> observer = std::make_shared<RecordingObserver>();
    std::optional<RequestId> id;  // when it was accepted
    std::optional<Error> refusal;
  };
  Request Submit(std::vector<TokenId> prompt, std::uint32_t max_output_tokens);
  // The same with every field of `wishes` that is not 0 or empty. Without a model, for "demo".
  Request Submit(std::vector<TokenId> prompt, std::uint32_t max_output_tokens, GenerateSpec wishes);

  // Delivers one message from the worker's outbox to the core.
  void DeliverOne(FakeWorker& worker);
  // Delivers until every outbox is empty and no effect is left.
  void DeliverAll();
  // Carries out the core's effects. Messages to a worker that is cut off vanish.
  void CarryOutEffects();

  // Steps all workers and delivers, until no request or copy is left or `rounds` have passed; each round takes 50 ms.
  void Run(int rounds = 200);
  // Moves time in steps of 100 ms, with a tick and a heartbeat of each worker in each.
  void Advance(Duration by);
  void Tick() { core.Tick(clock.Now()); }
  // Ends all faults: workers that were cut off come back, and running requests end.
  void Recover();

  // The worker dies silently: nothing reaches it, and nothing comes from it.
  void Kill(FakeWorker& worker);
  // The worker comes back under its old name, empty.
  void Revive(FakeWorker& worker);
  [[nodiscard]] bool IsCutOff(const FakeWorker& worker) const { return cut_off_.contains(worker.id()); }

  // The index's match for a chain; nothing while no worker serves the model.
  [[nodiscard]] std::vector<WorkerMatch> Match(std::span<const BlockHash> chain) const;
  [[nodiscard]] std::optional<WorkerStatus> StatusOf(const std::string& worker_id);
  // True if the core's view of this worker equals what it holds.
  [[nodiscard]] bool ViewIsExact(const FakeWorker& worker);

  ManualClock clock;
  CountingMetrics metrics;
  std::unique_ptr<Policy> policy;
  FleetCore core;
  std::map<std::string, std::unique_ptr<FakeWorker>> workers;
  // The result of reading a bundle.
  std::optional<BundleError> bundle_error;

 private:
  void CarryOut(Effect& effect);

  std::map<std::string, bool> cut_off_;
};

// The blocks of a prompt in the scope that FleetSim's requests use.
[[nodiscard]] std::vector<BlockHash> BlocksOf(const std::vector<TokenId>& prompt);
// `count` tokens that differ for each seed.
[[nodiscard]] std::vector<TokenId> MakePrompt(TokenId seed, std::size_t count);

}  // namespace roost::router
