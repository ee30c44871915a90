// Short prompts among long ones, prefilled by the demo model: the time of their first tokens with full steps and with
// steps that are short if they complete a prompt. An open loop; both runs see the same requests at the same times.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/rng.h"
#include "tests/bench/bench.h"
#include "tests/support/source_dir.h"
#include "worker/engine/engine.h"
#include "worker/model/load_model.h"

namespace roost::bench {
namespace {

constexpr std::uint32_t kLongTokens = 2048;
constexpr std::uint32_t kShortTokens = 48;
constexpr std::uint32_t kShortsPerLong = 6;
constexpr double kBusyShare = 0.6;

struct Arrival {
  double seconds = 0;
  std::uint32_t prompt_tokens = 0;
};

wire::Generate RequestOf(std::uint64_t number, std::uint32_t prompt_tokens, std::uint32_t vocab_size) {
  wire::Generate request;
  request.request_id = RequestId(number);
  request.root = BlockHash{1, 1};
  Rng rng(number);
  while (request.prompt.size() < prompt_tokens) request.prompt.push_back(static_cast<TokenId>(rng.Below(vocab_size)));
  request.block_hashes = HashBlocks(request.root, request.prompt, kBlockTokens);
  request.sampling.temperature = 0;
  request.max_output_tokens = 1;
  request.ignore_eos = true;
  return request;
}

// In order of time, with `long_count` long prompts, at random times of a period in which they take kBusyShare of the
// time.
std::vector<Arrival> MakeArrivals(std::uint32_t long_count, double seconds_per_token) {
  const double tokens = long_count * (kLongTokens + kShortsPerLong * kShortTokens);
  const double span = tokens * seconds_per_token / kBusyShare;
  std::vector<Arrival> arrivals;
  Rng rng(7);
  for (std::uint32_t i = 0; i < long_count * (1 + kShortsPerLong); ++i) {
    arrivals.push_back({span * rng.Uniform(), i < long_count ? kLongTokens : kShortTokens});
  }
  std::sort(arrivals.begin(), arrivals.end(), [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  return arrivals;
}

struct Ttfts {
  std::vector<double> of_short;
  std::vector<double> of_long;
};

Ttfts Serve(worker::Model& model, const std::vector<Arrival>& arrivals, std::uint32_t short_step_tokens) {
  const SteadyClock clock;
  worker::Engine engine(model, clock,
                        {.max_batch_tokens = 512,
                         .max_running_requests = 64,
                         .schedule_policy = worker::SchedulePolicy::kShortestUncached,
                         .short_step_tokens = short_step_tokens});
  const Instant start = clock.Now();
  Ttfts ttfts;
  for (std::size_t come = 0; come < arrivals.size() || engine.HasWork();) {
    const double now = ToSeconds(clock.Now() - start);
    for (; come < arrivals.size() && arrivals[come].seconds <= now; ++come) {
      wire::Generate request = RequestOf(come + 1, arrivals[come].prompt_tokens, model.shape().vocab_size);
      ROOST_CHECK(engine.Submit(worker::LinkId(1), std::move(request)).ok());
    }
    if (!engine.HasWork()) continue;
    const worker::StepReport report = engine.Step();
    const double end = ToSeconds(clock.Now() - start);
    for (const worker::RequestEvent& event : report.tokens) {
      const Arrival& arrival = arrivals[event.event.request_id.value() - 1];
      (arrival.prompt_tokens == kLongTokens ? ttfts.of_long : ttfts.of_short).push_back(end - arrival.seconds);
    }
  }
  ROOST_CHECK(ttfts.of_short.size() + ttfts.of_long.size() == arrivals.size());
  return ttfts;
}

double MeanMilliseconds(const std::vector<double>& seconds) {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size()) * 1e3;
}

void Print(const std::string& how, const Ttfts& ttfts) {
  Figure("short_steps_short_ttft_ms_" + how, MeanMilliseconds(ttfts.of_short), "ms");
  Figure("short_steps_long_ttft_ms_" + how, MeanMilliseconds(ttfts.of_long), "ms");
}

}  // namespace

void BenchShortSteps(Effort effort) {
  const std::uint32_t long_count = effort == Effort::kQuick ? 3 : 100;
  const std::string location = std::string(testing_support::SourceDir()) + "/deploy/demo-model";
  const worker::LoadedModel loaded =
      worker::LoadModel({location}, {.thread_count = 1, .block_tokens = kBlockTokens, .block_count = 8192}).value();
  const std::vector<Arrival> alone{{.seconds = 0, .prompt_tokens = kLongTokens}};
  Serve(*loaded.model, alone, 0);  // warms up
  const double seconds_per_token = Serve(*loaded.model, alone, 0).of_long.front() / kLongTokens;
  const std::vector<Arrival> arrivals = MakeArrivals(long_count, seconds_per_token);
  Print("without", Serve(*loaded.model, arrivals, 0));
  Print("with", Serve(*loaded.model, arrivals, worker::kDefaultShortStepTokens));
}

}  // namespace roost::bench
