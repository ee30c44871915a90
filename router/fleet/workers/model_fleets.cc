#include "router/fleet/workers/model_fleets.h"

#include "common/base/check.h"
#include "router/fleet/workers/worker_registry.h"

namespace roost::router {

std::uint32_t EngineBlockTokens(const Worker& worker) {
  return worker.view.resumable() == nullptr ? worker.hello.engine_block_tokens : 0;
}

WorkerMode ShownMode(const Worker& worker) {
  const bool is_guessed = worker.hello.engine.starts_with("llama.cpp ");
  return is_guessed && worker.view.mode() == WorkerMode::kExact ? WorkerMode::kPredicted : worker.view.mode();
}

std::uint32_t DroppedTokens(const Worker& worker) {
  return worker.view.resumable() == nullptr ? worker.load.dropped_tokens : 0;
}

WorkerView ViewOf(const Worker& worker) {
  const InFlightLedger& ledger = *worker.ledger;
  const wire::Load& load = worker.load;
  const DecodeCost decode = worker.decode_cost();
  const auto context = static_cast<double>(load.running_context_tokens);
  const std::uint64_t queued_tokens = load.queued_prefill_tokens + ledger.uncovered_tokens();
  return {.slot = worker.slot,
          .epoch = worker.hello.epoch,
          .block_tokens = worker.hello.block_tokens,
          .engine_block_tokens = EngineBlockTokens(worker),
          .max_batch_tokens = worker.hello.max_batch_tokens > 0 ? worker.hello.max_batch_tokens : kUsualBatchTokens,
          .ageing_tokens = worker.hello.ageing_tokens,
          .max_sample_count = worker.hello.max_sample_count,
          .role = worker.hello.role,
          .features = worker.hello.features,
          .adapters = &worker.adapters,
          .dropped_tokens = DroppedTokens(worker),
          .queued_prefill_tokens = queued_tokens,
          .waiting_requests = load.waiting_requests + ledger.uncovered_requests() + worker.coming_answers,
          .waiting_cached_tokens = ledger.uncovered_cached_tokens(),
          .running_requests = load.running_requests,
          .running_context_tokens = load.running_context_tokens,
          .disk_bytes_per_second = load.disk_bytes_per_second,
          .disk_block_bytes = static_cast<double>(load.block_bytes),
          .prompts = &ledger.prompts(),
          .in_flight_requests = ledger.request_count(),
          .restoring_bytes = ledger.restoring_bytes(),
          .receives_copy = worker.receives_copy,
          .last_sent = worker.last_sent,
          .prefill_tokens_per_second = worker.prefill_tokens_per_second(),
          .decode_step_seconds = decode.StepSeconds(load.running_requests, context),
          .decode = decode,
          .decode_slowness = worker.decode_pace.slowness(),
          .busy_share = worker.busy.value(),
          .handover_seconds = worker.handover_seconds};
}

void ModelFleets::Set(Worker& worker) {
  const auto fleet = fleets_.try_emplace(worker.revision, static_cast<std::uint32_t>(fleets_.size())).first;
  fleet->second.Set(ViewOf(worker));
  const std::size_t slot = worker.slot.value();
  if (workers_.size() <= slot) workers_.resize(slot + 1);
  workers_[slot] = &worker;
}

void ModelFleets::Remove(const Worker& worker) {
  const std::size_t slot = worker.slot.value();
  if (slot >= workers_.size() || workers_[slot] != &worker) return;
  workers_[slot] = nullptr;
  fleets_.find(worker.revision)->second.Remove(worker.slot);
}

const FleetView* ModelFleets::Find(std::string_view revision) const {
  const auto found = fleets_.find(revision);
  return found == fleets_.end() ? nullptr : &found->second;
}

Worker* ModelFleets::FindAt(WorkerSlot slot) const {
  return slot.value() < workers_.size() ? workers_[slot.value()] : nullptr;
}

Worker& ModelFleets::At(WorkerSlot slot) const {
  Worker* const worker = FindAt(slot);
  ROOST_CHECK(worker != nullptr, "slot {}", slot.value());
  return *worker;
}

}  // namespace roost::router
