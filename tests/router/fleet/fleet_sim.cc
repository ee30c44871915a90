#include "tests/router/fleet/fleet_sim.h"

#include "router/policies/policies.h"

#include <gtest/gtest.h>

#include <utility>

namespace roost::router {

namespace {

using namespace std::chrono_literals;

const BlockHash kRoot = RootHash({});

}  // namespace

void RecordingObserver::OnDispatched(const Dispatched& dispatched) {
  EXPECT_FALSE(end.has_value());
  workers.push_back(dispatched.worker_id);
  decisions.push_back(dispatched.decision);
}

void RecordingObserver::OnPromptLogprobs(std::vector<wire::TokenLogprobs> told) {
  EXPECT_FALSE(end.has_value() || prompt_logprobs.has_value()) << "they come once";
  for (const auto& [choice, output] : choices) EXPECT_TRUE(output.empty());
  EXPECT_TRUE(choice_ends.empty());
  prompt_logprobs = std::move(told);
}

void RecordingObserver::OnTokens(ChoiceTokens new_tokens) {
  EXPECT_FALSE(end.has_value());
  EXPECT_FALSE(choice_ends.contains(new_tokens.choice));
  EXPECT_TRUE(!new_tokens.tokens.empty() || new_tokens.cached_token_count.has_value());
  if (new_tokens.cached_token_count.has_value()) {
    EXPECT_FALSE(cached_token_count.has_value()) << "it comes once";
    cached_token_count = new_tokens.cached_token_count;
  }
  EXPECT_TRUE(new_tokens.logprobs.empty() || new_tokens.logprobs.size() == new_tokens.tokens.size());
  std::vector<wire::TokenLogprobs>& told = logprobs[new_tokens.choice];
  told.insert(told.end(), new_tokens.logprobs.begin(), new_tokens.logprobs.end());
  std::vector<TokenId>& output = choices[new_tokens.choice];
  output.insert(output.end(), new_tokens.tokens.begin(), new_tokens.tokens.end());
}

void RecordingObserver::OnChoiceEnd(ChoiceEnd choice_end) {
  EXPECT_FALSE(end.has_value());
  EXPECT_FALSE(wire::EndsAllChoices(choice_end.reason));
  EXPECT_TRUE(choice_ends.emplace(choice_end.choice, choice_end.reason).second) << "a second end";
  stop_tokens[choice_end.choice] = choice_end.stop_token;
}

void RecordingObserver::OnEnd(GenerationEnd its_end) {
  EXPECT_FALSE(end.has_value()) << "a second end";
  EXPECT_EQ(its_end.error.has_value(), its_end.reason == wire::FinishReason::kError);
  end = std::move(its_end);
}

FleetSim::FleetSim(std::uint64_t seed, std::string_view policy_name, FleetCoreOptions options)
    : policy(std::move(MakePolicy(policy_name, seed)).value()), core(std::move(options), *policy, metrics, seed) {
  Tick();
}

FakeWorker& FleetSim::AddWorker(const std::string& id) {
  auto& worker = workers[id];
  worker = std::make_unique<FakeWorker>(id, workers.size());
  return *worker;
}

FakeWorker& FleetSim::JoinWorker(const std::string& id) {
  FakeWorker& worker = AddWorker(id);
  worker.SayHello();
  DeliverAll();
  return worker;
}

FleetSim::Request FleetSim::Submit(std::vector<TokenId> prompt, std::uint32_t max_output_tokens) {
  return Submit(std::move(prompt), max_output_tokens, GenerateSpec());
}

FleetSim::Request FleetSim::Submit(std::vector<TokenId> prompt, std::uint32_t max_output_tokens, GenerateSpec wishes) {
  Request request{.prompt = std::move(prompt),
                  .max_output_tokens = max_output_tokens,
                  .sample_count = wishes.generate.sample_count,
                  .min_output_tokens = wishes.generate.min_output_tokens,
                  .output_logprobs = wishes.generate.output_logprobs,
                  .prompt_logprobs = wishes.generate.prompt_logprobs,
                  .id = {},
                  .refusal = {}};
  GenerateSpec spec = std::move(wishes);
  if (spec.model == nullptr) spec.model = core.models()->Choose("demo");
  if (spec.model == nullptr) {
    request.refusal = Error{ErrorCode::kNotFound, "no such model", "model"};
    return request;
  }
  spec.generate.prompt = request.prompt;
  spec.generate.root = kRoot;
  spec.generate.block_hashes = BlocksOf(request.prompt);
  spec.generate.max_output_tokens = max_output_tokens;
  const std::vector<WorkerMatch> matches = Match(spec.generate.block_hashes);
  auto result = core.Submit(std::move(spec), request.observer, matches, clock.Now());
  if (result.ok()) {
    request.id = *result;
  } else {
    request.refusal = result.error();
  }
  return request;
}

void FleetSim::DeliverOne(FakeWorker& worker) {
  if (worker.outbox().empty()) return;
  wire::WorkerMessage message = std::move(worker.outbox().front());
  worker.outbox().pop_front();
  if (!IsCutOff(worker)) core.OnMessage(worker.identity(), std::move(message), clock.Now());
}

void FleetSim::DeliverAll() {
  bool moved = true;
  while (moved) {
    CarryOutEffects();
    moved = false;
    for (auto& [id, worker] : workers) {
      for (; !worker->outbox().empty(); moved = true) DeliverOne(*worker);
    }
  }
}

void FleetSim::CarryOutEffects() {
  for (auto effects = core.TakeEffects(); !effects.empty(); effects = core.TakeEffects()) {
    for (Effect& effect : effects) CarryOut(effect);
  }
}

void FleetSim::CarryOut(Effect& effect) {
  if (const auto* const send = std::get_if<SendToWorker>(&effect)) {
    for (const auto& [name, worker] : workers) {
      if (worker->identity() == send->identity && !IsCutOff(*worker)) worker->Receive(send->message);
    }
  } else if (const auto* const read = std::get_if<ReadBundle>(&effect)) {
    if (bundle_error.has_value()) {
      core.OnBundleFault(read->bundle.digest, *bundle_error, clock.Now());
    } else {
      core.OnTextBundle(read->bundle.digest, TextBundle{}, clock.Now());
    }
  } else {
    NotifyObserver(effect);
  }
}

void FleetSim::Run(int rounds) {
  for (int round = 0; round < rounds && core.request_count() + core.copy_count() > 0; ++round) {
    for (auto& [id, worker] : workers) worker->Step();
    DeliverAll();
    clock.Advance(50ms);
    Tick();
  }
  DeliverAll();
}

void FleetSim::Recover() {
  for (auto& [id, worker] : workers) {
    worker->SetFull(false);
    if (IsCutOff(*worker)) Revive(*worker);
    if (!worker->welcomed()) worker->SayHello();
  }
  DeliverAll();
  Run();
  Advance(4s);
}

void FleetSim::Advance(Duration by) {
  for (Duration passed{}; passed < by; passed += 100ms) {
    clock.Advance(100ms);
    for (auto& [id, worker] : workers) worker->Heartbeat();
    DeliverAll();
    Tick();
    DeliverAll();
  }
}

void FleetSim::Kill(FakeWorker& worker) {
  cut_off_[worker.id()] = true;
  worker.outbox().clear();
}

void FleetSim::Revive(FakeWorker& worker) {
  cut_off_.erase(worker.id());
  worker.Restart();
  worker.SayHello();
}

std::vector<WorkerMatch> FleetSim::Match(std::span<const BlockHash> chain) const {
  const std::shared_ptr<const ServedModel> model = core.models()->Main("demo");
  return model == nullptr ? std::vector<WorkerMatch>() : model->index->Match(chain);
}

std::optional<WorkerStatus> FleetSim::StatusOf(const std::string& worker_id) {
  for (WorkerStatus& status : core.Workers(clock.Now())) {
    if (status.worker_id == worker_id) return std::move(status);
  }
  return std::nullopt;
}

bool FleetSim::ViewIsExact(const FakeWorker& worker) {
  const std::optional<WorkerStatus> status = StatusOf(worker.id());
  if (!status.has_value()) return false;
  return status->index_in_sync && status->indexed_block_count == worker.block_count();
}

std::vector<BlockHash> BlocksOf(const std::vector<TokenId>& prompt) {
  return HashBlocks(kRoot, prompt, FakeWorker::kBlockTokens);
}

std::vector<TokenId> MakePrompt(TokenId seed, std::size_t count) {
  std::vector<TokenId> prompt(count);
  for (std::size_t i = 0; i < count; ++i) prompt[i] = static_cast<TokenId>(1 + (seed * 7919 + i * 31) % 1009);
  return prompt;
}

}  // namespace roost::router
