#include "tests/sim/sim_worker.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <variant>

namespace roost::sim {

namespace {

// Few tokens, so that answers of different prompts differ and a step of the model is fast.
constexpr std::uint32_t kVocabulary = 16;

}  // namespace

SimWorker::SimWorker(const Setup& setup, const Clock& clock, Carry carry, SimTransfer::Carry carry_blocks)
    : setup_(setup),
      clock_(clock),
      carry_(std::move(carry)),
      model_({.block_tokens = kBlockTokens, .block_count = setup.block_count, .vocab_size = kVocabulary}),
      readable_(model_.MakeBlockReader(), setup.block_count, kBlockTokens),
      inbox_([] {}),
      transfer_({.worker_id = setup.id, .first_fetch = setup.first_epoch}, clock, readable_, inbox_,
                std::move(carry_blocks)),
      engine_(model_, clock, OptionsOf(setup)),
      core_(CoreSetup(setup), clock, *this),
      next_step_(clock.Now()) {
  for (std::uint32_t i = 0; i < setup.router_count; ++i) core_.AddPeer(worker::PeerId(i), "router");
}

worker::EngineOptions SimWorker::OptionsOf(const Setup& setup) {
  worker::EngineOptions options{.max_batch_tokens = 32, .eviction = "lru"};
  if (!setup.exchanges_blocks) return options;
  options.readable = &readable_;
  options.arriving = &inbox_;
  options.source = &transfer_;
  return options;
}

worker::LinkCore::Setup SimWorker::CoreSetup(const Setup& setup) const {
  worker::LinkCore::Setup core;
  core.first_epoch = setup.first_epoch;
  core.hello.worker_id = setup.id;
  core.hello.process_id = setup.first_epoch;
  core.hello.model = "demo";
  core.hello.fingerprint = "f";
  core.hello.kv_dtype = "f32";
  core.hello.block_tokens = kBlockTokens;
  core.hello.block_count = setup.block_count;
  core.hello.max_context_tokens = setup.block_count * kBlockTokens;
  core.hello.max_running_requests = 64;
  core.hello.tokenizer_digest = "digest";
  core.hello.sends_cache_events = setup.sends_cache_events;
  core.hello.features = {wire::Feature::kAnswers, wire::Feature::kEvicts, wire::Feature::kEvictsBlocks,
                         wire::Feature::kCordons};
  core.tokenizer.digest = "digest";
  if (!setup.exchanges_blocks) return core;
  core.hello.features.insert(wire::Feature::kHolds);
  core.hello.host = "host";
  core.hello.compute.machine = 1;
  core.hello.transfer = {
      .address = "127.0.0.1:7100", .layout = 1, .numerics = 1, .secret = transfer_.secret().ToText()};
  return core;
}

wire::SendOutcome SimWorker::Send(worker::PeerId peer, const wire::WorkerMessage& message) {
  carry_(peer, message);
  return wire::SendOutcome::kSent;
}

bool SimWorker::Submit(worker::EngineCommand command) {
  std::visit([this](auto& value) { Apply(value); }, command);
  return true;
}

void SimWorker::Apply(worker::SubmitCommand& command) {
  wire::TokenEvent refusal;
  refusal.request_id = command.request.request_id;
  refusal.finish = wire::FinishReason::kError;
  const Result<void> submitted = engine_.Submit(command.link, std::move(command.request));
  if (submitted.ok()) return;
  refusal.error = submitted.error();
  rejected_.push_back({command.link, std::move(refusal)});
}

// As the engine's thread does it.
void SimWorker::Apply(const worker::OrderCommand& command) {
  std::optional<worker::HoldReceipt> receipt;
  const auto* const hold = std::get_if<wire::Hold>(&command.order);
  const bool is_taken = hold != nullptr && setup_.exchanges_blocks;
  if (is_taken) receipt = {worker::HoldId(++last_hold_), clock_.Now()};
  const std::optional<worker::OrderReply> reply = engine_.CarryOut(command.link, command.order, receipt);
  if (reply) answers_.push_back({command.link, *reply});
  report_due_ = true;
  if (!is_taken) return;
  const Result<wire::TransferTicket> ticket = wire::TransferTicket::Parse(hold->source.ticket);
  transfer_.Ask({.id = receipt->id,
                 .chain = worker::ChainOf(*hold),
                 .peer = {.worker_id = hold->source.worker_id, .address = hold->source.address},
                 .ticket = ticket.ok() ? std::optional(*ticket) : std::nullopt});
}

bool SimWorker::IsStepDue() const {
  constexpr Duration kIdleWait = std::chrono::seconds(1);
  if (engine_.HasWork() || !rejected_.empty() || report_due_ || snapshot_wanted_) return true;
  const std::optional<Instant> end = engine_.AwaitsBlocksUntil();
  return end && (clock_.Now() >= *end || clock_.Now() >= next_step_ + kIdleWait);
}

void SimWorker::Run() {
  transfer_.Run();
  core_.OnTravellingBytes(transfer_.travelling_bytes());
  if (IsStepDue() && clock_.Now() >= next_step_) {
    next_step_ = clock_.Now() + kStepDuration;
    RunEngine();
  }
  core_.Tick();
}

// By the rules of the engine's thread: no step runs between a report and the snapshot after it.
void SimWorker::RunEngine() {
  report_due_ = false;
  engine_.TakeNews();
  worker::StepReport report = engine_.Step();
  report.tokens.insert(report.tokens.end(), rejected_.begin(), rejected_.end());
  rejected_.clear();
  for (const worker::EngineAnswer& answer : report.answers) answers_.push_back(answer);
  for (std::size_t i = 0; i < hold_ends_.size(); ++i) hold_ends_[i] += report.counts.pulled.ends[i];
  if (std::exchange(lose_next_report_, false)) return core_.OnOutput(worker::OutputLost{});
  core_.OnOutput(std::move(report));
  for (const worker::EngineAnswer& answer : std::exchange(answers_, {})) core_.OnOutput(answer);
  if (std::exchange(snapshot_wanted_, false)) core_.OnOutput(worker::EngineSnapshot{engine_.Snapshot()});
}

std::set<BlockHash> SimWorker::Held() const {
  std::set<BlockHash> held;
  for (const wire::StoredRun& run : engine_.Snapshot()) held.insert(run.hashes.begin(), run.hashes.end());
  return held;
}

}  // namespace roost::sim
