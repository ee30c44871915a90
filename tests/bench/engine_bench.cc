#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "tests/bench/bench.h"
#include "worker/engine/engine.h"
#include "worker/transfer/frame_source.h"
#include "worker/transfer/readable_blocks.h"

namespace roost::bench {
namespace {

using worker::Batch;
using worker::Draws;

constexpr std::uint32_t kBlockCount = 100'000;
constexpr std::uint32_t kPromptTokens = 500;

class NullReader final : public worker::BlockReader {
 public:
  [[nodiscard]] std::size_t block_bytes() const override { return 0; }
  void Read(BlockId /*block*/, std::span<std::byte> /*to*/, const std::function<void()>& may_change) const override {
    may_change();
  }
};

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
  [[nodiscard]] std::unique_ptr<worker::BlockReader> MakeBlockReader() const override {
    return std::make_unique<NullReader>();
  }

 private:
  worker::ModelShape shape_;
  std::vector<std::size_t> begun_;
  std::vector<kernels::SampledToken> sampled_;
};

// May other workers fetch the blocks?
enum class Blocks { kStay, kTravel };

// Decodes of `running` sequences, in steps that are planned ahead.
class Decodes {
 public:
  static constexpr int kSteps = 64;  // of a run: each sequence fills four blocks

  Decodes(std::uint32_t running, Blocks blocks)
      : running_(running),
        readable_(model_.MakeBlockReader(), kBlockCount, kBlockTokens),
        engine_(model_, clock_, Options(blocks)) {
    Rng rng(1);
    for (std::uint32_t i = 0; i < running; ++i) {
      wire::Generate request;
      request.request_id = RequestId(i);
      request.root = {1, 1};
      request.prompt.resize(kPromptTokens);
      for (TokenId& token : request.prompt) token = static_cast<TokenId>(rng.Below(model_.shape().vocab_size));
      request.max_output_tokens = 1U << 12U;
      request.ignore_eos = true;
      ROOST_CHECK(engine_.Submit(worker::LinkId(1), std::move(request)).ok());
    }
    for (int step = 0; step < 3; ++step) (void)engine_.Step();
  }

  void Run() {
    for (int step = 0; step < kSteps; ++step) ROOST_CHECK(engine_.Step().tokens.size() == running_);
  }
  [[nodiscard]] double SecondsOfRun() {
    const Instant begin = clock_.Now();
    Run();
    return ToSeconds(clock_.Now() - begin);
  }

 private:
  worker::EngineOptions Options(Blocks blocks) {
    worker::EngineOptions options{.max_batch_tokens = running_ * kPromptTokens, .max_running_requests = running_};
    options.plan_ahead = true;
    if (blocks == Blocks::kTravel) {
      options.readable = &readable_;
      options.arriving = &inbox_;
    }
    return options;
  }

  const std::uint32_t running_;
  const SteadyClock clock_;
  NullModel model_;
  worker::ReadableBlocks readable_;
  worker::FrameInbox inbox_{[] {}};
  worker::Engine engine_;
};

void Decode(Effort effort, std::uint32_t running) {
  Decodes decodes(running, Blocks::kStay);
  const double seconds = MedianSeconds(effort, [&] { decodes.Run(); });
  Figure(fmt::format("engine_step_us_{}", running), seconds * 1e6 / Decodes::kSteps, "us");
}

// The same steps while other workers may fetch the blocks and none does. In turns, the fastest of each.
void Travel(Effort effort, std::uint32_t running) {
  Decodes stay(running, Blocks::kStay);
  Decodes travel(running, Blocks::kTravel);
  double seconds_of_stay = stay.SecondsOfRun();
  double seconds_of_travel = travel.SecondsOfRun();
  for (int round = effort == Effort::kQuick ? 0 : 40; round > 0; --round) {
    seconds_of_stay = std::min(seconds_of_stay, stay.SecondsOfRun());
    seconds_of_travel = std::min(seconds_of_travel, travel.SecondsOfRun());
  }
  Figure(fmt::format("engine_step_blocks_travel_{}", running), seconds_of_travel / seconds_of_stay, "x");
  constexpr int kCommits = Decodes::kSteps / kBlockTokens;  // of a sequence in a run
  Figure(fmt::format("engine_publish_ns_{}", running), (seconds_of_travel - seconds_of_stay) * 1e9 / kCommits / running,
         "ns");
}

}  // namespace

// The host's work in a decode step outside of the model, from the schedule to the report.
void BenchEngine(Effort effort) {
  for (const std::uint32_t running : {64U, 256U}) Decode(effort, running);
  for (const std::uint32_t running : {64U, 256U}) Travel(effort, running);
}

}  // namespace roost::bench
