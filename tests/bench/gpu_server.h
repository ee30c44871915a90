// An engine on a model, for figures of a device: it serves requests that arrive together, and times its steps.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/rng.h"
#include "common/prefix/block_hash.h"
#include "tests/bench/gpu_bench.h"
#include "worker/engine/engine.h"

namespace roost::bench {

inline double Median(std::vector<double> values) {
  ROOST_CHECK(!values.empty());
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// A model that measures how long its caller has waited for the device's tokens.
class WatchedModel final : public worker::Model {
 public:
  explicit WatchedModel(worker::Model& model) : model_(model) {}

  [[nodiscard]] const worker::ModelShape& shape() const override { return model_.shape(); }
  [[nodiscard]] std::uint32_t block_tokens() const override { return model_.block_tokens(); }
  [[nodiscard]] std::uint32_t block_count() const override { return model_.block_count(); }
  void Compute(const worker::Batch& batch, const worker::Draws& draws) override { model_.Compute(batch, draws); }
  [[nodiscard]] std::span<const kernels::SampledToken> AwaitSampled() override {
    const Instant start = clock_.Now();
    const auto sampled = model_.AwaitSampled();
    waited_ += clock_.Now() - start;
    return sampled;
  }
  void AwaitFinished() override { model_.AwaitFinished(); }
  [[nodiscard]] worker::Scores AwaitedScores() const override { return model_.AwaitedScores(); }
  [[nodiscard]] std::span<const float> Logits() override { return model_.Logits(); }

  [[nodiscard]] Duration waited() const { return waited_; }

 private:
  worker::Model& model_;
  const SteadyClock clock_;
  Duration waited_{0};
};

struct Served {
  double seconds = 0;
  std::uint64_t output_tokens = 0;
  std::vector<double> ttft_seconds;
  std::vector<double> inter_token_seconds;
  // For steps that only decode, for all requests: the whole time, and the time without the wait for the device.
  std::vector<double> decode_seconds;
  std::vector<double> decode_host_seconds;
};

// An engine with an empty cache on a model.
class Server {
 public:
  Server(worker::Model& model, worker::EngineOptions options)
      : model_(model), engine_(model_, clock_, std::move(options)) {}

  // Serves requests that arrive together, until the last one has ended.
  Served Serve(std::vector<wire::Generate> requests) {
    const std::size_t count = requests.size();
    const Instant start = clock_.Now();
    for (wire::Generate& request : requests) {
      const Result<void> submitted = engine_.Submit(worker::LinkId(1), std::move(request));
      ROOST_CHECK(submitted.ok(), "{}", submitted.error().ToString());
    }
    Served served;
    std::size_t ended = 0;
    while (engine_.HasWork()) {
      for (const worker::RequestEvent& event : Step(count, served)) {
        ROOST_CHECK(!event.event.error, "{}", event.event.error->ToString());
        ended += event.event.finish.has_value() ? 1 : 0;
      }
    }
    ROOST_CHECK(ended == count, "{} of {} requests ended", ended, count);
    served.seconds = ToSeconds(clock_.Now() - start);
    return served;
  }

 private:
  std::vector<worker::RequestEvent> Step(std::size_t count, Served& served) {
    const Instant start = clock_.Now();
    const Duration waited = model_.waited();
    worker::StepReport report = engine_.Step();
    const Duration whole = clock_.Now() - start;
    if (report.load.step_prefill_tokens == 0 && report.load.step_decode_tokens == count) {
      served.decode_seconds.push_back(ToSeconds(whole));
      served.decode_host_seconds.push_back(ToSeconds(whole - (model_.waited() - waited)));
    }
    const auto append = [](std::vector<double>& to, const std::vector<double>& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    append(served.ttft_seconds, report.counts.ttft_seconds);
    append(served.inter_token_seconds, report.counts.inter_token_seconds);
    served.output_tokens += report.counts.output_tokens;
    return std::move(report.tokens);
  }

  const SteadyClock clock_;
  WatchedModel model_;
  worker::Engine engine_;
};

struct Lengths {
  std::uint32_t prompt = 0;
  std::uint32_t output = 0;
};

// Requests with new prompts, unless `name` was used before.
inline std::vector<wire::Generate> MakeRequests(std::uint64_t name, std::uint32_t vocab_size,
                                                std::span<const Lengths> all) {
  std::vector<wire::Generate> requests(all.size());
  Rng rng(name);
  for (std::size_t i = 0; i < all.size(); ++i) {
    wire::Generate& request = requests[i];
    request.request_id = RequestId(i + 1);
    request.root = BlockHash{name, i};
    for (std::uint32_t t = 0; t < all[i].prompt; ++t) {
      request.prompt.push_back(static_cast<TokenId>(rng.Below(vocab_size)));
    }
    request.block_hashes = HashBlocks(request.root, request.prompt, kGpuBlockTokens);
    request.sampling.temperature = 0;
    request.max_output_tokens = all[i].output;
    request.ignore_eos = true;
  }
  return requests;
}

}  // namespace roost::bench
