#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "tests/bench/bench.h"
#include "worker/engine/engine.h"

namespace roost::bench {
namespace {

using worker::Batch;
using worker::Draws;

constexpr std::uint32_t kBlockTokens = 16;
constexpr std::uint32_t kBlockCount = 100'000;
constexpr std::uint32_t kPromptTokens = 500;

// Takes no time: the rest is the engine's.
class NullModel final : public worker::Model {
 public:
  NullModel() {
    shape_.vocab_size = 1U << 17U;
    shape_.max_context_tokens = 1U << 14U;
  }

  [[nodiscard]] const worker::ModelShape& shape() const override { return shape_; }
  [[nodiscard]] std::uint32_t block_tokens() const override { return kBlockTokens; }
  [[nodiscard]] std::uint32_t block_count() const override { return kBlockCount; }
  void Compute(const Batch& /*batch*/, const Draws& draws) override { begun_.push_back(draws.rows.size()); }
  [[nodiscard]] std::span<const kernels::SampledToken> AwaitSampled() override {
    sampled_.resize(begun_.front(), {.token = 7});
    begun_.erase(begun_.begin());
    return sampled_;
  }
  [[nodiscard]] std::span<const float> Logits() override { return {}; }

 private:
  worker::ModelShape shape_;
  std::vector<std::size_t> begun_;
  std::vector<kernels::SampledToken> sampled_;
};

void Decode(Effort effort, std::uint32_t running) {
  NullModel model;
  const SteadyClock clock;
  worker::EngineOptions options{.max_batch_tokens = running * kPromptTokens, .max_running_requests = running};
  options.plan_ahead = true;
  worker::Engine engine(model, clock, std::move(options));
  Rng rng(1);
  for (std::uint32_t i = 0; i < running; ++i) {
    wire::Generate request;
    request.request_id = RequestId(i);
    request.root = {1, 1};
    request.prompt.resize(kPromptTokens);
    for (TokenId& token : request.prompt) token = static_cast<TokenId>(rng.Below(model.shape().vocab_size));
    request.max_output_tokens = 1U << 12U;
    request.ignore_eos = true;
    ROOST_CHECK(engine.Submit(worker::LinkId(1), std::move(request)).ok());
  }
  for (int step = 0; step < 3; ++step) (void)engine.Step();
  constexpr int kSteps = 64;  // each sequence fills four blocks
  const double seconds = MedianSeconds(effort, [&] {
    for (int step = 0; step < kSteps; ++step) ROOST_CHECK(engine.Step().tokens.size() == running);
  });
  Figure(fmt::format("engine_step_us_{}", running), seconds * 1e6 / kSteps, "us");
}

}  // namespace

// The host's work in a decode step outside of the model, from the schedule to the report.
void BenchEngine(Effort effort) {
  for (const std::uint32_t running : {64U, 256U}) Decode(effort, running);
}

}  // namespace roost::bench
