// Loads and fleets on which routers are known to fail, each with the required result. Times are virtual; loads are
// Poisson streams of prompts, seeded.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/base/rng.h"
#include "deploy/roostctl/simulate/arrival_times.h"
#include "deploy/roostctl/simulate/cost_profiles.h"
#include "deploy/roostctl/simulate/simulation.h"
#include "deploy/roostctl/workload/generators.h"
#include "tests/support/night.h"

namespace roost::simulate {
namespace {

using router::DecisionReason;
using workload::Trace;

constexpr double kSpanSeconds = 240;
constexpr std::uint32_t kBlockTokens = 64;
constexpr double kTokensPerSecond = 10'000;  // for a worker of speed 1

// Prompts that begin with one of several shared fronts and end with a part of their own.
struct Stream {
  double requests_per_second = 1;
  double from_seconds = 0;
  double until_seconds = kSpanSeconds;
  std::uint32_t first_front = 0;
  std::uint32_t front_count = 1;
  std::uint32_t front_tokens = 0;
  std::uint32_t own_tokens = 512;
  std::uint32_t output_tokens = 32;
};

class Load {
 public:
  explicit Load(std::uint64_t seed) : rng_(seed) {}

  Load& Add(const Stream& stream) {
    double at = stream.from_seconds;
    while ((at -= std::log(1 - rng_.Uniform()) / stream.requests_per_second) < stream.until_seconds) {
      AddRequest(stream, at);
    }
    return *this;
  }

  [[nodiscard]] Trace Take() {
    workload::SortByArrival(trace_);
    return std::move(trace_);
  }

 private:
  void AddRequest(const Stream& stream, double at) {
    const std::uint64_t front = 1 + stream.first_front + rng_.Below(stream.front_count);
    const std::uint32_t input = stream.front_tokens + stream.own_tokens;
    std::vector<workload::ContentId> blocks;
    for (std::uint32_t i = 0; i < (input + stream.output_tokens) / kBlockTokens; ++i) {
      const bool shared = i < stream.front_tokens / kBlockTokens;
      blocks.push_back((shared ? front << 48U : (trace_.requests.size() + 1) << 16U) | i);
    }
    trace_.requests.push_back({.arrival_seconds = at,
                               .input_token_count = input,
                               .output_token_count = stream.output_tokens,
                               .blocks = std::move(blocks)});
  }

  Rng rng_;
  Trace trace_{.block_tokens = kBlockTokens, .requests = {}};
};

// Requests per second that keep this many workers of speed 1 busy, if each request computes this many tokens.
double RateFor(double workers, double computed_tokens) { return workers * kTokensPerSecond / computed_tokens; }

SimulationOptions Fleet(std::size_t worker_count) {
  SimulationOptions options;
  options.workers.resize(worker_count);
  options.worker.cache_tokens = 400'000;
  options.worker.eviction = "class-aware";
  options.worker.service = kFreeDecode;
  options.worker.schedule_policy = worker::ParseSchedulePolicy(worker::kDefaultSchedulePolicy).value();
  options.worker.first_token_target = std::chrono::milliseconds(worker::kDefaultFirstTokenTargetMs);
  return options;
}

Outcome Play(const Trace& trace, std::string_view policy, const SimulationOptions& options) {
  const TraceText text(trace);
  Result<Outcome> outcome = Simulate(text, policy, options, nullptr);
  EXPECT_TRUE(outcome.ok()) << outcome.error().ToString();
  EXPECT_EQ(outcome->refused_count, 0U) << policy;
  return std::move(outcome).value();
}

// The times to the first token of requests that pass the filter.
template <typename Filter>
std::vector<double> Ttfts(const Trace& trace, const Outcome& outcome, Filter filter) {
  std::vector<double> seconds;
  for (std::size_t i = 0; i < trace.requests.size(); ++i) {
    const RequestRecord& record = outcome.requests[i];
    if (filter(trace.requests[i])) seconds.push_back(ToSeconds(*record.first_token - record.arrival));
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds;
}

// So many at night, else the first half of them.
std::vector<std::uint64_t> Seeds(std::size_t count) {
  std::vector<std::uint64_t> seeds(testing_support::IsNight() ? count : count / 2);
  std::iota(seeds.begin(), seeds.end(), 1);
  return seeds;
}

auto Between(double from_seconds, double until_seconds) {
  return [=](const workload::TraceRequest& request) {
    return request.arrival_seconds >= from_seconds && request.arrival_seconds < until_seconds;
  };
}

double Mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double P99(const std::vector<double>& sorted) { return sorted.at((sorted.size() * 99 - 1) / 100); }

std::uint64_t CountOf(const Outcome& outcome, DecisionReason reason) {
  const auto found = outcome.decisions.find(reason);
  return found == outcome.decisions.end() ? 0 : found->second;
}

// ---- one hot prefix is all traffic ----

constexpr std::uint32_t kFrontTokens = 8192;
constexpr std::uint32_t kOwnTokens = 512;

Trace OneHotPrefix(double busy_workers) {
  return Load(1)
      .Add({.requests_per_second = RateFor(busy_workers, kOwnTokens),
            .until_seconds = 240,  // so long that under 1 % of the requests come before the copies
            .front_tokens = kFrontTokens,
            .own_tokens = kOwnTokens})
      .Take();
}

TEST(AdversarialTest, AHotPrefixIsServedByMostWorkersAndWaitsNoLongerThanWithoutAffinity) {
  for (const double busy_workers : {0.6, 1.5, 2.8}) {
    SCOPED_TRACE(busy_workers);
    const Trace trace = OneHotPrefix(busy_workers);
    const Outcome outcome = Play(trace, "cache-aware", Fleet(4));
    const auto used =
        std::count_if(outcome.computed_tokens_by_worker.begin(), outcome.computed_tokens_by_worker.end(),
                      [&](std::uint64_t computed) { return 10 * computed >= outcome.computed_token_count; });
    EXPECT_GE(used, 3);
    EXPECT_LE(outcome.ttft.p99, 1.5 * Play(trace, "least-requests", Fleet(4)).ttft.p99);
    EXPECT_LE(outcome.ttft.p99, 1.5 * Play(trace, "least-tokens", Fleet(4)).ttft.p99);
  }
}

// One worker could serve all requests, and its queue never grows to the time that computing the prefix takes. Copies
// are made deliberately, one per worker, and no request waits for a whole one.
TEST(AdversarialTest, CopiesAreMadeBeforeTheHolderSaturates) {
  const Outcome outcome = Play(OneHotPrefix(0.6), "cache-aware", Fleet(4));
  EXPECT_EQ(CountOf(outcome, DecisionReason::kReplicate), 3U);
  const auto computed = [](const RequestRecord& request) {
    return request.prompt_token_count - request.cached_token_count;
  };
  EXPECT_EQ(computed(outcome.requests.front()), kFrontTokens + kOwnTokens);
  const auto with_front =
      std::count_if(outcome.requests.begin() + 1, outcome.requests.end(),
                    [&](const RequestRecord& request) { return computed(request) > kOwnTokens + kFrontTokens / 2; });
  EXPECT_EQ(with_front, 0);
}

// ---- lengths and speeds ----

TEST(AdversarialTest, ShortPromptsDoNotWaitBehindLongOnes) {
  constexpr std::uint32_t kLongTokens = 60'000;
  const Stream shorts{.requests_per_second = RateFor(3.2, kOwnTokens)};
  const Trace alone = Load(1).Add(shorts).Take();
  const Trace mixed =
      Load(1).Add(shorts).Add({.requests_per_second = RateFor(1.6, kLongTokens), .own_tokens = kLongTokens}).Take();
  const auto is_short = [](const workload::TraceRequest& request) { return request.input_token_count < kLongTokens; };
  const double p99 = P99(Ttfts(mixed, Play(mixed, "cache-aware", Fleet(8)), is_short));
  EXPECT_LE(p99, 3 * Play(alone, "cache-aware", Fleet(8)).ttft.p99);
  EXPECT_LE(p99, P99(Ttfts(mixed, Play(mixed, "least-requests", Fleet(8)), is_short)));
}

TEST(AdversarialTest, SharesFollowSpeed) {
  constexpr double kSlow = 0.25;
  SimulationOptions options = Fleet(6);
  for (const std::size_t slow : {3U, 4U, 5U}) options.workers[slow].speed = kSlow;
  const Trace trace =
      Load(1).Add({.requests_per_second = RateFor(0.8 * (3 + 3 * kSlow), 2048), .own_tokens = 2048}).Take();
  const Outcome outcome = Play(trace, "cache-aware", options);
  const auto& computed = outcome.computed_tokens_by_worker;
  const auto [slow_least, slow_most] = std::minmax_element(computed.begin() + 3, computed.end());
  EXPECT_GE(static_cast<double>(*std::min_element(computed.begin(), computed.begin() + 3)),
            static_cast<double>(*slow_most) / kSlow);
  EXPECT_GE(200 * *slow_least, outcome.computed_token_count);
  EXPECT_LE(10 * outcome.ttft.p99, Play(trace, "round-robin", options).ttft.p99);
  EXPECT_LE(outcome.ttft.p99, Play(trace, "least-requests", options).ttft.p99);
}

// ---- a changing fleet, an old or partial view ----

constexpr std::uint32_t kManyFronts = 60;

Stream ManyFronts(double busy_workers) {
  return {.requests_per_second = RateFor(busy_workers, kOwnTokens),
          .front_count = kManyFronts,
          .front_tokens = kFrontTokens / 2,
          .own_tokens = kOwnTokens};
}

TEST(AdversarialTest, AWorkerThatJoinsColdIsUsedWithinSecondsAndHarmsNobody) {
  constexpr int kJoinSeconds = static_cast<int>(kSpanSeconds) / 2;
  constexpr int kSoonSeconds = 10;
  SimulationOptions joined = Fleet(5);
  joined.workers.back().joins_after = std::chrono::seconds(kJoinSeconds);
  Stream stream = ManyFronts(2.4);
  const Trace trace = Load(1).Add(stream).Take();
  const auto later = Between(kJoinSeconds, kSpanSeconds);
  const double p99 = P99(Ttfts(trace, Play(trace, "cache-aware", joined), later));
  EXPECT_LE(p99, 1.05 * P99(Ttfts(trace, Play(trace, "cache-aware", Fleet(4)), later)));

  stream.until_seconds = kJoinSeconds + kSoonSeconds;
  const double fair = kSoonSeconds * stream.requests_per_second * kOwnTokens / 5;
  double computed = 0;  // average of several loads, because a share has only two dozen prompts
  const std::vector<std::uint64_t> seeds = Seeds(8);
  for (const std::uint64_t seed : seeds) {
    const Outcome soon = Play(Load(seed).Add(stream).Take(), "cache-aware", joined);
    computed += static_cast<double>(soon.computed_tokens_by_worker.back()) / static_cast<double>(seeds.size());
  }
  EXPECT_GE(computed, 0.4 * fair);
}

// Prefixes that all other workers hold in part would never reach a worker that holds nothing, while all are idle.
TEST(AdversarialTest, AColdWorkerGetsItsShareOfMissesInAnIdleFleet) {
  SimulationOptions options = Fleet(5);
  options.workers.back().joins_after = std::chrono::seconds(60);
  const Trace trace = Load(1)
                          .Add({.requests_per_second = RateFor(0.4, 2048),
                                .until_seconds = 100,
                                .front_tokens = 1024,
                                .own_tokens = 3072})
                          .Take();
  const Outcome outcome = Play(trace, "cache-aware", options);
  EXPECT_GT(outcome.computed_tokens_by_worker.back(), 3072U);
}

// While caches are cold, old reports make filling them slower.
TEST(AdversarialTest, ReportsThatAreHalfASecondOldDoLittleHarmToAWarmFleet) {
  SimulationOptions stale = Fleet(4);
  stale.worker.load_interval = stale.event_delay = std::chrono::milliseconds(500);
  const auto warm = Between(kSpanSeconds / 2, kSpanSeconds);
  double of_fresh = 0;
  double of_stale = 0;
  for (const std::uint64_t seed : Seeds(4)) {
    const Trace trace = Load(seed).Add(ManyFronts(2.4)).Take();
    const Outcome fresh_outcome = Play(trace, "cache-aware", Fleet(4));
    const Outcome stale_outcome = Play(trace, "cache-aware", stale);
    of_fresh += Mean(Ttfts(trace, fresh_outcome, warm));
    of_stale += Mean(Ttfts(trace, stale_outcome, warm));
    EXPECT_GE(stale_outcome.hit_ratio, 0.95 * fresh_outcome.hit_ratio);
  }
  EXPECT_LE(of_stale, 1.4 * of_fresh);
}

TEST(AdversarialTest, FourRoutersThatShareNothingDecideAboutAsWellAsOne) {
  double one = 0;
  double four = 0;
  for (const std::uint64_t seed : Seeds(4)) {
    workload::MultiTurnChatOptions chat;
    chat.session_count = 1000;
    chat.start_span_seconds = 600;
    chat.seed = seed;
    Trace trace = workload::MultiTurnChat(chat);
    SimulationOptions options = Fleet(8);
    ScaleToUtilisation(trace, 0.7, kFreeDecode, {.speed = 8});
    const Outcome of_one = Play(trace, "cache-aware", options);
    options.router_count = 4;
    const Outcome of_four = Play(trace, "cache-aware", options);
    EXPECT_GE(of_four.hit_ratio, 0.95 * of_one.hit_ratio);
    one += of_one.ttft.mean;
    four += of_four.ttft.mean;
  }
  EXPECT_LE(four, 1.1 * one);
}

// Workers take short prompts first, and tell each router what the others have queued.
TEST(AdversarialTest, FourRoutersSeeOneQueue) {
  constexpr std::uint32_t kLongTokens = 40'000;
  const Trace trace = Load(1)
                          .Add({.requests_per_second = RateFor(2.5, kOwnTokens)})
                          .Add({.requests_per_second = RateFor(4, kLongTokens), .own_tokens = kLongTokens})
                          .Take();
  SimulationOptions options = Fleet(8);
  const double one = Play(trace, "cache-aware", options).ttft.mean;
  options.router_count = 4;
  EXPECT_LE(Play(trace, "cache-aware", options).ttft.mean, 1.05 * one);
}

// Documents that become popular: all requests for one arrive within a second, through any router.
TEST(AdversarialTest, FourRoutersComputeANewDocumentOnce) {
  constexpr std::uint32_t kDocumentTokens = 16'000;
  Load load(1);
  for (std::uint32_t document = 0; document < kSpanSeconds; ++document) {
    const double comes = document;
    load.Add({.requests_per_second = 8,
              .from_seconds = comes,
              .until_seconds = comes + 1,
              .first_front = document,
              .front_tokens = kDocumentTokens});
  }
  const Trace trace = load.Take();
  SimulationOptions options = Fleet(8);
  const Outcome one = Play(trace, "cache-aware", options);
  options.router_count = 4;
  const Outcome four = Play(trace, "cache-aware", options);
  EXPECT_GE(four.hit_ratio, 0.97 * one.hit_ratio);
  EXPECT_LE(four.ttft.mean, 1.05 * one.ttft.mean);
}

TEST(AdversarialTest, AnAbruptChangeOfPopularityIsOverSoon) {
  constexpr double kChange = kSpanSeconds / 2;
  constexpr double kRecoverySeconds = 20;
  Stream before = ManyFronts(2.4);
  before.front_count = kManyFronts / 3;
  before.until_seconds = kChange;
  Stream after = before;
  after.first_front = before.front_count;
  after.from_seconds = kChange;
  after.until_seconds = kSpanSeconds;
  const Trace trace = Load(1).Add(before).Add(after).Take();
  const Outcome outcome = Play(trace, "cache-aware", Fleet(4));
  const double usual = Mean(Ttfts(trace, outcome, Between(kRecoverySeconds, kChange)));
  EXPECT_LE(Mean(Ttfts(trace, outcome, Between(kChange + kRecoverySeconds, kSpanSeconds))), 1.2 * usual);
  const auto upheaval = Between(kChange, kChange + kRecoverySeconds);
  EXPECT_LE(Mean(Ttfts(trace, outcome, upheaval)), Mean(Ttfts(trace, Play(trace, "least-tokens", Fleet(4)), upheaval)));
}

// ---- workers that fetch blocks from each other ----

// GPUs with links of 25 Gbit/s: a block of 64 tokens has 8 MiB and takes 2.7 ms, computing it 1.4 ms and more.
SimulationOptions LinkedFleet(std::size_t worker_count) {
  SimulationOptions options = Fleet(worker_count);
  options.worker.service = kLlama8bOnH100;
  options.worker.links.gigabits_per_second = 25;
  return options;
}

Outcome WithoutPulls(const Trace& trace, SimulationOptions options) {
  options.routing.pulls = router::RequestPulls::kOff;
  return Play(trace, "cache-aware", options);
}

// The mean times to the first token and of the answer are at most `ratio` times those without pulls.
void ExpectNoWorse(const Outcome& with_pulls, const Outcome& without, double ratio) {
  EXPECT_LE(with_pulls.ttft.mean, ratio * without.ttft.mean);
  EXPECT_LE(with_pulls.whole.mean, ratio * without.whole.mean);
}

// A worker holds a long document, and all ask for it within seconds. Each other worker fetches it once.
TEST(AdversarialTest, PullsOfAHotPrefixDoNotPileOnOneLink) {
  constexpr std::uint32_t kDocumentTokens = 32'768;
  const Trace trace = Load(1)
                          .Add({.requests_per_second = 0.1, .until_seconds = 30, .front_tokens = kDocumentTokens})
                          .Add({.requests_per_second = 200,
                                .from_seconds = 30,
                                .until_seconds = 33,
                                .front_tokens = kDocumentTokens,
                                .output_tokens = 128})
                          .Take();
  const SimulationOptions options = LinkedFleet(8);
  const Outcome outcome = Play(trace, "cache-aware", options);
  ExpectNoWorse(outcome, WithoutPulls(trace, options), 1.05);
  EXPECT_GE(outcome.pulls->token_count, std::uint64_t{kDocumentTokens});
  EXPECT_LE(outcome.pulls->token_count, std::uint64_t{2 * 7 * kDocumentTokens});
}

// Long prompts come while answers run: computed apart they stall none of them, and every request ends.
TEST(AdversarialTest, LongPromptsGoApartFromAnswersThatRun) {
  const Trace trace = Load(1)
                          .Add({.requests_per_second = 8, .until_seconds = 60, .own_tokens = 256, .output_tokens = 800})
                          .Add({.requests_per_second = 2,
                                .from_seconds = 10,
                                .until_seconds = 60,
                                .own_tokens = 8192,
                                .output_tokens = 64})
                          .Take();
  SimulationOptions options = LinkedFleet(4);
  options.worker.links.gigabits_per_second = 200;
  options.workers[0].role = wire::WorkerRole::kPrefill;
  for (std::size_t i = 1; i < 4; ++i) options.workers[i].role = wire::WorkerRole::kDecode;
  const Outcome outcome = Play(trace, "cache-aware", options);
  EXPECT_GE(CountOf(outcome, DecisionReason::kApart), 50U);
  EXPECT_EQ(outcome.refused_count, 0U);
}

// Conversations of many fronts, more than one worker can keep.
Trace FrontsForLinks(std::uint64_t seed) {
  return Load(seed)
      .Add({.requests_per_second = 14,
            .until_seconds = 120,
            .front_count = 40,
            .front_tokens = 16'384,
            .own_tokens = 1024,
            .output_tokens = 256})
      .Take();
}

TEST(AdversarialTest, AWorkerWithASlowLinkIsLeftAlone) {
  const Trace trace = FrontsForLinks(1);
  SimulationOptions options = LinkedFleet(4);
  const std::uint64_t pulled = Play(trace, "cache-aware", options).pulls->token_count;
  EXPECT_GT(pulled, 0U);
  options.workers.front().link.speed = 0.01;
  Outcome with_pulls;
  Outcome without;
  for (const std::uint64_t seed : Seeds(4)) {
    const Trace own = FrontsForLinks(seed);
    for (auto [sum, outcome] :
         {std::pair(&with_pulls, Play(own, "cache-aware", options)), std::pair(&without, WithoutPulls(own, options))}) {
      sum->ttft.mean += outcome.ttft.mean;
      sum->whole.mean += outcome.whole.mean;
    }
  }
  ExpectNoWorse(with_pulls, without, 1.05);
}

// Its link is silent, so that each fetch from it breaks after two seconds.
TEST(AdversarialTest, ALinkThatBreaksCostsLittle) {
  const Trace trace = FrontsForLinks(1);
  SimulationOptions options = LinkedFleet(4);
  options.workers.front().link.breaks_after = std::chrono::seconds(40);
  ExpectNoWorse(Play(trace, "cache-aware", options), WithoutPulls(trace, options), 1.1);
}

TEST(AdversarialTest, ASourceThatLeavesCostsNoMoreThanWithoutPulls) {
  const Trace trace = FrontsForLinks(1);
  SimulationOptions options = LinkedFleet(4);
  options.workers.front().restarts_after = std::chrono::seconds(40);
  ExpectNoWorse(Play(trace, "cache-aware", options), WithoutPulls(trace, options), 1.05);
}

// Routers see each other's pulls in the workers' reports.
TEST(AdversarialTest, PullsOfFourRoutersDoNoHarm) {
  const Trace trace = FrontsForLinks(1);
  SimulationOptions options = LinkedFleet(4);
  options.router_count = 4;
  ExpectNoWorse(Play(trace, "cache-aware", options), WithoutPulls(trace, options), 1.05);
}

}  // namespace
}  // namespace roost::simulate
