// The core against workers that crash, restart, lose and repeat messages, drift and refuse, and clients that leave.
// Three things must always hold. Every accepted request ends once. A stream is a prefix of the one right answer, and
// the whole answer unless it was cancelled or failed. When the faults stop, every view is exact and nothing is charged.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/router/fleet/fleet_sim.h"
#include "tests/support/sanitized.h"

namespace roost::router {
namespace {

using namespace std::chrono_literals;

class FleetFuzz {
 public:
  // In some runs so small that requests wait at the router.
  static FleetCoreOptions RandomBounds(Rng& rng) {
    FleetCoreOptions options;
    options.requests.routing.min_copies = static_cast<std::uint32_t>(1 + rng.Below(3));
    if (rng.Below(2) == 0) return options;
    options.requests.worker_queue_bound = static_cast<std::uint32_t>(1 + rng.Below(4));
    options.requests.max_queue = static_cast<std::uint32_t>(rng.Below(8));
    options.requests.max_queue_wait = std::chrono::milliseconds(rng.Below(3000));
    return options;
  }

  explicit FleetFuzz(std::uint64_t seed)
      : rng_(seed),
        sim_(seed, rng_.Below(4) == 0 ? "random" : "cache-aware", RandomBounds(rng_)),
        worker_count_(1 + rng_.Below(4)) {
    for (std::size_t i = 0; i < worker_count_; ++i) Join("w" + std::to_string(i));
  }

  void Run(int action_count) {
    for (int i = 0; i < action_count; ++i) Act();
    for (const auto& [id, worker] : sim_.workers) worker->SetOtherPrompts({});
    sim_.Recover();
    if (sim_.core.copy_count() > 0) {  // the answer to its Hold was lost
      sim_.Advance(PrefixCopies::kPullPatience + HoldBook::kAnswerPatience);
      sim_.Run();
    }
    CheckRequests();
    CheckViews();
  }

 private:
  // Most of them fetch blocks from each other.
  void Join(const std::string& id) {
    FakeWorker& worker = sim_.AddWorker(id);
    if (rng_.Below(4) > 0) worker.SetTransfers("127.0.0.1:7100");
    if (rng_.Below(2) > 0) worker.SetDisk(1e6 * static_cast<double>(rng_.Below(1000)), 1000);
    worker.hello().role = static_cast<wire::WorkerRole>(rng_.Below(wire::kWorkerRoleNames.size()));
    worker.SayHello();
    sim_.DeliverAll();
  }

  FakeWorker& AnyWorker() {
    return *std::next(sim_.workers.begin(), static_cast<long>(rng_.Below(worker_count_)))->second;
  }

  void Act() {
    static const std::vector<std::pair<std::uint64_t, void (FleetFuzz::*)(FakeWorker&)>> kActions = {
        {30, &FleetFuzz::DeliverOne},  {8, &FleetFuzz::Step},          {6, &FleetFuzz::Submit},
        {5, &FleetFuzz::CarryOut},     {4, &FleetFuzz::PassTime},      {2, &FleetFuzz::Evict},
        {2, &FleetFuzz::Cancel},       {2, &FleetFuzz::FillUp},        {2, &FleetFuzz::Revive},
        {2, &FleetFuzz::Hello},        {2, &FleetFuzz::EvictSilently}, {2, &FleetFuzz::TellOthers},
        {1, &FleetFuzz::Kill},         {1, &FleetFuzz::Restart},       {1, &FleetFuzz::Tamper},
        {1, &FleetFuzz::Bye},          {1, &FleetFuzz::ChangeHolds},   {3, &FleetFuzz::WriteToDisk},
        {2, &FleetFuzz::DropFromDisk},
    };
    std::uint64_t total = 0;
    for (const auto& [weight, action] : kActions) total += weight;
    std::uint64_t roll = rng_.Below(total);
    for (const auto& [weight, action] : kActions) {
      if (roll < weight) return (this->*action)(AnyWorker());
      roll -= weight;
    }
  }

  void DeliverOne(FakeWorker& worker) { sim_.DeliverOne(worker); }
  void Step(FakeWorker& worker) { worker.Step(); }
  void CarryOut(FakeWorker&) { sim_.CarryOutEffects(); }
  void Evict(FakeWorker& worker) { worker.Evict(rng_.Below(8)); }
  void EvictSilently(FakeWorker& worker) { worker.EvictSilently(rng_.Below(3)); }
  // A disk holds what its worker has forgotten, and may lose it without a word.
  void WriteToDisk(FakeWorker& worker) {
    worker.WriteToDisk(BlocksOf(MakePrompt(static_cast<TokenId>(rng_.Below(4)), 1 + rng_.Below(40))));
  }
  void DropFromDisk(FakeWorker& worker) {
    using Telling = FakeWorker::Telling;
    worker.DropFromDisk(rng_.Below(6), rng_.Below(4) == 0 ? Telling::kIsSilent : Telling::kTells);
  }
  void FillUp(FakeWorker& worker) { worker.SetFull(rng_.Below(3) == 0); }
  // A worker's answers need not make sense.
  void ChangeHolds(FakeWorker& worker) {
    worker.SetHoldResult(static_cast<wire::HoldOutcome>(rng_.Below(wire::kHoldOutcomeNames.size())),
                         static_cast<std::uint32_t>(rng_.Below(8)));
  }
  void Kill(FakeWorker& worker) { sim_.Kill(worker); }
  void Revive(FakeWorker& worker) {
    if (sim_.IsCutOff(worker)) sim_.Revive(worker);
  }
  void Hello(FakeWorker& worker) { worker.SayHello(); }
  void Bye(FakeWorker& worker) { worker.SayBye(); }
  void Restart(FakeWorker& worker) {
    worker.Restart();
    worker.SayHello();
  }

  void Submit(FakeWorker&) {
    // Few families of prompts, so that prefixes are shared.
    const auto prompt = MakePrompt(static_cast<TokenId>(rng_.Below(4)), 1 + rng_.Below(40));
    GenerateSpec wishes;
    wishes.generate.sample_count = rng_.Below(3) == 0 ? static_cast<std::uint32_t>(2 + rng_.Below(3)) : 1;
    const auto max_output_tokens = static_cast<std::uint32_t>(1 + rng_.Below(30));
    if (rng_.Below(3) == 0) wishes.generate.output_logprobs = static_cast<std::uint32_t>(rng_.Below(3));
    if (rng_.Below(4) == 0) wishes.generate.prompt_logprobs = static_cast<std::uint32_t>(rng_.Below(3));
    if (rng_.Below(4) == 0)
      wishes.generate.min_output_tokens = static_cast<std::uint32_t>(rng_.Below(max_output_tokens + 1));
    requests_.push_back(sim_.Submit(prompt, max_output_tokens, wishes));
  }

  void Cancel(FakeWorker&) {
    if (requests_.empty()) return;
    const auto& request = requests_[rng_.Below(requests_.size())];
    if (request.id.has_value()) sim_.core.Cancel(*request.id);
  }

  // Prompts of other routers, from the same families. A worker's reports need not make sense.
  void TellOthers(FakeWorker& worker) {
    std::vector<wire::OtherPrompt> prompts;
    for (std::uint64_t n = rng_.Below(4); n > 0; --n) {
      const auto prompt = MakePrompt(static_cast<TokenId>(rng_.Below(4)), 1 + rng_.Below(40));
      prompts.push_back({static_cast<std::uint32_t>(prompt.size()), 0, rng_.Below(6)});
      if (rng_.Below(2) == 0) prompts.back().hashes = BlocksOf(prompt);
    }
    worker.SetOtherPrompts(std::move(prompts));
  }

  void PassTime(FakeWorker&) {
    sim_.clock.Advance(std::chrono::milliseconds(rng_.Below(900)));
    sim_.Tick();
  }

  void Tamper(FakeWorker& worker) {
    std::deque<wire::WorkerMessage>& outbox = worker.outbox();
    switch (rng_.Below(5)) {
      case 0: sim_.core.OnUnreachable(worker.id(), sim_.clock.Now()); return;
      case 1: sim_.core.OnMalformed(worker.id(), DataLoss("frame", "garbage"), sim_.clock.Now()); return;
      default: break;
    }
    if (outbox.size() < 2) return;
    switch (rng_.Below(3)) {
      case 0: outbox.pop_front(); break;
      case 1: outbox.push_front(outbox.front()); break;
      default: std::swap(outbox[0], outbox[1]); break;
    }
  }

  void CheckRequests() {
    ASSERT_EQ(sim_.core.request_count(), 0U);
    ASSERT_EQ(sim_.core.waiting_count(), 0U);
    ASSERT_EQ(sim_.core.pending_count(), 0U);
    ASSERT_EQ(sim_.core.copy_count(), 0U);
    for (const auto& request : requests_) {
      const RecordingObserver& seen = *request.observer;
      ASSERT_EQ(seen.end.has_value(), request.id.has_value());
      ASSERT_NE(request.id.has_value(), request.refusal.has_value());
      if (!seen.end.has_value()) {
        ASSERT_TRUE(seen.workers.empty());
        continue;
      }
      for (std::uint32_t choice = 0; choice < request.sample_count; ++choice) CheckChoice(request, choice);
      ASSERT_LE(seen.choice_ends.size(), request.sample_count - 1);
      if (request.sample_count == 1) {
        // Beside two retries: refusals, which do not count as such, up to two moves for late tokens, and answers that
        // go on elsewhere than their prompts.
        std::map<std::string, int>& retries = sim_.metrics.retries;
        const int refusals = retries["overloaded"];
        const int late = std::min(2, retries["no_first_token"] + retries["no_later_token"]);
        const auto apart = std::count_if(seen.decisions.begin(), seen.decisions.end(),
                                         [](const Decision& decision) { return decision.apart.has_value(); });
        ASSERT_LE(seen.workers.size(), 3U + static_cast<std::size_t>(refusals + late + apart));
      }
    }
  }

  static void CheckChoice(const FleetSim::Request& request, std::uint32_t choice) {
    const RecordingObserver& seen = *request.observer;
    const auto found = seen.choices.find(choice);
    const std::vector<TokenId> tokens = found == seen.choices.end() ? std::vector<TokenId>() : found->second;
    const auto expected = ExpectedOutput(request.prompt, request.max_output_tokens, choice, request.min_output_tokens);
    ASSERT_LE(tokens.size(), expected.size());
    ASSERT_TRUE(std::equal(tokens.begin(), tokens.end(), expected.begin()));
    const bool whole = seen.choice_ends.contains(choice) || !wire::EndsAllChoices(seen.end->reason);
    ASSERT_TRUE(!whole || tokens.size() == expected.size());
    CheckLogprobs(request, choice, tokens);
  }

  static void CheckLogprobs(const FleetSim::Request& request, std::uint32_t choice,
                            const std::vector<TokenId>& tokens) {
    const RecordingObserver& seen = *request.observer;
    const auto found = seen.logprobs.find(choice);
    const auto told = found == seen.logprobs.end() ? std::vector<wire::TokenLogprobs>() : found->second;
    std::vector<TokenId> text = request.prompt;
    text.insert(text.end(), tokens.begin(), tokens.end());
    ASSERT_EQ(told.empty(), tokens.empty() || !request.output_logprobs.has_value());
    ASSERT_TRUE(told.empty() || told == ExpectedLogprobs(text, request.prompt.size(), *request.output_logprobs));
    ASSERT_TRUE(seen.prompt_logprobs.has_value() || tokens.empty() || !request.prompt_logprobs.has_value());
    if (!seen.prompt_logprobs.has_value()) return;
    ASSERT_TRUE(*seen.prompt_logprobs == ExpectedLogprobs(request.prompt, 1, request.prompt_logprobs.value()));
  }

  void CheckViews() {
    ASSERT_EQ(sim_.core.Workers(sim_.clock.Now()).size(), worker_count_);
    for (const auto& [id, worker] : sim_.workers) {
      ASSERT_TRUE(sim_.ViewIsExact(*worker)) << id;
      ASSERT_EQ(sim_.StatusOf(id)->in_flight_requests, 0U) << id;
    }
    for (const auto& request : requests_) {
      const auto chain = BlocksOf(request.prompt);
      std::vector<std::uint32_t> found;
      std::vector<std::uint32_t> found_on_disk;
      for (const WorkerMatch& match : sim_.Match(chain)) {
        (IsDisk(match.worker) ? found_on_disk : found).push_back(match.block_count);
      }
      std::vector<std::uint32_t> held;
      std::vector<std::uint32_t> on_disk;
      for (const auto& [id, worker] : sim_.workers) {
        held.push_back(worker->Held(chain));
        on_disk.push_back(worker->OnDisk(chain));
      }
      for (std::vector<std::uint32_t>* const depths : {&held, &on_disk}) {
        std::erase(*depths, 0U);
        std::sort(depths->rbegin(), depths->rend());
      }
      ASSERT_EQ(found, held);
      ASSERT_EQ(found_on_disk, on_disk);
    }
  }

  Rng rng_;
  FleetSim sim_;
  std::size_t worker_count_;
  std::vector<FleetSim::Request> requests_;
};

TEST(FleetCoreFuzzTest, EveryRequestEndsOnceAndEveryViewIsExactInTheEnd) {
  constexpr std::uint64_t kSeeds = testing_support::kSanitized ? 200 : 2000;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    FleetFuzz(seed).Run(400);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace roost::router
