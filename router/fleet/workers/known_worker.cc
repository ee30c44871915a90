#include "router/fleet/workers/known_worker.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/base/rng.h"
#include "common/wire/endpoint.h"
#include "router/fleet/workers/model_fleets.h"
#include "router/fleet/workers/revisions.h"

namespace roost::router {

namespace {

// An allowance for the time from sending a request until a step can include it.
constexpr Duration kLinkDelay = std::chrono::milliseconds(2);
constexpr double kLongestStepSeconds = 3600;
// Loads tell the bytes on their way from this minor version on.
constexpr std::uint32_t kTellsBytes = 7;

bool IsLoopback(const std::string& address) {
  const Result<wire::Endpoint> endpoint = wire::ParseNumericAddress(address);
  return endpoint.ok() && endpoint->IsLoopback();
}

}  // namespace

TransferPlace PlaceOf(const wire::Hello& hello) {
  const wire::Transfer& transfer = hello.transfer;
  const std::uint64_t machine = hello.compute.machine;
  return {.fetches = hello.features.contains(wire::Feature::kHolds),
          .serves = !transfer.address.empty(),
          .is_loopback = IsLoopback(transfer.address),
          .tells_bytes = hello.version.minor >= kTellsBytes,
          .layout = transfer.layout,
          .numerics = transfer.numerics,
          .host = machine == 0 ? 0 : std::max<std::uint64_t>(1, Mix64(machine ^ std::hash<std::string>()(hello.host)))};
}

Worker::Worker(wire::Hello its_hello, WorkerSlot its_slot, std::shared_ptr<PrefixIndex> its_index,
               std::shared_ptr<StepCosts> its_step_costs, PendingPrefixes& pending, const Options& options,
               std::uint64_t turn, Instant now)
    : hello(std::move(its_hello)),
      revision(RevisionKey(hello)),
      adapters(hello.adapters.begin(), hello.adapters.end()),
      slot(its_slot),
      came_at(now),
      index(std::move(its_index)),
      view(*index, slot, hello, options.modes, now),
      step_costs(std::move(its_step_costs)),
      busy(now),
      told(pending, slot, hello.checkpoints ? PeerPrompts::GoesOn::kWhole : PeerPrompts::GoesOn::kAnywhere),
      link(options.link_timeout, now),
      last_sent(turn),
      saved_only_here(kCacheValueTime, now),
      engine(options.stall_timeout, now),
      first_tokens(options.stall_timeout / 2, now),
      later_tokens(options.stall_timeout / 2) {
  load.free_block_count = hello.block_count;
}

void Worker::Report(wire::Load report, Instant now) {
  std::vector<wire::OtherPrompt> others = std::exchange(report.other_prompts, {});
  const std::vector<wire::OwnPrompt> own = std::exchange(report.own_prompts, {});
  const double was_under_way_seconds = load.step_under_way_seconds;
  load = std::move(report);
  load.free_block_count = std::min(load.free_block_count, hello.block_count);
  reported_forward_count = forward_count;
  if (owed_at.has_value() && load.progress != *owed_at) owed_at.reset();
  const bool has_work =
      owed_at.has_value() || load.running_requests + load.waiting_requests + ledger->request_count() > 0;
  engine.Observe(load.progress, has_work ? EngineWork::kSome : EngineWork::kNone, now);
  if (stalled_at.has_value() && load.progress != *stalled_at) stalled_at.reset();
  is_leaving = false;
  // A heartbeat between two steps repeats the load of the last step, so it covers no more charges.
  if (load.step_seconds > 0) {
    // A step took at least what was told of it while it was under way.
    last_step_seconds = std::min(std::max(load.step_seconds, was_under_way_seconds), kLongestStepSeconds);
    ObserveStep(now);
    busy.Observe(PrefillSeconds(ViewOf(*this), load.step_prefill_tokens), now);
    const Instant began = now - FromSeconds(std::min(load.step_seconds, kLongestStepSeconds)) - kLinkDelay;
    ledger->CoverUntil(began, load.step_prefill_tokens, hello.ageing_tokens);
  } else {
    busy.Observe(0, now);
  }
  ledger->SetOthers(others, now);
  ledger->SetOwn(own);
  // In blind mode the router does not know what the worker caches, so it does not know whether these will stay cached.
  if (view.mode() == WorkerMode::kBlind) others.clear();
  told.Follow(std::move(others));
}

void Worker::ObserveStep(Instant now) {
  const StepSample step{load.step_prefill_tokens, load.step_decode_tokens, load.step_seconds,
                        load.running_context_tokens};
  const std::uint64_t pool_tokens = std::uint64_t{hello.block_count} * hello.block_tokens;
  if (!IsPossible(step, pool_tokens, load.running_requests)) return;
  StepPace& pace = step.prefill_tokens > 0 ? prefill_pace : decode_pace;
  pace.Observe(step.seconds, step_costs->ExpectedSeconds(step));
  step_costs->Observe(step, pace.slowness(), now);
}

DecodeCost Worker::decode_cost() const {
  const DecodeCost fit = step_costs->decode();
  const double slowness = decode_pace.slowness();
  return {slowness * fit.base_seconds, slowness * fit.per_request_seconds, slowness * fit.per_context_token_seconds};
}

double Worker::decode_step_seconds() const {
  const auto context = static_cast<double>(load.running_context_tokens);
  return std::max(decode_cost().StepSeconds(std::max(load.running_requests, 1U), context), present_step_seconds());
}

void Worker::NoteOnlyHere(std::uint32_t tokens, Instant now) {
  const double rate = prefill_tokens_per_second();
  if (tokens > 0 && rate > 0) saved_only_here.Add(tokens / rate, now);
}

// Scaled up for a worker that is so young that its sum has not grown to what a steady stream makes of it.
double Worker::CacheValue(Instant now) const {
  constexpr double kLeastSeconds = 60;
  constexpr double kHourSeconds = 3600;
  const double half_life = ToSeconds(kCacheValueTime);
  const double age = std::max(ToSeconds(now - came_at), kLeastSeconds);
  const double counted_seconds = half_life / std::log(2) * (1 - std::exp2(-age / half_life));
  return saved_only_here.At(now) * kHourSeconds / counted_seconds;
}

bool Worker::IsStalled(Instant now) const {
  const auto context = static_cast<double>(load.running_context_tokens);
  // The requests that it owes may be running there, although its last report was of none.
  const double decode = decode_cost().StepSeconds(std::max(load.running_requests, 1U), context);
  const double rate = prefill_tokens_per_second();
  const double prefill = rate > 0 ? hello.max_batch_tokens / rate : 0;
  const double step = decode + prefill;
  return engine.IsStalled(step > 0 ? std::max(step, present_step_seconds()) : 0, now);
}

PendingPrefixes::Guard Expect(PendingPrefixes& pending, const Worker& worker, std::span<const BlockHash> chain,
                              Instant deadline, PendingPrefixes::Coming coming) {
  if (worker.view.resumable() == nullptr) return pending.Add(worker.slot, chain, deadline, coming);
  const std::size_t blocks = std::max(1U, worker.hello.engine_block_tokens / worker.hello.block_tokens);
  const std::size_t whole = chain.size() / blocks * blocks;
  const std::size_t dropped = std::min<std::size_t>(whole, worker.load.dropped_tokens / worker.hello.block_tokens);
  return pending.AddWhole(worker.slot, chain.first(whole - dropped), deadline);
}

void TellModeChange(const Worker& worker, ModeTracker::Change change, WorkerMetrics& metrics) {
  metrics.OnModeChange(change.to, change.reason);
  LogWarning("the mode of a worker's cache view changed", {{"worker", worker.hello.worker_id},
                                                           {"mode", std::string(NameOf(change.to))},
                                                           {"reason", std::string(NameOf(change.reason))}});
}

}  // namespace roost::router
