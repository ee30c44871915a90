#include "tests/sim/sim_router.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

#include "common/wire/transfer_ticket.h"
#include "router/index/prefix_index.h"
#include "router/policies/policies.h"
#include "router/route/policy.h"

namespace roost::sim {

namespace {

BlockHash Root() { return RootHash({}); }

std::int64_t WallTime(const Clock& clock) {
  return std::chrono::duration_cast<std::chrono::seconds>(clock.Now().time_since_epoch()).count();
}

// The pools are so small that promised blocks are gone when their request arrives. Modes have their own tests.
router::FleetCoreOptions WithoutDemotion(const Clock& clock) {
  router::FleetCoreOptions options;
  options.modes.missing_share = 1;
  options.unix_seconds = [&clock] { return WallTime(clock); };
  return options;
}

}  // namespace

class SimRouter::Client final : public router::GenerationObserver {
 public:
  Client(Answers& answers, std::vector<TokenId> prompt) : answer_(answers[std::move(prompt)]) {}

  void OnDispatched(const router::Dispatched&) override { EXPECT_FALSE(ended_); }
  void OnTokens(router::ChoiceTokens tokens) override {
    EXPECT_FALSE(ended_);
    for (const TokenId token : tokens.tokens) {
      if (count_ == answer_.size()) answer_.push_back(token);
      EXPECT_EQ(answer_[count_], token) << "token " << count_;
      ++count_;
    }
  }
  void OnChoiceEnd(router::ChoiceEnd) override { ADD_FAILURE() << "there is one choice"; }
  void OnEnd(router::GenerationEnd) override {
    EXPECT_FALSE(ended_);
    ended_ = true;
  }
  [[nodiscard]] bool ended() const { return ended_; }

 private:
  std::vector<TokenId>& answer_;
  std::size_t count_ = 0;
  bool ended_ = false;
};

SimRouter::SimRouter(const Clock& clock, Carry carry, Answers& answers, std::uint64_t seed)
    : clock_(clock),
      carry_(std::move(carry)),
      answers_(answers),
      policy_(std::move(router::MakePolicy("cache-aware", seed)).value()),
      core_(WithoutDemotion(clock), *policy_, metrics_, seed) {}

SimRouter::~SimRouter() {
  core_.Shutdown();
  CarryOut();
  for (const auto& [id, client] : requests_) EXPECT_TRUE(client->ended());
}

void SimRouter::Receive(const std::string& worker_id, wire::WorkerMessage message) {
  if (const auto* const hello = std::get_if<wire::Hello>(&message)) transfers_[worker_id] = hello->transfer;
  core_.OnMessage(worker_id, std::move(message), clock_.Now());
  CarryOut();
}

void SimRouter::Tick() {
  core_.Tick(clock_.Now());
  CarryOut();
}

bool SimRouter::Submit(std::vector<TokenId> prompt, std::uint32_t max_output_tokens) {
  router::GenerateSpec spec;
  spec.model = core_.models()->Main("demo");
  if (spec.model == nullptr) return false;
  spec.generate.prompt = prompt;
  spec.generate.root = Root();
  spec.generate.block_hashes = HashBlocks(spec.generate.root, prompt, spec.model->block_tokens);
  spec.generate.sampling.temperature = 0;
  spec.generate.max_output_tokens = max_output_tokens;
  const std::vector<WorkerMatch> matches = spec.model->index->Match(spec.generate.block_hashes);
  auto client = std::make_shared<Client>(answers_, std::move(prompt));
  const Result<RequestId> id = core_.Submit(std::move(spec), client, matches, clock_.Now());
  if (id.ok()) requests_.emplace_back(*id, std::move(client));
  CarryOut();
  return id.ok();
}

void SimRouter::Warm(std::vector<TokenId> prompt, const std::string& worker, Duration patience) {
  router::WarmOrder order{
      .spec = {}, .workers = {router::PinTarget::kNamedWorkers, {worker}}, .deadline = clock_.Now() + patience};
  order.spec.model = core_.models()->Main("demo");
  if (order.spec.model == nullptr) return;
  order.spec.generate.root = Root();
  order.spec.generate.block_hashes = HashBlocks(Root(), prompt, order.spec.model->block_tokens);
  order.spec.generate.prompt = std::move(prompt);
  if (order.spec.generate.block_hashes.empty()) return;
  const std::vector<WorkerMatch> matches = order.spec.model->index->Match(order.spec.generate.block_hashes);
  static_cast<void>(core_.Send(order, matches, clock_.Now(), [](const std::vector<router::WorkerAnswer>&) {}));
  CarryOut();
}

void SimRouter::Hold(const std::vector<TokenId>& prompt, const std::string& worker, const std::string& source,
                     Duration patience) {
  const std::shared_ptr<const router::ServedModel> model = core_.models()->Main("demo");
  const Result<wire::TransferSecret> secret = wire::TransferSecret::Parse(transfers_[source].secret);
  if (model == nullptr || !secret.ok()) return;
  wire::Hold hold{.answer_id = ++last_hold_, .root = Root(), .parent = Root()};
  hold.hashes = HashBlocks(Root(), prompt, model->block_tokens);
  if (hold.hashes.empty()) return;
  hold.patience_ms =
      static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(patience).count());
  const wire::WallSeconds now{std::chrono::seconds(WallTime(clock_))};
  hold.source = {.worker_id = source,
                 .address = transfers_[source].address,
                 .ticket = wire::MintTicket(*secret, worker, now).ToText()};
  carry_(worker, hold);
}

void SimRouter::CancelOne(std::uint64_t choice) {
  if (requests_.empty()) return;
  core_.Cancel(requests_[choice % requests_.size()].first);
  CarryOut();
}

void SimRouter::Evict(std::vector<TokenId> prompt) {
  const std::shared_ptr<const router::ServedModel> model = core_.models()->Main("demo");
  if (model == nullptr) return;
  std::vector<BlockHash> hashes = HashBlocks(Root(), prompt, model->block_tokens);
  Order({.what = std::vector{router::PromptOfRevision{model, {Root(), std::move(prompt), std::move(hashes)}}}});
}

void SimRouter::EvictAll() { Order({.what = wire::TenantToEvict{}}); }

void SimRouter::Cordon(const std::string& worker, router::Service service) {
  static_cast<void>(core_.Send(router::CordonOrder{worker, service, {}}, {}, clock_.Now(),
                               [](const std::vector<router::WorkerAnswer>&) {}));
  CarryOut();
}

// Refused while no worker is there.
void SimRouter::Order(const router::EvictOrder& order) {
  static_cast<void>(core_.Send(order, {}, clock_.Now(), [](const std::vector<router::WorkerAnswer>&) {}));
  CarryOut();
}

void SimRouter::CarryOut() {
  for (auto effects = core_.TakeEffects(); !effects.empty(); effects = core_.TakeEffects()) {
    for (router::Effect& effect : effects) {
      if (const auto* const send = std::get_if<router::SendToWorker>(&effect)) {
        carry_(send->identity, send->message);
      } else if (const auto* const read = std::get_if<router::ReadBundle>(&effect)) {
        core_.OnTextBundle(read->bundle.digest, router::TextBundle{}, clock_.Now());
      } else {
        router::NotifyObserver(effect);
      }
    }
  }
}

bool SimRouter::ViewIs(const router::WorkerStatus& worker, const std::set<BlockHash>& held) const {
  const std::shared_ptr<const router::ServedModel> model = core_.models()->Main("demo");
  if (model == nullptr || worker.indexed_block_count != held.size()) return false;
  return std::all_of(held.begin(), held.end(), [&](const BlockHash hash) {
    const std::vector<WorkerMatch> holders = model->index->Match({&hash, 1});
    return std::any_of(holders.begin(), holders.end(),
                       [&](const WorkerMatch& holder) { return holder.worker == worker.slot; });
  });
}

}  // namespace roost::sim
