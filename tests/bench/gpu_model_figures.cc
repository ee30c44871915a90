#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "common/prefix/block_hash.h"
#include "tests/bench/gpu_bench.h"
#include "worker/engine/engine.h"
#include "worker/model/loading/synthetic.h"
#include "worker/model/transformer.h"

namespace roost::bench {
namespace {

using worker::Engine;
using worker::EngineOptions;

double Median(std::vector<double> values) {
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
  Server(worker::Model& model, EngineOptions options) : model_(model), engine_(model_, clock_, std::move(options)) {}

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
  Engine engine_;
};

struct Lengths {
  std::uint32_t prompt = 0;
  std::uint32_t output = 0;
};

// Requests with new prompts, unless `name` was used before.
std::vector<wire::Generate> MakeRequests(std::uint64_t name, std::uint32_t vocab_size, std::span<const Lengths> all) {
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

// A model of a known shape with random weights, made at its first use, and its measurements.
class ModelBench {
 public:
  // Enough memory for `pool_tokens` tokens of requests that run at the same time.
  ModelBench(const GpuUnderTest& gpu, const std::string& preset, std::uint32_t pool_tokens)
      : gpu_(gpu), config_(*worker::SyntheticConfig(preset)), pool_tokens_(pool_tokens) {
    if (gpu.effort == Effort::kQuick) config_.head_dim = 64;  // CUDA's attention has no smaller heads
  }

  // Prompt tokens per second.
  double Prefill() {
    const GpuSizes& sizes = gpu_.sizes;
    const std::vector<Lengths> prompts(sizes.prefill_prompts, {sizes.prefill_prompt_tokens, 1});
    const double tokens = double{1} * sizes.prefill_prompts * sizes.prefill_prompt_tokens;
    return tokens / MedianOf([&](Server& server) { return server.Serve(New(prompts)).seconds; });
  }

  // Seconds between tokens of one request alone.
  double InterToken() {
    const std::vector<Lengths> one{{gpu_.sizes.context, gpu_.sizes.decode_steps}};
    return MedianOf([&](Server& server) { return Median(server.Serve(New(one)).inter_token_seconds); });
  }

  // Time to the first token of a prompt that has been served before, over that of a new one.
  double TtftHitOverCold() {
    const std::vector<Lengths> one{{gpu_.sizes.prompt_tokens, 1}};
    return MedianOf([&](Server& server) {
      const std::vector<wire::Generate> request = New(one);
      const double cold = server.Serve(request).ttft_seconds.front();
      return server.Serve(request).ttft_seconds.front() / cold;
    });
  }

  // Output tokens per second of many requests of all lengths. The first round does not count: a device records its
  // steps in it.
  double ServeMany() {
    Server server(model(), options());
    const std::vector<Lengths> lengths = ManyLengths(gpu_.sizes);
    if (gpu_.effort == Effort::kFull) (void)server.Serve(New(lengths));
    const Served served = server.Serve(New(lengths));
    return static_cast<double>(served.output_tokens) / served.seconds;
  }

  // Median seconds of a step that decodes for all sequences, or of the host's part of it. The first round does not
  // count, as in ServeMany.
  double DecodeStep(std::vector<double> Served::*seconds, float temperature = 0) {
    const std::vector<Lengths> all(gpu_.sizes.sequences, {gpu_.sizes.context, gpu_.sizes.decode_steps});
    Server server(model(), options());
    const auto serve = [&] {
      std::vector<wire::Generate> requests = New(all);
      for (wire::Generate& request : requests) request.sampling.temperature = temperature;
      return Median(server.Serve(std::move(requests)).*seconds);
    };
    if (gpu_.effort == Effort::kFull) (void)serve();
    return serve();
  }

  double SampledOverGreedy() { return DecodeStep(&Served::decode_seconds, 1) / DecodeStep(&Served::decode_seconds); }

  static std::vector<Lengths> ManyLengths(const GpuSizes& sizes) {
    Rng rng(2);
    const std::uint32_t span = sizes.most_tokens - sizes.least_tokens + 1;
    std::vector<Lengths> lengths(sizes.sequences);
    for (Lengths& length : lengths) {
      length.prompt = sizes.least_tokens + static_cast<std::uint32_t>(rng.Below(span));
      length.output = sizes.least_tokens + static_cast<std::uint32_t>(rng.Below(span));
    }
    return lengths;
  }

 private:
  worker::Model& model() {
    if (!model_) {
      model_ = worker::Transformer::Create(
                   kernels::Backend::Open(gpu_.ops, {}).value(), config_, worker::RandomWeights(1),
                   {.block_tokens = kGpuBlockTokens,
                    .block_count = pool_tokens_ / kGpuBlockTokens + 1,
                    .max_context_tokens = config_.max_positions,
                    .step_bounds = {.token_count = gpu_.sizes.max_batch_tokens, .request_count = gpu_.sizes.sequences},
                    .compute_dtype = kernels::DType::kBF16})
                   .value();
    }
    return *model_;
  }

  [[nodiscard]] EngineOptions options() const {
    return {.max_batch_tokens = gpu_.sizes.max_batch_tokens,
            .max_running_requests = gpu_.sizes.sequences,
            .plan_ahead = true,
            .max_partial_prefills = 0};
  }

  std::vector<wire::Generate> New(std::span<const Lengths> lengths) {
    return MakeRequests(++last_name_, config_.vocab_size, lengths);
  }

  // The median over rounds on one server, after a first one that does not count.
  double MedianOf(const std::function<double(Server&)>& measure) {
    Server server(model(), options());
    if (gpu_.effort == Effort::kFull) (void)measure(server);
    std::vector<double> values(gpu_.sizes.repeats);
    for (double& value : values) value = measure(server);
    return Median(std::move(values));
  }

  const GpuUnderTest& gpu_;
  worker::HfConfig config_;
  const std::uint32_t pool_tokens_;
  std::unique_ptr<worker::Model> model_;
  std::uint64_t last_name_ = 0;
};

// Whole blocks, and one more to copy into.
std::uint32_t PoolTokens(std::uint32_t tokens) { return (tokens / kGpuBlockTokens + 2) * kGpuBlockTokens; }

std::uint32_t LargePool(const GpuSizes& sizes) {
  return std::max(sizes.prefill_prompts * PoolTokens(sizes.prefill_prompt_tokens + 1),
                  2 * PoolTokens(sizes.prompt_tokens + 1));
}

std::uint32_t SmallPool(const GpuSizes& sizes) {
  std::uint32_t mixed = 0;
  for (const Lengths& length : ModelBench::ManyLengths(sizes)) mixed += PoolTokens(length.prompt + length.output);
  return std::max(mixed, sizes.sequences * PoolTokens(sizes.context + sizes.decode_steps));
}

}  // namespace

std::vector<GpuFigure> GpuModelFigures(const GpuUnderTest& gpu) {
  const GpuSizes& sizes = gpu.sizes;
  const auto large = std::make_shared<ModelBench>(gpu, sizes.large_preset, LargePool(sizes));
  const auto small = std::make_shared<ModelBench>(gpu, sizes.small_preset, SmallPool(sizes));
  const auto of_large = [&](std::string_view what) { return fmt::format("gpu_{}_{}", sizes.large_preset, what); };
  const auto of_small = [&](std::string_view what) {
    return fmt::format("gpu_{}_{}_{}", sizes.small_preset, what, sizes.sequences);
  };
  const std::uint32_t sequences = sizes.sequences;
  return {{of_small("serve"), "tokens/s", [small] { return small->ServeMany(); }},
          {fmt::format("gpu_{}_decode_1", sizes.small_preset), "tokens/s", [small] { return 1 / small->InterToken(); }},
          {of_small("decode"), "tokens/s",
           [small, sequences] { return sequences / small->DecodeStep(&Served::decode_seconds); }},
          {of_small("host_step"), "us", [small] { return small->DecodeStep(&Served::decode_host_seconds) * 1e6; }},
          {of_small("sampled_over_greedy"), "ratio", [small] { return small->SampledOverGreedy(); }},
          {of_large("inter_token"), "ms", [large] { return large->InterToken() * 1e3; }},
          {of_large("prefill"), "tokens/s", [large] { return large->Prefill(); }},
          {of_large("ttft_hit_over_cold"), "ratio", [large] { return large->TtftHitOverCold(); }}};
}

}  // namespace roost::bench
