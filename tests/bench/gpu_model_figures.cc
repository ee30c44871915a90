#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "common/base/rng.h"
#include "tests/bench/gpu_bench.h"
#include "tests/bench/gpu_server.h"
#include "worker/model/loading/synthetic.h"
#include "worker/model/transformer.h"

namespace roost::bench {
namespace {

using worker::EngineOptions;

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
