#include "deploy/roostctl/simulate/simulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "common/base/rng.h"
#include "deploy/roostctl/simulate/arrival_times.h"
#include "deploy/roostctl/simulate/cost_profiles.h"
#include "deploy/roostctl/simulate/sim_router.h"
#include "deploy/roostctl/workload/generators.h"
#include "deploy/roostctl/workload/replay.h"
#include "deploy/roostctl/workload/source.h"
#include "tests/support/night.h"
#include "tests/support/shared_data.h"
#include "worker/cache/eviction/eviction_factory.h"

namespace roost::simulate {
namespace {

using testing_support::SharedDir;
using workload::Trace;

SimulationOptions Fleet(std::size_t worker_count) {
  SimulationOptions options;
  options.workers.resize(worker_count);
  options.worker.eviction = "lru";
  options.worker.service = kFreeDecode;
  return options;
}

Outcome Play(const Trace& trace, std::string_view policy, const SimulationOptions& options) {
  const TraceText text(trace);
  Result<Outcome> outcome = Simulate(text, policy, options, nullptr);
  EXPECT_TRUE(outcome.ok()) << outcome.error().ToString();
  return std::move(outcome).value();
}

Outcome PlayPool(const Trace& trace, PoolSize size, const SimulationOptions& options) {
  const TraceText text(trace);
  return SimulatePool(text, size, options, nullptr);
}

Trace Scaled(Trace trace, double utilisation, const SimulationOptions& options) {
  ScaleToUtilisation(trace, utilisation, options.worker.service,
                     {.speed = static_cast<double>(options.workers.size())});
  return trace;
}

Trace SomeLoad() {
  workload::MultiTurnChatOptions options;
  options.session_count = 120;
  options.start_span_seconds = 300;
  return workload::MultiTurnChat(options);
}

// Prompts of 32k and of 2k tokens, chosen at random among more than 200k tokens.
Trace LongAndShortPrompts() {
  constexpr std::uint32_t kBlockTokens = 64;
  constexpr std::uint32_t kLongPrompts = 6;
  constexpr std::uint32_t kShortPrompts = 96;
  Trace trace{.block_tokens = kBlockTokens, .requests = {}};
  Rng rng(1);
  for (int i = 0; i < 1500; ++i) {
    const std::uint64_t prompt = rng.Below(kLongPrompts + kShortPrompts);
    const std::uint32_t block_count = prompt < kLongPrompts ? 512 : 32;
    workload::TraceRequest& request = trace.requests.emplace_back();
    request.arrival_seconds = i;
    request.input_token_count = block_count * kBlockTokens;
    request.output_token_count = 1;
    for (std::uint32_t block = 0; block < block_count; ++block) request.blocks.push_back(prompt * 1000 + block + 1);
  }
  return trace;
}

// ---- computed by hand ----

// One worker, 1,000 tokens per second, 100 per step, blocks of 16.
//
//   0.00  a (160 tokens) begins: 100 of them
//   0.05  b arrives: a's 160 tokens and 40 of its own
//   0.10  60 more of a; b waits for the blocks that a computes
//   0.16  a's first token; 40 of b
//   0.20  b's first token
//   1.00  c: a's prompt again: all of it is cached except the one token that must be computed
TEST(SimulationTest, IsExactWhereHandsCanFollow) {
  const std::vector<workload::ContentId> shared{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  std::vector<workload::ContentId> longer = shared;
  longer.insert(longer.end(), {11, 12});
  const Trace trace{
      .block_tokens = 16,
      .requests = {{.input_token_count = 160, .output_token_count = 10, .blocks = shared},
                   {.arrival_seconds = 0.05, .input_token_count = 200, .output_token_count = 5, .blocks = longer},
                   {.arrival_seconds = 1, .input_token_count = 160, .output_token_count = 1, .blocks = shared}}};
  SimulationOptions options = Fleet(1);
  options.worker.service.prefill_tokens_per_second = 1000;
  options.worker.max_batch_tokens = 100;
  const Outcome outcome = Play(trace, "round-robin", options);
  ASSERT_EQ(outcome.ttft_seconds.size(), 3U);
  EXPECT_NEAR(outcome.ttft_seconds[0], 0.001, 1e-6);
  EXPECT_NEAR(outcome.ttft_seconds[1], 0.150, 1e-6);
  EXPECT_NEAR(outcome.ttft_seconds[2], 0.160, 1e-6);
  EXPECT_EQ(outcome.cached_token_count, 160U + 159U);
  EXPECT_EQ(outcome.computed_token_count, 160U + 40U + 1U);
}

// A slow worker and a fast one, in turns; the step's base time and attention are part of the time.
TEST(SimulationTest, SpeedAndTheModelsTermsCount) {
  const Trace trace{
      .block_tokens = 16,
      .requests = {{.input_token_count = 11, .output_token_count = 0, .blocks = {}},
                   {.arrival_seconds = 1, .input_token_count = 11, .output_token_count = 0, .blocks = {}}}};
  SimulationOptions options = Fleet(2);
  options.workers[1].speed = 4;
  options.worker.service.prefill_tokens_per_second = 100;
  options.worker.service.step_base_seconds = 0.5;
  options.worker.service.attention_seconds = 0.01;
  const Outcome outcome = Play(trace, "round-robin", options);
  const double seconds = 0.5 + 0.11 + 0.01 * 55;  // 0 + 1 + … + 10 tokens before each
  EXPECT_NEAR(outcome.ttft_seconds[0], seconds / 4, 1e-6);
  EXPECT_NEAR(outcome.ttft_seconds[1], seconds, 1e-6);
}

// A request that has drawn its answer makes space for the next one: two places; 9 more tokens, at 50 per second.
TEST(SimulationTest, PlacesInTheBatchAreWaitedFor) {
  Trace trace{.block_tokens = 16, .requests = {}};
  for (int i = 0; i < 3; ++i) {
    trace.requests.push_back({.input_token_count = 10, .output_token_count = 10, .blocks = {}});
  }
  SimulationOptions options = Fleet(1);
  options.worker.max_running_requests = 2;
  const Outcome outcome = Play(trace, "round-robin", options);
  // The first request runs alone, because the second one comes after its step has begun.
  EXPECT_NEAR(outcome.ttft_seconds[0], 0.001, 1e-6);
  EXPECT_NEAR(outcome.ttft_seconds[1], 0.002, 1e-6);
  EXPECT_NEAR(outcome.ttft_seconds[2], 0.001 + 0.18 + 0.001, 1e-6);
}

ServiceModel StepsOf10Milliseconds() {
  return {.step_base_seconds = 0.01, .prefill_tokens_per_second = 1000, .decode_base_seconds = 0};
}

// One worker, steps of 10 ms and 1 ms more for each prompt token.
//
//   0.000  a (100 tokens) is computed
//   0.110  a's first token; 19 are left, one for each step
//   0.125  b (50 tokens) arrives, while a's second step runs
//   0.130  b is computed beside a's token
//   0.190  b's only token, and a's; a has 16 left
//   0.350  a's last one
TEST(SimulationTest, APromptDelaysTheTokensOfItsStep) {
  const Trace trace{
      .block_tokens = 16,
      .requests = {{.input_token_count = 100, .output_token_count = 20, .blocks = {}},
                   {.arrival_seconds = 0.125, .input_token_count = 50, .output_token_count = 1, .blocks = {}}}};
  SimulationOptions options = Fleet(1);
  options.worker.service = StepsOf10Milliseconds();
  options.limits = {.ttft_seconds = 0.1, .itl_seconds = 0.02};
  const Outcome outcome = Play(trace, "round-robin", options);
  EXPECT_NEAR(outcome.ttft_seconds[0], 0.065, 1e-6);
  EXPECT_NEAR(outcome.ttft_seconds[1], 0.110, 1e-6);
  EXPECT_NEAR(outcome.itl.mean, 0.24 / 19, 1e-6);  // b has one token
  EXPECT_NEAR(outcome.whole.max, 0.350, 1e-6);
  EXPECT_NEAR(outcome.good_share, 0.5, 1e-9);  // a's first token is late
  EXPECT_NEAR(outcome.good_per_second, 1 / 0.350, 1e-6);
}

// In chunks of 20 tokens a prompt of 40 takes two steps, in each of which the other request draws a token.
TEST(SimulationTest, EveryChunkOfAPromptDelaysOneToken) {
  const Trace trace{
      .block_tokens = 16,
      .requests = {{.input_token_count = 10, .output_token_count = 11, .blocks = {}},
                   {.arrival_seconds = 0.02, .input_token_count = 40, .output_token_count = 1, .blocks = {}}}};
  SimulationOptions options = Fleet(1);
  options.worker.service = StepsOf10Milliseconds();
  options.worker.max_batch_tokens = 20;
  const Outcome outcome = Play(trace, "round-robin", options);
  EXPECT_NEAR(outcome.whole.max, 0.02 + 2 * 0.03 + 8 * 0.01, 1e-6);
}

// Two requests of 48 tokens do not fit in 80 together, so the second waits for the first one's end.
TEST(SimulationTest, RequestsWaitForMemoryWhereItIsLimited) {
  Trace trace{.block_tokens = 16, .requests = {}};
  for (int i = 0; i < 2; ++i) {
    trace.requests.push_back({.input_token_count = 48, .output_token_count = 11, .blocks = {}});
  }
  SimulationOptions options = Fleet(1);
  options.worker.service = StepsOf10Milliseconds();
  options.worker.kv_tokens = 80;
  EXPECT_NEAR(Play(trace, "round-robin", options).ttft.max, 0.058 + 10 * 0.01 + 0.058, 0.001);
  options.worker.kv_tokens = 160;
  EXPECT_NEAR(Play(trace, "round-robin", options).ttft.max, 0.058 + 0.058, 0.001);
}

// The savings that routers count for a round robin over the same caches, found again from the trace and from who
// computed what: a worker holds each prompt that was sent to it, and the answers that have ended, and never evicts.
double ReplayedRoundRobinSeconds(const Trace& trace, const Outcome& outcome, double tokens_per_second) {
  std::vector<std::size_t> by_arrival(trace.requests.size());
  for (std::size_t i = 0; i < by_arrival.size(); ++i) by_arrival[i] = i;
  std::stable_sort(by_arrival.begin(), by_arrival.end(), [&outcome](std::size_t a, std::size_t b) {
    return outcome.requests[a].arrival < outcome.requests[b].arrival;
  });
  std::uint64_t tokens = 0;
  for (std::size_t turn = 0; turn < by_arrival.size(); ++turn) {
    const RequestRecord& now = outcome.requests[by_arrival[turn]];
    std::set<workload::ContentId> held;
    for (std::size_t before = 0; before < turn; ++before) {
      const workload::TraceRequest& earlier = trace.requests[by_arrival[before]];
      const RequestRecord& record = outcome.requests[by_arrival[before]];
      if (record.worker != turn % outcome.worker_count) continue;
      const std::size_t prompt = PromptBlockCount(trace, earlier);
      const std::size_t count = *record.end <= now.arrival ? earlier.blocks.size() : prompt;
      held.insert(earlier.blocks.begin(), earlier.blocks.begin() + static_cast<std::ptrdiff_t>(count));
    }
    const workload::TraceRequest& request = trace.requests[by_arrival[turn]];
    for (std::size_t block = 0; block < PromptBlockCount(trace, request); ++block) {
      if (!held.contains(request.blocks[block])) break;
      tokens += trace.block_tokens;
    }
  }
  return static_cast<double>(tokens) / tokens_per_second;
}

// Each session has a system prompt of its own, so that no prefix is hot enough to be copied: a replay does not know of
// copies.
TEST(SimulationTest, SavingsAreThoseOfAReplayOfTheSameRoundRobin) {
  workload::MultiTurnChatOptions load;
  load.session_count = 120;
  load.start_span_seconds = 300;
  load.system_prompt_count = 10'000;
  SimulationOptions options = Fleet(4);
  options.worker.cache_tokens = 10'000'000;
  const Trace trace = Scaled(workload::MultiTurnChat(load), 0.5, options);
  const Outcome outcome = Play(trace, "cache-aware", options);
  ASSERT_EQ(outcome.copied_token_count, 0U);
  const double rate = options.worker.service.prefill_tokens_per_second;
  const double saved = static_cast<double>(outcome.cached_token_count) / rate;
  const double rotated = ReplayedRoundRobinSeconds(trace, outcome, rate);
  EXPECT_GT(rotated, 0.1 * saved);
  EXPECT_NEAR(outcome.savings.seconds, saved, 0.05 * saved);
  EXPECT_NEAR(outcome.savings.seconds - outcome.savings.rotation_seconds, saved - rotated, 0.05 * (saved - rotated));
  EXPECT_GE(outcome.savings.best_tokens, outcome.cached_token_count);
}

// Worker 0 is away for a while and comes back with nothing: its second prompt is not cached, worker 1's is.
TEST(SimulationTest, ARestartedWorkerComesBackWithAnEmptyCache) {
  Trace trace{.block_tokens = 16, .requests = {}};
  for (const double at : {0.0, 1.0, 15.0, 30.0, 31.0}) {
    trace.requests.push_back(
        {.arrival_seconds = at, .input_token_count = 33, .output_token_count = 20, .blocks = {1, 2, 3}});
  }
  SimulationOptions options = Fleet(2);
  options.worker.service = StepsOf10Milliseconds();
  const Outcome whole = Play(trace, "round-robin", options);
  EXPECT_EQ(whole.cached_token_count, 3 * 32U);
  options.workers[0].restarts_after = std::chrono::seconds(5);
  const Outcome restarted = Play(trace, "round-robin", options);
  EXPECT_EQ(restarted.refused_count, 0U);
  EXPECT_EQ(restarted.cached_token_count, 2 * 32U);
  EXPECT_FALSE(restarted.restart.has_value());  // nothing came 30 s after the return
}

// The same with a disk: what it found before its restart comes from there.
TEST(SimulationTest, ARestartedWorkerFindsOnItsDiskWhatItsCacheHad) {
  Trace trace{.block_tokens = 16, .requests = {}};
  for (const double at : {0.0, 1.0, 30.0}) {
    trace.requests.push_back(
        {.arrival_seconds = at, .input_token_count = 33, .output_token_count = 20, .blocks = {1, 2, 3}});
  }
  SimulationOptions options = Fleet(1);
  options.worker.service = StepsOf10Milliseconds();
  options.worker.disk = {.tokens = 10'000, .gigabits_per_second = 100};
  options.workers[0].restarts_after = std::chrono::seconds(5);
  const Outcome outcome = Play(trace, "cache-aware", options);
  EXPECT_EQ(outcome.cached_token_count, 2 * 32U);
  ASSERT_TRUE(outcome.restores.has_value());
  EXPECT_EQ(outcome.restores->restore_count, 1U);
  EXPECT_EQ(outcome.restores->token_count, 32U);
  EXPECT_EQ(outcome.restores->written_token_count, 48U);
}

// Requests find again on disk what small pools have evicted.
TEST(SimulationTest, DisksMakeUpForSmallPools) {
  const Trace trace = SomeLoad();
  SimulationOptions options = Fleet(2);
  options.worker.cache_tokens = 8192;
  const Trace scaled = Scaled(trace, 0.5, options);
  const Outcome without = Play(scaled, "cache-aware", options);
  options.worker.disk = {.tokens = 1'000'000, .gigabits_per_second = 400, .write_rate = 0};
  const Outcome with = Play(scaled, "cache-aware", options);
  EXPECT_GT(with.hit_ratio, without.hit_ratio);
  EXPECT_GT(with.time_hit_ratio, without.time_hit_ratio);
  EXPECT_LT(with.computed_token_count, without.computed_token_count);
  EXPECT_GT(with.restores->restore_count, 0U);
}

TEST(SimulationTest, TheShareOfARestartedWorkerIsThatOfLaterRequests) {
  const Trace trace = workload::SystemPrompts({.request_count = 400, .requests_per_second = 4});
  SimulationOptions options = Fleet(2);
  options.worker.service = kLlama8bOnH100;
  options.workers[0].restarts_after = std::chrono::seconds(20);
  const Outcome outcome = Play(trace, "round-robin", options);
  ASSERT_TRUE(outcome.restart.has_value());
  EXPECT_NEAR(outcome.restart->share, 1, 0.02);
  EXPECT_GT(outcome.restart->hit_ratio, 0.8);
  EXPECT_LT(outcome.restart->hit_ratio, 0.93);  // one prompt is computed again
}

// ---- computed by theory ----

// One worker as a queue with Poisson arrivals and equal service: the mean wait is ρ·S / 2(1 - ρ) (Pollaczek,
// Khinchine).
TEST(SimulationTest, WaitsAsQueueingTheoryHasIt) {
  constexpr double kService = 0.1;
  constexpr double kUtilisation = 0.7;
  Trace trace{.block_tokens = 16, .requests = {}};
  Rng rng(5);
  double arrival = 0;
  for (int i = 0; i < 40'000; ++i) {
    arrival -= std::log(1 - rng.Uniform()) * kService / kUtilisation;
    trace.requests.push_back(
        {.arrival_seconds = arrival, .input_token_count = 1000, .output_token_count = 0, .blocks = {}});
  }
  SimulationOptions options = Fleet(1);
  options.worker.cache_tokens = 4096;
  options.worker.max_batch_tokens = 250;
  const Outcome outcome = Play(trace, "round-robin", options);
  const double wait = kUtilisation * kService / (2 * (1 - kUtilisation));
  EXPECT_NEAR(outcome.ttft.mean - kService, wait, 0.04 * wait);
  EXPECT_EQ(outcome.hit_ratio, 0);
}

// ---- against the cache alone ----

// One request at a time: answers are immediate.
TEST(SimulationTest, OneWorkerHitsWhatAReplayHits) {
  const Trace trace = workload::TenantUsers({});
  SimulationOptions options = Fleet(1);
  options.worker.service.decode_base_seconds = 1e-6;
  options.worker.cache_tokens = 500'000;
  const auto replay = workload::Replay(trace, 500'000 / trace.block_tokens,
                                       worker::MakeEvictionPolicy("lru", 500'000 / trace.block_tokens).value());
  const Outcome outcome = Play(Scaled(trace, 0.01, options), "round-robin", options);
  EXPECT_NEAR(outcome.hit_ratio, replay.hit_ratio(), 0.02);
  EXPECT_GT(replay.hit_ratio(), 0.2);
}

TEST(SimulationTest, OneWorkerHitsWhatAReplayOfARealTraceHits) {
  const auto path = SharedDir() / "traces/mooncake_synth_family_q0.jsonl";
  ROOST_SKIP_WITHOUT(path);
  const Trace trace = workload::LoadTrace({.path = path, .format = "mooncake", .generator = ""}).value();
  for (const std::uint32_t blocks : {1000U, 4000U}) {
    SimulationOptions options = Fleet(1);
    options.worker.cache_tokens = std::uint64_t{blocks} * trace.block_tokens;
    const auto replay = workload::Replay(trace, blocks, worker::MakeEvictionPolicy("lru", blocks).value());
    const Outcome outcome = Play(Scaled(trace, 0.05, options), "round-robin", options);
    EXPECT_NEAR(outcome.hit_ratio, replay.hit_ratio(), 0.02) << blocks << " blocks";
  }
}

// A replay is told what blocks cost; a worker fits it to its steps. Of prompts that do not fit all, both keep the long
// ones, which save the most time.
TEST(SimulationTest, AWorkerEvictsByTheCostThatItsStepsHave) {
  const Trace trace = LongAndShortPrompts();
  SimulationOptions options = Fleet(1);
  options.worker.eviction = "class-aware";
  options.worker.cache_tokens = 200'000;
  options.worker.service = kLlama8bOnH100;
  options.worker.service.attention_seconds *= 10;
  const auto blocks = static_cast<std::uint32_t>(options.worker.cache_tokens / trace.block_tokens);
  const auto growth = static_cast<float>(options.worker.service.DepthGrowth() * trace.block_tokens);
  const auto hits_of_replay = [&](worker::RecomputeCost cost) {
    return workload::Replay(trace, blocks, worker::MakeEvictionPolicy("class-aware", blocks).value(), {}, cost)
        .hit_ratio();
  };
  const double hits = Play(Scaled(trace, 0.02, options), "round-robin", options).hit_ratio;
  EXPECT_NEAR(hits, hits_of_replay({growth}), 0.015);
  EXPECT_GT(hits, hits_of_replay({}) + 0.04);
}

// ---- properties of all runs ----

// The run itself checks that every request ends once and every charge is taken back.
TEST(SimulationTest, EveryTokenIsEitherCachedOrComputed) {
  for (const std::string& policy : RouterPolicyNames()) {
    SCOPED_TRACE(policy);
    SimulationOptions options = Fleet(4);
    options.worker.cache_tokens = 100'000;
    options.router_count = 3;
    const Outcome outcome = Play(Scaled(SomeLoad(), 0.8, options), policy, options);
    EXPECT_EQ(outcome.refused_count, 0U);
    EXPECT_EQ(outcome.cached_token_count + outcome.computed_token_count - outcome.copied_token_count,
              outcome.prompt_token_count);
  }
}

TEST(SimulationTest, TheSeedIsTheOutcome) {
  SimulationOptions options = Fleet(4);
  options.router_count = 2;
  const Trace trace = Scaled(SomeLoad(), 0.8, options);
  const Outcome first = Play(trace, "random", options);
  EXPECT_EQ(ToJson(first), ToJson(Play(trace, "random", options)));
  options.seed = 2;
  EXPECT_NE(ToJson(first), ToJson(Play(trace, "random", options)));
}

TEST(SimulationTest, AFullQueueRefuses) {
  Trace trace{.block_tokens = 16, .requests = {}};
  for (int i = 0; i < 50; ++i) {
    trace.requests.push_back({.input_token_count = 1000, .output_token_count = 0, .blocks = {}});
  }
  SimulationOptions options = Fleet(1);
  options.worker.max_waiting_requests = 10;
  const Outcome outcome = Play(trace, "round-robin", options);
  EXPECT_GT(outcome.refused_count, 0U);
  EXPECT_EQ(outcome.ttft_seconds.size() + outcome.refused_count, 50U);
}

TEST(SimulationTest, AWorkerThatJoinsLateIsUsed) {
  SimulationOptions options = Fleet(2);
  options.worker.cache_tokens = 100'000;
  options.workers[1].joins_after = std::chrono::seconds(20);
  const Trace trace = Scaled(workload::NoReuse({}), 0.6, options);
  const Outcome late = Play(trace, "least-requests", options);
  EXPECT_EQ(late.refused_count, 0U);
  EXPECT_GT(late.imbalance, 1.05);
  EXPECT_LT(late.imbalance, 1.5);
}

// As many long requests as fit. Their answers, all drawn at the same time, do not fit: the last requests are preempted
// and computed again. A prompt takes a step of 1.6 s, in which the earlier ones draw 80 tokens.
TEST(SimulationTest, WhenMemoryRunsOutAllEndAllTheSame) {
  Trace trace{.block_tokens = 16, .requests = {}};
  for (std::uint32_t i = 0; i < 40; ++i) {
    trace.requests.push_back({.input_token_count = 160'000, .output_token_count = 4000 - 80 * i, .blocks = {}});
  }
  SimulationOptions options = Fleet(1);
  options.worker.cache_tokens = 1024;
  options.worker.max_batch_tokens = 160'000;
  options.worker.service.prefill_tokens_per_second = 100'000;
  const Outcome outcome = Play(trace, "round-robin", options);
  EXPECT_EQ(outcome.ttft_seconds.size(), 40U);
  EXPECT_GT(outcome.computed_token_count, outcome.prompt_token_count);
}

// One worker, 1,000 tokens per second, 100 per step. A request may be longer than the cache: the second prompt is, and
// the short third one runs at the same time.
TEST(SimulationTest, APromptLongerThanTheCacheHoldsUpNobody) {
  const Trace trace{
      .block_tokens = 16,
      .requests = {{.input_token_count = 160, .output_token_count = 500, .blocks = {}},
                   {.arrival_seconds = 1, .input_token_count = 3200, .output_token_count = 1, .blocks = {}},
                   {.arrival_seconds = 2, .input_token_count = 50, .output_token_count = 1, .blocks = {}}}};
  SimulationOptions options = Fleet(1);
  options.worker.service.prefill_tokens_per_second = 1000;
  options.worker.max_batch_tokens = 100;
  options.worker.schedule_policy = worker::SchedulePolicy::kShortestUncached;
  options.worker.cache_tokens = 800;
  const Outcome outcome = Play(trace, "round-robin", options);
  ASSERT_EQ(outcome.ttft_seconds.size(), 3U);
  EXPECT_LT(outcome.ttft_seconds[0], 0.3);
  EXPECT_LT(outcome.ttft_seconds[1], 0.3);
  EXPECT_LT(outcome.ttft_seconds[2], 4);
}

TEST(SimulationTest, AnUnknownPolicyIsAnError) {
  const Trace trace = SomeLoad();
  const TraceText text(trace);
  const auto outcome = Simulate(text, "oracle", Fleet(1), nullptr);
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().field, "policy");
}

// ---- upper limits ----

TEST(PoolTest, NoPolicyIsBetterThanThePool) {
  const auto path = SharedDir() / "traces/mooncake_conv_first20min.jsonl";
  ROOST_SKIP_WITHOUT(path);
  const SimulationOptions options = Fleet(8);
  const Trace trace =
      Scaled(workload::LoadTrace({.path = path, .format = "mooncake", .generator = ""}).value(), 0.8, options);
  const Outcome pooled = PlayPool(trace, PoolSize::kOfWorkers, options);
  const Outcome infinite = PlayPool(trace, PoolSize::kUnbounded, options);
  EXPECT_LE(infinite.ttft.mean, pooled.ttft.mean);
  EXPECT_GE(infinite.hit_ratio, pooled.hit_ratio);
  const std::vector<std::string> most_telling = {"cache-aware", "least-tokens"};
  for (const std::string& policy : testing_support::IsNight() ? RouterPolicyNames() : most_telling) {
    const Outcome outcome = Play(trace, policy, options);
    EXPECT_GT(outcome.ttft.mean, pooled.ttft.mean) << policy;
    // Keeping sessions apart can be slightly better than sharing all space.
    EXPECT_LT(outcome.hit_ratio, 1.05 * pooled.hit_ratio) << policy;
  }
}

TEST(PoolTest, AnUnboundedCacheHitsWhatIsIdeal) {
  const SimulationOptions options = Fleet(8);
  const Trace trace = Scaled(workload::TenantUsers({}), 0.001, options);
  EXPECT_NEAR(PlayPool(trace, PoolSize::kUnbounded, options).hit_ratio, workload::Summarise(trace).ideal_hit_ratio,
              0.005);
}

// Two servers; the remaining work decides, not the order of arrival.
TEST(PoolTest, TheLeastUncachedGoesFirst) {
  const Trace trace{
      .block_tokens = 16,
      .requests = {{.input_token_count = 1600, .output_token_count = 0, .blocks = {}},
                   {.arrival_seconds = 0.01, .input_token_count = 800, .output_token_count = 0, .blocks = {}},
                   {.arrival_seconds = 0.02, .input_token_count = 160, .output_token_count = 0, .blocks = {}}}};
  SimulationOptions options = Fleet(1);
  options.worker.service.prefill_tokens_per_second = 1000;
  const Outcome outcome = PlayPool(trace, PoolSize::kOfWorkers, options);
  EXPECT_NEAR(outcome.ttft_seconds[0], 1.6, 1e-6);
  EXPECT_NEAR(outcome.ttft_seconds[1], 1.6 + 0.16 - 0.02, 1e-6);
  EXPECT_NEAR(outcome.ttft_seconds[2], 1.6 + 0.16 + 0.8 - 0.01, 1e-6);
}

}  // namespace
}  // namespace roost::simulate
