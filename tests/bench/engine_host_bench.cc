#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "tests/bench/bench.h"
#include "tests/support/null_ops.h"
#include "worker/engine/engine.h"
#include "worker/model/transformer.h"

namespace roost::bench {
namespace {

constexpr std::uint32_t kBlockTokens = 16;  // the workers' default
constexpr std::uint32_t kMinContext = 100;
constexpr std::uint32_t kMaxContext = 2048;
constexpr std::uint32_t kSteps = 64;  // steps per measurement; each sequence fills four blocks
constexpr std::uint32_t kTimes = 8;   // measurements

// Heads of an 8B model. The rest of the shape does not matter to the host.
worker::HfConfig Config() {
  return {.architecture = "LlamaForCausalLM",
          .vocab_size = 1U << 15U,
          .hidden_size = 64,
          .intermediate_size = 64,
          .layer_count = 1,
          .query_head_count = 32,
          .kv_head_count = 8,
          .head_dim = 8,
          .max_positions = 1U << 14U,
          .rope = {}};
}

// Every second request is greedy, the others sample as chats do.
wire::Generate MakeRequest(std::uint64_t number, Rng& rng) {
  wire::Generate request;
  request.request_id = RequestId(number);
  request.root = {1, 1};
  request.prompt.resize(kMinContext + rng.Below(kMaxContext - kTimes * kSteps - kMinContext));
  for (TokenId& token : request.prompt) token = static_cast<TokenId>(rng.Below(Config().vocab_size));
  request.max_output_tokens = 1U << 12U;
  request.ignore_eos = true;
  request.sampling = {.temperature = 0};
  if (number % 2 == 1) request.sampling = {.temperature = 0.7F, .top_p = 0.9F, .top_k = 50, .seed = number};
  return request;
}

}  // namespace

// All of the host's work in a decode step on a device, without the device's own calls: the work in BenchEngine, and the
// model's until its ops would begin.
void BenchEngineHost(Effort effort) {
  constexpr std::uint32_t kRunning = 256;
  auto backend = kernels::Backend::Open(testing_support::NullOps(), {}).value();
  const auto model = worker::Transformer::Create(std::move(backend), Config(), worker::RandomWeights(1),
                                                 {.block_tokens = kBlockTokens,
                                                  .block_count = 2 * kRunning * kMaxContext / kBlockTokens,
                                                  .max_context_tokens = Config().max_positions})
                         .value();
  const SteadyClock clock;
  worker::EngineOptions options{.max_batch_tokens = kRunning * kMaxContext, .max_running_requests = kRunning};
  options.plan_ahead = true;
  worker::Engine engine(*model, clock, std::move(options));
  Rng rng(1);
  for (std::uint32_t i = 0; i < kRunning; ++i) {
    ROOST_CHECK(engine.Submit(worker::LinkId(1), MakeRequest(i, rng)).ok());
  }
  for (int step = 0; step < 3; ++step) (void)engine.Step();
  const double seconds = MedianSeconds(effort, [&] {
    for (std::uint32_t step = 0; step < kSteps; ++step) ROOST_CHECK(engine.Step().tokens.size() == kRunning);
  });
  Figure(fmt::format("engine_host_step_us_{}", kRunning), seconds * 1e6 / kSteps, "us");
}

}  // namespace roost::bench
