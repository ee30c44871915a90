// Candidates that fetch a prompt's blocks from another worker, against naive models.
#include "router/route/pulls.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "router/route/cache_aware.h"
#include "router/route/candidates.h"
#include "tests/router/route/block_travel.h"
#include "tests/router/route/fleets.h"

namespace roost::router {
namespace {

// ---- the cheapest way ----

// The cost of a way, each term from its definition.
double CostBy(const Candidate& base, const Candidate& pulling, const TransferPrice& price, double rate,
              std::uint32_t running_requests) {
  const double wait = std::max(base.pace * pulling.queue_seconds, price.seconds);
  const double computing = pulling.pulled_tokens / rate;
  const double displaced = (pulling.congestion - 1) * computing + 0.4 * running_requests * computing / 2;
  return wait +
         pulling.pace * (pulling.congestion * (pulling.prefill_seconds + pulling.decode_seconds) +
                         pulling.delay_seconds + pulling.stall_seconds + displaced) +
         pulling.answer_pace * (pulling.answer_seconds + pulling.slo_seconds);
}

struct NaiveWay {
  double cost = 0;
  std::optional<WorkerSlot> source;
};

// Tries every source of those that count.
NaiveWay CheapestWay(const RouteQuery& query, const FleetView& fleet, const WorkerView& worker) {
  const Candidate base = PredictCost(PromptOn(query, worker.slot), worker, fleet.speed(), query.now);
  NaiveWay best{base.cost_seconds(), std::nullopt};
  const WorkerMatch* own = nullptr;
  std::vector<std::pair<std::uint32_t, WorkerSlot>> sources;
  for (const WorkerMatch& match : query.matches) {
    if (match.worker == worker.slot) own = &match;
    sources.emplace_back(match.block_count - match.pending_block_count, match.worker);
  }
  const std::uint32_t matched = own == nullptr ? 0 : own->block_count;
  const std::uint32_t computing = own == nullptr || own->pending_seconds > 0 ? 0 : own->pending_block_count;
  const std::uint32_t first = matched - computing;
  const std::uint32_t usable = (query.prompt_token_count - 1) / worker.block_tokens;
  std::sort(sources.begin(), sources.end(), [&](const auto& a, const auto& b) {
    return std::make_tuple(~a.first, query.transfers->QueuedOut(a.second), a.second) <
           std::make_tuple(~b.first, query.transfers->QueuedOut(b.second), b.second);
  });
  int tried = 0;
  for (const auto& [held, slot] : sources) {
    const std::uint32_t end = std::min(held, usable);
    if (end <= matched || tried == 4) break;
    const auto offer = query.transfers->Offer({.from = slot, .to = worker.slot}, end - first, *query.now);
    if (!offer || offer->is_paused) continue;
    ++tried;
    PromptOnWorker prompt = PromptOn(query, worker.slot);
    const double arriving = prompt.pending_seconds;
    prompt.matched_block_count = end;  // as if it held them
    prompt.pending_block_count = 0;
    prompt.pending_seconds = 0;
    Candidate pulling = PredictCost(prompt, worker, fleet.speed(), query.now);
    pulling.pulled_tokens = pulling.matched_tokens - base.matched_tokens;
    TransferPrice price = offer->price;
    price.seconds = std::max(price.seconds, arriving);
    const double rate = worker.prefill_tokens_per_second > 0 ? worker.prefill_tokens_per_second
                                                             : fleet.speed().prefill_tokens_per_second;
    const double cost = CostBy(base, pulling, price, rate, worker.running_requests);
    if (cost < best.cost - 1e-12) best = {cost, slot};
  }
  return best;
}

// Random workers of two kinds, some of which serve, with random rates, queues and pauses.
void Fill(Transfers& transfers, Rng& rng) {
  for (std::uint32_t slot = 0; slot < 40; ++slot) {
    TransferPlace place = Place(7 + rng.Below(2));
    place.fetches = rng.Below(4) > 0;
    place.serves = rng.Below(3) > 0;
    transfers.Join(WorkerSlot(slot), place);
  }
  for (int i = 0; i < 200; ++i) {
    const WorkerPair ends = Pair(static_cast<std::uint32_t>(rng.Below(40)), static_cast<std::uint32_t>(rng.Below(40)));
    Teach(transfers, ends, 1e5 * static_cast<double>(1 + rng.Below(1000)));
    if (rng.Below(8) > 0) continue;
    transfers.Send(1, ends, 1, kNow);
    transfers.End(1, wire::HoldAnswer{.outcome = wire::HoldOutcome::kBroken}, kNow);
  }
  for (std::uint32_t slot = 0; slot < 40; ++slot) {
    wire::Load load;
    load.leaving_bytes = rng.Below(2) * rng.Below(10'000'000);
    load.arriving_bytes = rng.Below(2) * rng.Below(10'000'000);
    transfers.Report(WorkerSlot(slot), load, kNow);
  }
}

// The answer has its length for bounds too: ttft counts there, so this compares without them.
TEST(PullsModelTest, EachCandidateHasItsCheapestWay) {
  Rng rng(11);
  int pulling = 0;
  for (int round = 0; round < 3000; ++round) {
    SCOPED_TRACE(round);
    Situation situation = RandomSituation(rng);
    if (situation.matches.size() > Sources::kMaxListed) situation.matches.resize(Sources::kMaxListed);
    for (WorkerMatch& match : situation.matches) {
      match.pending_block_count = rng.Below(3) == 0 ? static_cast<std::uint32_t>(rng.Below(match.block_count + 1)) : 0;
      if (match.pending_block_count > 0 && rng.Below(2) == 0) match.pending_seconds = static_cast<float>(rng.Uniform());
    }
    Transfers transfers;
    Fill(transfers, rng);
    RouteQuery query = situation.query();
    query.transfers = &transfers;
    query.now = kNow;
    const std::vector<Candidate> candidates = FindCandidates(query, situation.fleet);
    const double least = candidates.empty() ? 0 : candidates.front().cost_seconds();
    for (const Candidate& candidate : candidates) {
      const WorkerView& worker = *situation.fleet.Find(candidate.slot);
      const NaiveWay naive = situation.fleet.speed().is_known() ? CheapestWay(query, situation.fleet, worker)
                                                                : NaiveWay{candidate.cost_seconds(), std::nullopt};
      // Ways that would not have won are not looked for.
      if (!candidate.pull && naive.cost > least + std::min(kTieSeconds, kTieShare * least)) continue;
      EXPECT_NEAR(candidate.cost_seconds(), naive.cost, 1e-9 * std::max(1.0, naive.cost));
      EXPECT_EQ(candidate.pull.has_value(), naive.source.has_value());
      pulling += candidate.pull.has_value() ? 1 : 0;
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(pulling, 1000);
}

// ---- the same, with every price made from nothing ----

// All that a candidate says.
std::vector<double> ValuesOf(const Candidate& candidate) {
  std::vector<double> values{static_cast<double>(candidate.slot.value()),
                             static_cast<double>(candidate.matched_tokens),
                             static_cast<double>(candidate.pending_tokens),
                             static_cast<double>(candidate.pulled_tokens),
                             candidate.queue_seconds,
                             candidate.transfer_seconds,
                             candidate.displaced_seconds,
                             candidate.prefill_seconds,
                             candidate.decode_seconds,
                             candidate.delay_seconds,
                             candidate.token_seconds,
                             candidate.answer_seconds,
                             candidate.stall_seconds,
                             candidate.slo_seconds,
                             candidate.is_pending_coming ? 1.0 : 0.0,
                             candidate.congestion,
                             candidate.pace,
                             candidate.answer_pace,
                             candidate.cost_seconds()};
  if (!candidate.pull) return values;
  const PrefixPull& pull = *candidate.pull;
  values.insert(values.end(), {static_cast<double>(pull.source.value()), static_cast<double>(pull.first_block),
                               static_cast<double>(pull.block_count), pull.price.seconds, pull.price.bytes});
  return values;
}

// As Pulls, with PredictCost for each source and no memory between prices.
class NaivePulls {
 public:
  NaivePulls(const RouteQuery& query, const FleetView& fleet) : query_(query), fleet_(fleet) {
    for (const WorkerMatch& match : query.matches) {
      const std::uint32_t held = match.block_count - match.pending_block_count;
      if (held > 0 && query.transfers->Serves(match.worker)) sources_.emplace_back(held, match.worker);
    }
    std::sort(sources_.begin(), sources_.end(), [&](const auto& a, const auto& b) {
      return std::make_tuple(~a.first, query.transfers->QueuedOut(a.second), a.second) <
             std::make_tuple(~b.first, query.transfers->QueuedOut(b.second), b.second);
    });
  }

  void Improve(std::vector<Candidate>& candidates) {
    if (sources_.empty() || !fleet_.speed().is_known()) return;
    double cheapest = std::numeric_limits<double>::infinity();
    for (const Candidate& candidate : candidates) cheapest = std::min(cheapest, candidate.cost_seconds());
    for (auto each = candidates.rbegin(); each != candidates.rend(); ++each) {
      Improve(*each, cheapest + std::min(kTieSeconds, kTieShare * cheapest));
      cheapest = std::min(cheapest, each->cost_seconds());
    }
  }

 private:
  void Improve(Candidate& candidate, double bound) {
    const WorkerView& worker = *fleet_.Find(candidate.slot);
    const PromptOnWorker own = PromptOn(query_, candidate.slot);
    const std::uint32_t usable = (query_.prompt_token_count - 1) / worker.block_tokens;
    const std::uint32_t first = own.matched_block_count - (own.pending_seconds > 0 ? 0 : own.pending_block_count);
    PromptOnWorker deep = own;
    deep.matched_block_count = std::min(sources_.front().first, usable);
    deep.pending_block_count = 0;
    deep.pending_seconds = 0;
    if (deep.matched_block_count <= own.matched_block_count) return;
    if (PredictCost(deep, worker, fleet_.speed(), query_.now).cost_seconds() > bound) return;
    int tried = 0;
    for (const auto& [held, source] : sources_) {
      const std::uint32_t end = std::min(held, usable);
      if (end <= own.matched_block_count || tried == 4) return;
      const auto offer =
          query_.transfers->Offer({.from = source, .to = candidate.slot}, end - first, query_.now.value());
      if (!offer || offer->is_paused) continue;
      ++tried;
      PromptOnWorker prompt = own;
      prompt.pull = {.source = source, .first_block = first, .block_count = end - first, .price = offer->price};
      const Candidate pulling = PredictCost(prompt, worker, fleet_.speed(), query_.now);
      if (pulling.cost_seconds() < candidate.cost_seconds()) candidate = pulling;
    }
  }

  const RouteQuery& query_;
  const FleetView& fleet_;
  std::vector<std::pair<std::uint32_t, WorkerSlot>> sources_;
};

// Workers with queues in which short prompts go first.
void FillQueues(FleetView& fleet, std::vector<PromptQueue>& queues, Rng& rng) {
  for (WorkerView worker : std::vector<WorkerView>(fleet.workers().begin(), fleet.workers().end())) {
    PromptQueue& queue = queues[worker.slot.value()];
    for (std::uint64_t number = 1; number <= rng.Below(6); ++number) {
      queue.Add(number, static_cast<std::uint32_t>(rng.Below(5000)), kNow - std::chrono::milliseconds(rng.Below(900)));
    }
    worker.prompts = &queue;
    worker.ageing_tokens = rng.Below(3) == 0 ? 0 : 100;
    fleet.Set(worker);
  }
}

// Bit for bit: a price that is made once for all ways of a worker is the one that is made for each.
TEST(PullsModelTest, PricesAreThoseOfEachWayByItself) {
  Rng rng(13);
  int pulling = 0;
  for (int round = 0; round < 3000; ++round) {
    SCOPED_TRACE(round);
    Situation situation = RandomSituation(rng);
    for (WorkerMatch& match : situation.matches) {
      match.pending_block_count = rng.Below(3) == 0 ? static_cast<std::uint32_t>(rng.Below(match.block_count + 1)) : 0;
      if (match.pending_block_count > 0 && rng.Below(2) == 0) match.pending_seconds = static_cast<float>(rng.Uniform());
    }
    std::vector<PromptQueue> queues(40);
    FillQueues(situation.fleet, queues, rng);
    Transfers transfers;
    Fill(transfers, rng);
    RouteQuery query = situation.query();
    query.transfers = &transfers;
    query.now = kNow;
    query.answer = {.own = 1000 * rng.Uniform(), .of_others = 1000 * rng.Uniform()};
    if (rng.Below(2) == 0) query.slo = {.ttft_seconds = 2 * rng.Uniform(), .itl_seconds = rng.Uniform()};
    std::vector<Candidate> candidates;
    for (const WorkerView& worker : situation.fleet.workers()) {
      candidates.push_back(PredictCost(PromptOn(query, worker.slot), worker, situation.fleet.speed(), query.now));
    }
    std::vector<Candidate> naive = candidates;
    Pulls pulls(query, situation.fleet);
    if (!pulls.empty()) pulls.Improve(candidates);
    NaivePulls naive_pulls(query, situation.fleet);
    naive_pulls.Improve(naive);
    for (std::size_t i = 0; i < naive.size(); ++i) {
      EXPECT_EQ(ValuesOf(candidates[i]), ValuesOf(naive[i]));
      pulling += naive[i].pull ? 1 : 0;
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(pulling, 1000);
}

// Where no worker can fetch, and where the fleet has no transfers: the same decisions, bit for bit.
TEST(PullsModelTest, WithoutPullsNothingChanges) {
  Rng rng(12);
  Transfers idle;
  for (std::uint32_t slot = 0; slot < 40; ++slot) idle.Join(WorkerSlot(slot), {});
  for (int round = 0; round < 1000; ++round) {
    const Situation situation = RandomSituation(rng);
    RouteQuery query = situation.query();
    query.now = kNow;
    const std::vector<Candidate> before = FindCandidates(query, situation.fleet);
    query.transfers = &idle;
    const std::vector<Candidate> after = FindCandidates(query, situation.fleet);
    ASSERT_EQ(before.size(), after.size());
    for (std::size_t i = 0; i < before.size(); ++i) {
      EXPECT_EQ(before[i].slot, after[i].slot);
      EXPECT_EQ(before[i].cost_seconds(), after[i].cost_seconds());
      EXPECT_EQ(after[i].transfer_seconds, 0);
      EXPECT_EQ(after[i].displaced_seconds, 0);
    }
  }
}

}  // namespace
}  // namespace roost::router
