#include "tests/support/scripted_worker/scripted_worker.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/random_seed.h"
#include "common/wire/codec.h"
#include "common/wire/tokenizer_digest.h"

namespace roost::testing_support {
namespace {

const worker::PeerId kRouter(1);
constexpr std::uint32_t kBlockCount = 4096;
constexpr std::uint32_t kMaxRunning = 64;

worker::LinkCore::Setup LinkSetup(const ScriptedWorkerSetup& setup, std::uint32_t block_tokens) {
  worker::LinkCore::Setup link;
  link.tokenizer = setup.bundle;
  link.tokenizer.digest = wire::DigestOf(setup.bundle);
  wire::Hello& hello = link.hello;
  hello.worker_id = setup.worker_id;
  hello.process_id = RandomSeed() | 1U;
  hello.model = setup.model;
  hello.fingerprint = "scripted";
  hello.kv_dtype = "f32";
  hello.block_tokens = block_tokens;
  hello.block_count = std::max(kBlockCount, 2 * setup.context_tokens / block_tokens);
  hello.max_context_tokens = setup.context_tokens;
  hello.max_running_requests = kMaxRunning;
  hello.max_sample_count = wire::kMaxSampleCount;
  hello.features = {wire::Feature::kFullSampling};
  hello.sends_cache_events = false;
  hello.tokenizer_digest = link.tokenizer.digest;
  link.first_epoch = RandomSeed() | 1U;
  return link;
}

}  // namespace

Result<std::unique_ptr<ScriptedWorker>> ScriptedWorker::Start(ScriptedWorkerSetup setup, const Clock& clock) {
  ROOST_ASSIGN_OR_RETURN(auto tokenizer, Tokenizer::FromJson(setup.bundle.tokenizer_json, "tokenizer.json"));
  std::unique_ptr<ScriptedWorker> worker(new ScriptedWorker(std::move(setup), std::move(tokenizer), clock));
  ROOST_ASSIGN_OR_RETURN(auto socket, wire::DealerSocket::Connect(worker->context_, worker->setup_.router));
  worker->socket_.emplace(std::move(socket));
  worker->core_.AddPeer(kRouter, worker->setup_.router);
  return worker;
}

ScriptedWorker::ScriptedWorker(ScriptedWorkerSetup setup, std::shared_ptr<const Tokenizer> tokenizer,
                               const Clock& clock)
    : setup_(std::move(setup)),
      clock_(clock),
      tokenizer_(std::move(tokenizer)),
      core_(LinkSetup(setup_, kBlockTokens), clock, *this) {}

void ScriptedWorker::Round() {
  constexpr std::chrono::milliseconds kLongestWait{50};
  if (running_.empty()) step_ends_at_ = clock_.Now() + setup_.step_time;
  Receive();
  const bool holds = submit_count_ < setup_.hold_until;
  if (holds) Hold();
  if (!holds && !running_.empty() && clock_.Now() >= step_ends_at_) Step();
  for (worker::EngineOutput& output : std::exchange(outputs_, {})) core_.OnOutput(std::move(output));
  core_.Tick();
  const wire::Socket* const sockets[] = {&*socket_};
  wire::WaitForMessages(sockets, waker_, holds || running_.empty() ? kLongestWait : StepRest());
}

std::chrono::milliseconds ScriptedWorker::StepRest() const {
  const Duration rest = step_ends_at_ - clock_.Now();
  return std::max(std::chrono::ceil<std::chrono::milliseconds>(rest), std::chrono::milliseconds(0));
}

void ScriptedWorker::Receive() {
  while (const std::optional<wire::Bytes> frame = socket_->TryReceive()) {
    Result<std::optional<wire::RouterMessage>> message = wire::DecodeRouterMessage(*frame);
    if (!message.ok()) {
      core_.OnMalformed(kRouter);
    } else if (message->has_value()) {
      core_.OnMessage(kRouter, *std::move(*message));
    } else {
      core_.OnUnknown();
    }
  }
}

// ---- the engine's side of the link ----

wire::SendOutcome ScriptedWorker::Send(worker::PeerId, const wire::WorkerMessage& message) {
  return socket_->Send(wire::Encode(message));
}

void ScriptedWorker::Redial(worker::PeerId) {
  Result<wire::DealerSocket> socket = wire::DealerSocket::Connect(context_, setup_.router);
  if (socket.ok()) socket_.emplace(std::move(socket).value());
}

bool ScriptedWorker::Submit(worker::EngineCommand command) {
  if (const auto* submit = std::get_if<worker::SubmitCommand>(&command)) Begin(*submit);
  return true;  // it keeps no pins; its hello promises no answers
}

void ScriptedWorker::Command(worker::EngineCommand command) {
  if (const auto* cancel = std::get_if<worker::CancelCommand>(&command); cancel && running_.erase(cancel->key) > 0) {
    worker::StepReport report = NewReport();
    wire::TokenEvent event;
    event.request_id = cancel->key.request;
    event.finish = wire::FinishReason::kCancelled;
    report.tokens.push_back({cancel->key.link, std::move(event)});
    outputs_.emplace_back(std::move(report));
  } else if (const auto* link = std::get_if<worker::CancelLinkCommand>(&command)) {
    std::erase_if(running_, [link](const auto& entry) { return entry.first.link == link->link; });
  } else if (std::holds_alternative<worker::SnapshotCommand>(command)) {
    outputs_.emplace_back(worker::EngineSnapshot{});
  }
}

// ---- answers ----

void ScriptedWorker::Begin(const worker::SubmitCommand& submit) {
  const wire::Generate& request = submit.request;
  ++submit_count_;
  const std::string prompt = tokenizer_->Decode(request.prompt);
  Running running{.answer = {}, .choices = request.sample_count, .cached_tokens = Remember(request)};
  Result<std::vector<TokenId>> answer = tokenizer_->Encode(setup_.script.AnswerTo(prompt), SpecialTokens::kOmit);
  ROOST_CHECK(answer.ok(), "{}", answer.error().ToString());
  running.answer = *std::move(answer);
  running.is_cut = running.answer.size() > request.max_output_tokens;
  if (running.is_cut) running.answer.resize(request.max_output_tokens);
  running_[{submit.link, request.request_id}] = std::move(running);
}

// The prompt tokens that earlier prompts contained, without the last one, which is always computed.
std::uint32_t ScriptedWorker::Remember(const wire::Generate& request) {
  std::size_t known = 0;
  while (known < request.block_hashes.size() && seen_.contains(request.block_hashes[known])) ++known;
  if (request.cache_mode == wire::CacheMode::kOff) return 0;
  seen_.insert(request.block_hashes.begin(), request.block_hashes.end());
  return static_cast<std::uint32_t>(std::min(known * kBlockTokens, request.prompt.size() - 1));
}

worker::StepReport ScriptedWorker::NewReport() const {
  worker::StepReport report;
  report.step_number = step_count_;
  report.submit_count = submit_count_;
  report.load.free_block_count = kBlockCount;
  report.load.progress = step_count_;
  return report;
}

// Tells the router that the requests have arrived, so that it sends more.
void ScriptedWorker::Hold() {
  if (std::exchange(reported_submit_count_, submit_count_) == submit_count_) return;
  ++step_count_;
  worker::StepReport report = NewReport();
  report.load.running_requests = static_cast<std::uint32_t>(running_.size());
  outputs_.emplace_back(std::move(report));
}

// The next step begins when this one should have ended, so that a late thread does not slow the pace.
void ScriptedWorker::Step() {
  const Instant now = clock_.Now();
  const bool is_far_behind = now - step_ends_at_ > setup_.step_time;
  step_ends_at_ = (is_far_behind ? now : step_ends_at_) + setup_.step_time;
  ++step_count_;
  worker::StepReport report = NewReport();
  for (auto& [key, running] : running_) GiveToken(key, running, report);
  std::erase_if(running_, [](const auto& entry) { return entry.second.given > entry.second.answer.size(); });
  report.load.running_requests = static_cast<std::uint32_t>(running_.size());
  outputs_.emplace_back(std::move(report));
}

// Gives the next token of all choices, or their end after the last token; an end for length comes with it.
void ScriptedWorker::GiveToken(worker::RequestKey key, Running& running, worker::StepReport& report) {
  const bool ends = running.given == running.answer.size();
  const bool is_cut_here = running.is_cut && running.given + 1 == running.answer.size();
  for (std::uint32_t choice = 0; choice < running.choices; ++choice) {
    wire::TokenEvent event;
    event.request_id = key.request;
    event.choice = choice;
    if (!ends) event.tokens.push_back(running.answer[running.given]);
    if (ends) event.finish = wire::FinishReason::kStop;
    if (is_cut_here) event.finish = wire::FinishReason::kLength;
    if (running.given == 0 && choice == 0) event.cached_token_count = running.cached_tokens;
    report.tokens.push_back({key.link, std::move(event)});
  }
  running.given += is_cut_here ? 2 : 1;  // one more than the answer has: it is over
}

}  // namespace roost::testing_support
