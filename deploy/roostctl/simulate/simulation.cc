#include "deploy/roostctl/simulate/simulation.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "deploy/roostctl/simulate/arrival_times.h"
#include "deploy/roostctl/simulate/block_disk.h"
#include "deploy/roostctl/simulate/block_links.h"
#include "deploy/roostctl/simulate/sim_router.h"
#include "router/policies/policies.h"

namespace roost::simulate {
namespace {

// Time for the initial workers to become known, in addition to the delay of their messages.
constexpr Duration kSettlingTime = std::chrono::seconds(1);
constexpr std::size_t kProgressSteps = 100;

class Cluster {
 public:
  Cluster(const TraceText& text, const SimulationOptions& options)
      : text_(text),
        options_(options),
        rng_(options.seed),
        log_(text.trace().requests.size(), [this](std::uint32_t number) { arrivals_.OnEnd(number); }),
        arrivals_(text.trace(), options.speed, timeline_, [this](std::uint32_t number) { Arrive(number); }) {}

  Result<void> Build(std::string_view policy) {
    for (std::uint32_t i = 0; i < options_.router_count; ++i) ROOST_RETURN_IF_ERROR(AddRouter(policy));
    MakeLinks();
    MakeDisks();
    for (std::uint32_t i = 0; i < options_.workers.size(); ++i) AddWorker(i);
    return {};
  }

  void Run(const Progress& progress) {
    const std::size_t step = log_.records().size() / kProgressSteps + 1;
    arrivals_.Begin(timeline_.Now() + kSettlingTime + 4 * options_.event_delay);
    Tick();
    std::size_t told = 0;
    while (!log_.all_ended() || HasCopies()) {
      ROOST_CHECK(timeline_.RunNext());
      if (progress && log_.ended_count() >= told + step) progress(told = log_.ended_count());
    }
    DeliverTheRest();
  }

  // Are prefixes still being copied, although no request will use them?
  [[nodiscard]] bool HasCopies() const {
    return std::any_of(routers_.begin(), routers_.end(), [](const auto& router) { return router->copy_count() > 0; });
  }

  // Delivers the last messages; after them no router may have open requests or charges.
  void DeliverTheRest() {
    const Instant end = timeline_.Now() + kSettlingTime + 4 * options_.event_delay;
    while (timeline_.Now() < end) ROOST_CHECK(timeline_.RunNext());
    for (const auto& router : routers_) {
      ROOST_CHECK(router->request_count() == 0 && router->charge_count() == 0, "{} requests and {} charges are left",
                  router->request_count(), router->charge_count());
    }
  }

  Outcome Figures() const {
    std::vector<std::uint64_t> computed(options_.workers.size());
    for (const auto& worker : workers_) computed[worker->index()] += worker->prefill_token_count();
    Outcome outcome;
    outcome.Fill(log_.records(), std::move(computed), options_.limits);
    if (restart_) outcome.FillRestart(*restart_, options_.workers.size());
    if (links_) outcome.pulls.emplace();
    if (!disks_.empty()) outcome.restores.emplace();
    for (const auto& worker : workers_) {
      outcome.copied_token_count += worker->copied_token_count();
      if (links_) {
        outcome.pulls->pull_count += worker->pulls().pull_count;
        outcome.pulls->token_count += worker->pulls().token_count;
      }
      if (disks_.empty()) continue;
      outcome.restores->restore_count += worker->restores().restore_count;
      outcome.restores->token_count += worker->restores().token_count;
    }
    for (const auto& disk : disks_) {
      outcome.restores->written_token_count += disk->written_block_count() * text_.block_tokens();
    }
    for (const auto& router : routers_) {
      for (const auto& [reason, count] : router->decisions()) outcome.decisions[reason] += count;
    }
    return outcome;
  }

 private:
  Result<void> AddRouter(std::string_view policy) {
    ROOST_ASSIGN_OR_RETURN(std::unique_ptr<router::Policy> made, router::MakePolicy(policy, rng_()));
    router::FleetCoreOptions fleet;
    // Silence must last several report intervals before it counts.
    fleet.worker_timeout = std::max(fleet.worker_timeout, 8 * options_.worker.load_interval + options_.event_delay);
    // Policies are compared by what waits at the workers they chose, so nothing may wait in the routers.
    fleet.requests.worker_queue_bound = options_.worker.max_waiting_requests;
    fleet.requests.max_queue = 0;
    fleet.requests.routing = options_.routing;
    routers_.push_back(std::make_unique<SimRouter>(std::move(made), fleet, rng_(), text_, timeline_, log_,
                                                   [this, router = static_cast<std::uint32_t>(routers_.size())](
                                                       const std::string& id, wire::RouterMessage message) {
                                                     workers_by_id_.at(id)->OnMessage(router, std::move(message));
                                                   }));
    return {};
  }

  void MakeLinks() {
    if (!options_.worker.links.is_on()) return;
    std::vector<LinkSpec> specs;
    for (const WorkerSpec& worker : options_.workers) specs.push_back(worker.link);
    links_.emplace(options_.worker.links, text_.block_tokens(), std::move(specs), options_.event_delay, timeline_);
  }

  void MakeDisks() {
    if (!options_.worker.disk.is_on()) return;
    const std::uint64_t frame_bytes = options_.worker.links.FrameBytes(text_.block_tokens());
    for (std::size_t i = 0; i < options_.workers.size(); ++i) {
      disks_.push_back(std::make_unique<BlockDisk>(options_.worker.disk, text_.block_tokens(), frame_bytes, timeline_));
    }
  }

  void AddWorker(std::uint32_t index) {
    const WorkerSpec& spec = options_.workers[index];
    StartWorker({.index = index}, spec.joins_after);
    if (spec.restarts_after) timeline_.After(*spec.restarts_after, [this, index] { Restart(index); });
  }

  // The messages of a worker that has left may still arrive, so it stays until the end of the run.
  void StartWorker(const SimWorker::Identity& identity, Duration delay) {
    const std::string id = identity.id();
    const SimWorker::Surroundings surroundings{.text = text_,
                                               .timeline = timeline_,
                                               .log = log_,
                                               .links = links_ ? &*links_ : nullptr,
                                               .disk = disks_.empty() ? nullptr : disks_[identity.index].get()};
    auto worker = std::make_unique<SimWorker>(
        identity, options_.router_count, surroundings, options_.worker, options_.workers[identity.index],
        [this, id](std::uint32_t router, wire::WorkerMessage message) { Send(router, id, std::move(message)); });
    workers_by_id_[id] = worker.get();
    timeline_.After(delay, [joining = worker.get()] { joining->Join(); });
    workers_.push_back(std::move(worker));
  }

  void Restart(std::uint32_t index) {
    restart_ = RestartTimes{.worker = index, .left = timeline_.Now()};
    const SimWorker::Identity identity{.index = index, .epoch = 2};
    workers_by_id_.at(identity.id())->Leave([this, identity] {
      restart_->returned = timeline_.Now() + kRestartTime;
      StartWorker(identity, kRestartTime);
    });
  }

  // The delay is the same for all messages, so a link keeps its order.
  void Send(std::uint32_t router, const std::string& worker_id, wire::WorkerMessage message) {
    auto carried = std::make_shared<wire::WorkerMessage>(std::move(message));
    timeline_.After(options_.event_delay, [this, router, worker_id, carried] {
      routers_[router]->OnMessage(worker_id, std::move(*carried));
    });
  }

  void Arrive(std::uint32_t number) { routers_[rng_.Below(routers_.size())]->Submit(number); }

  void Tick() {
    for (const auto& router : routers_) router->Tick();
    timeline_.After(SimRouter::kTickInterval, [this] { Tick(); });
  }

  const TraceText& text_;
  const SimulationOptions& options_;
  Rng rng_;
  Timeline timeline_;
  RequestLog log_;
  Arrivals arrivals_;
  std::vector<std::unique_ptr<SimRouter>> routers_;
  std::optional<BlockLinks> links_;
  std::vector<std::unique_ptr<BlockDisk>> disks_;  // by worker; empty without disks
  std::vector<std::unique_ptr<SimWorker>> workers_;
  std::optional<RestartTimes> restart_;
  std::unordered_map<std::string, SimWorker*> workers_by_id_;
};

}  // namespace

Result<Outcome> Simulate(const TraceText& text, std::string_view policy, const SimulationOptions& options,
                         const Progress& progress) {
  ROOST_CHECK(!options.workers.empty() && options.router_count > 0);
  Cluster cluster(text, options);
  ROOST_RETURN_IF_ERROR(cluster.Build(policy));
  cluster.Run(progress);
  Outcome outcome = cluster.Figures();
  outcome.policy = policy;
  outcome.worker_count = static_cast<std::uint32_t>(options.workers.size());
  outcome.cache_tokens = options.worker.kv_tokens.value_or(options.worker.cache_tokens);
  return outcome;
}

}  // namespace roost::simulate
