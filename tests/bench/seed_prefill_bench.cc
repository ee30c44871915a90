// The seed of this field: 64 requests of about 856 tokens, eight prompts eight times over, prefilled by the demo model
// with and without the cache.
#include <cstdint>
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

constexpr std::uint32_t kBlockTokens = 16;
constexpr std::uint32_t kPromptTokens = 856;
constexpr std::uint32_t kDistinctPrompts = 8;

// kOff gives each request a name space of its own, so that it finds nothing.
enum class Cache { kOn, kOff };

std::vector<wire::Generate> MakeRequests(std::uint32_t count, std::uint32_t vocab_size, Cache cache) {
  std::vector<wire::Generate> requests(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    Rng rng(i % kDistinctPrompts);
    requests[i].request_id = RequestId(i + 1);
    requests[i].root = cache == Cache::kOn ? BlockHash{1, 1} : BlockHash{2, i};
    for (std::uint32_t t = 0; t < kPromptTokens; ++t) {
      requests[i].prompt.push_back(static_cast<TokenId>(rng.Below(vocab_size)));
    }
    requests[i].block_hashes = HashBlocks(requests[i].root, requests[i].prompt, kBlockTokens);
    requests[i].sampling.temperature = 0;
    requests[i].max_output_tokens = 1;
    requests[i].ignore_eos = true;
  }
  return requests;
}

struct Run {
  double seconds = 0;
  std::uint64_t computed_prompt_tokens = 0;
};

Run Prefill(worker::Model& model, std::vector<wire::Generate> requests) {
  const SteadyClock clock;
  worker::Engine engine(model, clock, {.max_batch_tokens = 512, .max_running_requests = 64});
  const std::size_t count = requests.size();
  const Instant start = clock.Now();
  for (wire::Generate& request : requests) {
    ROOST_CHECK(engine.Submit(worker::LinkId(1), std::move(request)).ok());
  }
  Run run;
  std::size_t ended = 0;
  while (engine.HasWork()) {
    const worker::StepReport report = engine.Step();
    run.computed_prompt_tokens += report.load.step_prefill_tokens;
    for (const worker::RequestEvent& event : report.tokens) ended += event.event.finish.has_value() ? 1 : 0;
  }
  run.seconds = ToSeconds(clock.Now() - start);
  ROOST_CHECK(ended == count, "{} of {} requests ended", ended, count);
  return run;
}

}  // namespace

void BenchSeedPrefill(Effort effort) {
  const std::uint32_t count = effort == Effort::kQuick ? 16 : 64;
  const std::string location = std::string(testing_support::SourceDir()) + "/deploy/demo-model";
  const worker::LoadedModel loaded =
      worker::LoadModel({location}, {.thread_count = 1, .block_tokens = kBlockTokens, .block_count = 4096}).value();
  const std::uint32_t vocab_size = loaded.model->shape().vocab_size;
  const Run without = Prefill(*loaded.model, MakeRequests(count, vocab_size, Cache::kOff));
  const Run with = Prefill(*loaded.model, MakeRequests(count, vocab_size, Cache::kOn));
  Figure("seed_prefill_computed_tokens_without", static_cast<double>(without.computed_prompt_tokens), "tokens");
  Figure("seed_prefill_computed_tokens_with", static_cast<double>(with.computed_prompt_tokens), "tokens");
  Figure("seed_prefill_without_tokens_per_second", count * kPromptTokens / without.seconds, "tokens/s");
  Figure("seed_prefill_speedup", without.seconds / with.seconds, "x");
}

}  // namespace roost::bench
