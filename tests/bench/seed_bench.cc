// The standard task of prefix caching: 64 requests of about 856 tokens, eight prompts eight times each, with 16 output
// tokens each. The demo model answers them in one process, as `roostctl generate` does: one by one, in waves and
// continuously, with and without the cache.
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/rng.h"
#include "deploy/roostctl/generate/offline_run.h"
#include "router/api/requests/prompt.h"
#include "tests/bench/bench.h"
#include "tests/support/source_dir.h"

namespace roost::bench {
namespace {

using roostctl::OfflineModel;
using roostctl::OfflineRequest;
using roostctl::OfflineTotals;

constexpr std::uint32_t kDistinctPrompts = 8;
// Around 856, so that the prompts end at different places in a block.
constexpr std::uint32_t kMinPromptTokens = 835;
constexpr std::uint32_t kPromptTokenStep = 6;
constexpr std::uint32_t kOutputTokens = 16;
// A quarter of the requests at a time, so that waves and continuous batching differ.
constexpr std::uint32_t kRunning = 16;

struct Size {
  std::uint32_t request_count;
  std::uint32_t prompt_divisor;
};
Size SizeOf(Effort effort) { return effort == Effort::kQuick ? Size{9, 16} : Size{64, 1}; }

OfflineModel LoadDemoModel() {
  worker::WorkerOptions options;
  options.model = std::string(testing_support::SourceDir()) + "/deploy/demo-model";
  options.threads = 1;
  options.kv_blocks = 4096;
  options.max_running_requests = kRunning;
  const Result<void> complete = worker::Complete(options);
  ROOST_CHECK(complete.ok(), "{}", complete.error().ToString());
  return roostctl::LoadOfflineModel(options).value();
}

std::vector<OfflineRequest> MakeRequests(const OfflineModel& model, Size size) {
  router::SamplingFields fields;
  fields.max_output_tokens = kOutputTokens;
  fields.given.emplace_back([](wire::Sampling& sampling) { sampling.temperature = 0; });
  fields.generate.ignore_eos = true;
  const std::uint32_t vocab_size = model.setup.own.model->shape().vocab_size;
  std::vector<OfflineRequest> requests(size.request_count);
  for (std::uint32_t i = 0; i < size.request_count; ++i) {
    const std::uint32_t which = i % kDistinctPrompts;
    Rng rng(which);
    std::vector<TokenId> prompt((kMinPromptTokens + kPromptTokenStep * which) / size.prompt_divisor);
    for (TokenId& token : prompt) token = static_cast<TokenId>(rng.Below(vocab_size));
    requests[i].spec = router::MakeGenerateSpec(model.served, std::move(prompt), fields, {.field = "prompt"}).value();
  }
  return requests;
}

struct CountingSink final : roostctl::OfflineSink {
  void OnAnswer(const roostctl::OfflineAnswer& answer) override {
    ROOST_CHECK(!answer.error && answer.choices.size() == 1 && answer.choices[0].tokens.size() == kOutputTokens,
                "request {} has no answer of {} tokens", answer.index, kOutputTokens);
  }
  void OnStep(const OfflineTotals& /*totals*/) override {}
};

void Print(std::string_view mode, std::string_view cache, const OfflineTotals& totals) {
  const auto figure = [&](std::string_view what, double value, std::string_view unit) {
    Figure(fmt::format("seed_{}_{}_{}", mode, cache, what), value, unit);
  };
  figure("prefill_s", totals.prefill_seconds, "s");
  figure("prefill_tok_s", totals.prefill_rate(), "tokens/s");
  figure("decode_s", totals.decode_seconds, "s");
  figure("decode_tok_s", totals.decode_rate(), "tokens/s");
  figure("total_s", totals.total_seconds, "s");
  figure("total_tok_s", totals.total_rate(), "tokens/s");
}

OfflineTotals Run(const OfflineModel& model, roostctl::OfflineScheduler scheduler, wire::CacheMode cache, Size size) {
  const SteadyClock clock;
  CountingSink sink;
  return roostctl::RunOffline({.model = *model.setup.own.model,
                               .clock = clock,
                               .engine = model.setup.own.engine,
                               .scheduler = scheduler,
                               .cache = cache},
                              MakeRequests(model, size), sink);
}

}  // namespace

void BenchSeed(Effort effort) {
  const OfflineModel model = LoadDemoModel();
  const Size size = SizeOf(effort);
  for (const auto& [mode, scheduler] : roostctl::kOfflineSchedulers) {
    const OfflineTotals without = Run(model, scheduler, wire::CacheMode::kOff, size);
    const OfflineTotals with = Run(model, scheduler, wire::CacheMode::kOn, size);
    Print(mode, "off", without);
    Print(mode, "on", with);
    Figure(fmt::format("seed_{}_cached_share", mode), with.cached_share(), "of 1");
    Figure(fmt::format("seed_{}_speedup", mode), without.total_seconds / with.total_seconds, "x");
  }
}

}  // namespace roost::bench
