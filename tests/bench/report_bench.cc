#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/rng.h"
#include "common/wire/codec.h"
#include "common/wire/messages.h"
#include "router/fleet/core/fleet_core.h"
#include "router/fleet/fleet_metrics.h"
#include "router/policies/policies.h"
#include "tests/bench/bench.h"

namespace roost::bench {
namespace {

constexpr std::uint32_t kWorkers = 256;
constexpr std::size_t kBlocks = 512;         // blocks of a prompt
constexpr std::uint64_t kOtherPrompts = 16;  // other routers' prompts at each worker; each prompt is in as many reports
constexpr std::uint32_t kOwnPrompts = 64;    // the router's own prompts that a report lists

enum class Tells : std::uint8_t { kNoPrompts, kOthers, kOwn };

// The workers' reports as bytes: one of each worker, round after round.
class Reports {
 public:
  explicit Reports(Tells tells) : tells_(tells) {}

  static std::string IdOf(std::uint32_t worker) { return "worker-" + std::to_string(worker); }

  static wire::Hello HelloOf(std::uint32_t worker) {
    wire::Hello hello;
    hello.worker_id = IdOf(worker);
    hello.process_id = 1;
    hello.epoch = 1;
    hello.model = "demo";
    hello.fingerprint = "f";
    hello.tokenizer_digest = "d";
    hello.kv_dtype = "f16";
    hello.block_tokens = 16;
    hello.block_count = 65'536;
    hello.max_context_tokens = 131'072;
    hello.max_running_requests = 64;
    hello.max_batch_tokens = 2048;
    hello.ageing_tokens = 10'000;
    return hello;
  }

  // An empty snapshot.
  static wire::Snapshot FirstSnapshot() {
    wire::Snapshot snapshot;
    snapshot.epoch = 1;
    snapshot.sequence = 1;
    snapshot.last = true;
    return snapshot;
  }

  std::vector<wire::Bytes> NextRound() {
    ++round_;
    std::vector<wire::Bytes> frames;
    for (std::uint32_t worker = 0; worker < kWorkers; ++worker) {
      wire::Step step;
      step.epoch = 1;
      step.sequence = 1 + round_;
      step.load.running_requests = 32;
      step.load.free_block_count = 65'536;
      step.load.step_decode_tokens = 32;
      step.load.step_seconds = 0.02;
      if (tells_ == Tells::kOthers) step.load.other_prompts = Others();
      if (tells_ == Tells::kOwn) {
        for (std::uint32_t i = 0; i < kOwnPrompts; ++i) step.load.own_prompts.push_back({RequestId(rng_()), 1000 + i});
      }
      frames.push_back(wire::Encode(wire::WorkerMessage(std::move(step))));
    }
    return frames;
  }

 private:
  // Each report has one new prompt, with its hashes.
  std::vector<wire::OtherPrompt> Others() {
    std::vector<wire::OtherPrompt> others;
    for (std::uint64_t age = 0; age < kOtherPrompts; ++age) {
      wire::OtherPrompt& other = others.emplace_back();
      other.uncached_tokens = 1000 + static_cast<std::uint32_t>(age);
      other.waited_ms = static_cast<std::uint32_t>(10 * age);
      other.id = kOtherPrompts + round_ - age;
    }
    for (std::size_t i = 0; i < kBlocks; ++i) others.front().hashes.push_back({rng_(), rng_()});
    return others;
  }

  const Tells tells_;
  std::uint64_t round_ = 0;
  Rng rng_{1};
};

void Take(router::FleetCore& core, std::uint32_t worker, const wire::Bytes& frame, Instant now) {
  auto message = wire::DecodeWorkerMessage(frame);
  ROOST_CHECK(message.ok() && message->has_value());
  core.OnMessage(Reports::IdOf(worker), std::move(**message), now);
}

// CPU time per report of the thread that receives the workers' messages, including reading the bytes.
double ReportSeconds(Effort effort, Tells tells) {
  router::FleetMetrics metrics;
  const std::unique_ptr<router::Policy> policy = std::move(router::MakePolicy("cache-aware", 1)).value();
  router::FleetCore core({}, *policy, metrics, 1);
  Reports reports(tells);
  Instant now{std::chrono::hours(1)};
  for (std::uint32_t worker = 0; worker < kWorkers; ++worker) {
    core.OnMessage(Reports::IdOf(worker), Reports::HelloOf(worker), now);
    core.OnMessage(Reports::IdOf(worker), Reports::FirstSnapshot(), now);
  }
  (void)core.TakeEffects();

  const SteadyClock clock;
  std::vector<double> seconds;
  const int rounds = effort == Effort::kQuick ? 2 : 200;
  for (int i = 0; i < rounds; ++i) {
    const std::vector<wire::Bytes> frames = reports.NextRound();
    now += std::chrono::milliseconds(20);
    const Instant start = clock.Now();
    for (std::uint32_t worker = 0; worker < kWorkers; ++worker) Take(core, worker, frames[worker], now);
    seconds.push_back(ToSeconds(clock.Now() - start) / kWorkers);
    (void)core.TakeEffects();
  }
  ROOST_CHECK(core.pending_count() ==
              (tells == Tells::kOthers ? kWorkers * std::min(static_cast<std::uint64_t>(rounds), kOtherPrompts) : 0));
  std::nth_element(seconds.begin(), seconds.begin() + rounds / 2, seconds.end());
  return seconds[static_cast<std::size_t>(rounds) / 2];
}

}  // namespace

// The cost of a load report to a router with 256 workers: from an idle worker, from one with 16 queued prompts of other
// routers, one of them new and with 512 blocks, and from one that lists 64 of the router's own.
void BenchReport(Effort effort) {
  SetUpLogging(LogLevel::kWarning, LogFormat::kText);  // no line for each worker that joins
  Figure("report_us", ReportSeconds(effort, Tells::kNoPrompts) * 1e6, "us");
  Figure("report_others_us", ReportSeconds(effort, Tells::kOthers) * 1e6, "us");
  Figure("report_own_us", ReportSeconds(effort, Tells::kOwn) * 1e6, "us");
}

}  // namespace roost::bench
