#include <fmt/format.h>

#include <memory>
#include <vector>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "tests/bench/bench.h"
#include "tests/support/step_sample.h"
#include "worker/sched/scheduler.h"

namespace roost::bench {
namespace {

using worker::BlockPool;
using worker::LruEviction;
using worker::PrefixCache;
using worker::ScheduledSlice;
using worker::Scheduler;
using worker::SchedulerOptions;

constexpr std::uint32_t kBlockCount = 200'000;
constexpr std::uint32_t kPromptTokens = 500;

void Step(Scheduler& scheduler, PrefixCache& cache) {
  const std::vector<ScheduledSlice>& slices = scheduler.Schedule();
  scheduler.NotePace(testing_support::SampleOf(slices, std::chrono::milliseconds(20)));
  scheduler.Commit();
  for (const ScheduledSlice& slice : slices) scheduler.Append(slice.sequence->id, 7);
  (void)cache.TakeEvents();
}

// As many sequences decode as may run, and as many again wait, under the workers' default policy.
void Decode(Effort effort, std::uint32_t running) {
  BlockPool pool(kBlockCount);
  PrefixCache cache(pool, {.block_tokens = kBlockTokens}, std::make_unique<LruEviction>(kBlockCount));
  Scheduler scheduler(
      cache, SchedulerOptions{.max_batch_tokens = running * kPromptTokens,
                              .max_running = running,
                              .max_waiting = running * 2,
                              .max_context_tokens = 1U << 16U,
                              .policy = worker::ParseSchedulePolicy(worker::kDefaultSchedulePolicy).value(),
                              .first_token_target = std::chrono::milliseconds(worker::kDefaultFirstTokenTargetMs)});
  Rng rng(1);
  for (std::uint32_t i = 0; i < running * 2; ++i) {
    std::vector<TokenId> prompt(kPromptTokens);
    for (TokenId& token : prompt) token = static_cast<TokenId>(rng());
    ROOST_CHECK(
        scheduler.Submit({.root = {1, 1}, .prompt = std::move(prompt), .block_hashes = {}, .deadline = {}}).ok());
  }
  Step(scheduler, cache);
  ROOST_CHECK(scheduler.running_count() == running, "{}", scheduler.running_count());
  const std::uint64_t queued = scheduler.Load().queued_prefill_tokens;
  ROOST_CHECK(queued == running * kPromptTokens, "{}", queued);
  constexpr int kSteps = 64;  // each sequence fills four blocks
  const double seconds = MedianSeconds(effort, [&] {
    for (int step = 0; step < kSteps; ++step) Step(scheduler, cache);
  });
  Figure(fmt::format("sched_step_us_{}", running), seconds * 1e6 / kSteps, "us");
}

}  // namespace

// The cost of a step besides the forward: the plan, the commit and the events.
void BenchScheduler(Effort effort) {
  for (const std::uint32_t running : {64U, 256U, 1024U}) Decode(effort, running);
}

}  // namespace roost::bench
