// roost_gpu_bench [--quick] [JSON FILE]: what a CUDA device does, one line per figure, beside the ceilings that it
// shows in the same run: the bandwidth of a copy and the speed of a large product. Without a device it says so and
// exits with 77.
// --quick runs everything once, tiny, behind the SIMT shim, so that it can not rot where there is no device.
#include <fmt/format.h>

#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/json_writer.h"
#include "common/base/rng.h"
#include "kernels/device_memory.h"
#include "tests/bench/bench.h"
#include "tests/support/simt/simt_ops.h"
#include "worker/backend/choose_backend.h"
#include "worker/model/attention_plan.h"
#include "worker/model/synthetic.h"
#include "worker/model/transformer.h"

namespace roost::bench {
namespace {

using kernels::Backend;
using kernels::DeviceBuffer;
using kernels::DType;
using worker::Batch;
using worker::HfConfig;
using worker::Transformer;

constexpr int kSkipped = 77;
constexpr std::uint32_t kBlockTokens = 16;

// What is measured; --quick shrinks it to what a shim can do.
struct Sizes {
  std::uint32_t copy_blocks = 2048;  // of 1 MiB
  std::uint32_t peak_product = 8192;
  std::uint32_t product_tokens = 4096;
  std::uint32_t divide_widths = 1;  // of the 8B shape's products
  std::uint32_t kv_heads = 8;
  std::uint32_t group = 8;
  std::vector<std::uint32_t> decode_contexts{1024, 4096};
  std::uint32_t decode_batch = 64;
  std::uint32_t prompt_tokens = 8192;
  std::uint32_t chunk_tokens = 4096;
  std::uint32_t many_sequences = 256;
  std::uint32_t many_context = 512;
  std::vector<std::string> presets{"llama-3.1-8b", "qwen3-0.6b"};
  int repeats = 10;
};

Sizes Tiny() {
  return {.copy_blocks = 2,
          .peak_product = 32,
          .product_tokens = 2,
          .divide_widths = 128,
          .kv_heads = 1,
          .group = 2,
          .decode_contexts = {40},
          .decode_batch = 2,
          .prompt_tokens = 64,
          .chunk_tokens = 32,
          .many_sequences = 3,
          .many_context = 20,
          .presets = {"tiny"},
          .repeats = 1};
}

class GpuBench {
 public:
  GpuBench(const kernels::OpTable& ops, std::string device, Sizes sizes, Effort effort)
      : ops_(ops), device_(std::move(device)), sizes_(std::move(sizes)), effort_(effort) {}

  void Run() {
    MeasureCopy();
    MeasureProducts();
    for (const std::uint32_t context : sizes_.decode_contexts) MeasureDecodeAttention(context);
    MeasurePrefillAttention();
    MeasureSharedPrefix();
    for (const std::string& preset : sizes_.presets) MeasureModel(preset);
  }

  [[nodiscard]] std::string Json() const {
    JsonWriter json;
    json.BeginObject().Key("device").String(device_).Key("figures").BeginObject();
    for (const auto& [name, value] : figures_) json.Key(name).Number(value);
    return json.EndObject().EndObject().Take();
  }

 private:
  void Add(const std::string& name, double value, std::string_view unit) {
    if (effort_ == Effort::kQuick) {
      fmt::print("ran {}\n", name);  // a shim has no figures
      return;
    }
    Figure(name, value, unit);
    figures_.emplace_back(name, value);
  }

  static void Wait(const Backend& backend) { backend.ops().copy_to_host(backend.device(), nullptr, nullptr, 0); }

  // Median seconds of one call, of calls that follow each other without waiting.
  double Seconds(const Backend& backend, const std::function<void()>& work) const {
    return MedianSeconds(effort_,
                         [&] {
                           for (int i = 0; i < sizes_.repeats; ++i) work();
                           Wait(backend);
                         }) /
           sizes_.repeats;
  }

  [[nodiscard]] Backend Open() const { return Backend::Open(ops_, {}).value(); }

  static void Fill(const Backend& backend, const DeviceBuffer& buffer, std::size_t bytes) {
    const std::vector<std::byte> zeros(std::min<std::size_t>(bytes, 8U << 20U));
    for (std::size_t done = 0; done < bytes; done += zeros.size()) {
      backend.ops().copy_to_device(backend.device(), buffer.as<std::byte>() + done, zeros.data(),
                                   std::min(zeros.size(), bytes - done));
    }
  }

  void MeasureCopy() {
    const Backend backend = Open();
    kernels::KvLayout kv{nullptr, DType::kBF16, sizes_.copy_blocks, 32, 4, kBlockTokens, 128};
    const std::size_t bytes = kv.BlockBytes() * kv.block_count;
    DeviceBuffer from(backend);
    DeviceBuffer to(backend);
    DeviceBuffer blocks(backend);
    from.Reserve(bytes);
    to.Reserve(bytes);
    std::vector<std::uint32_t> all(kv.block_count);
    for (std::uint32_t i = 0; i < kv.block_count; ++i) all[i] = i;
    blocks.Upload(std::span<const std::uint32_t>(all));
    kv.base = from.data();
    const double seconds = Seconds(backend, [&] {
      backend.ops().gather_blocks(backend.device(), {kv, blocks.as<std::uint32_t>(), kv.block_count, to.data()});
    });
    copy_bandwidth_ = 2 * static_cast<double>(bytes) / seconds;
    Add("gpu_copy_bandwidth", copy_bandwidth_ / 1e9, "GB/s");
  }

  // Floating point operations per second of y[rows, outputs] = x[rows, inputs] · Wᵀ.
  double Product(const Backend& backend, std::uint32_t rows, std::uint32_t outputs, std::uint32_t inputs,
                 double& seconds) const {
    const std::vector<std::uint16_t> weight(std::size_t{outputs} * inputs);
    const kernels::MatmulPart part{weight.data(), DType::kBF16, nullptr, outputs};
    const auto weights = backend.ops().prepare_matmul(backend.device(), {{&part, 1}, inputs, DType::kBF16}).value();
    DeviceBuffer x(backend);
    DeviceBuffer y(backend);
    x.Reserve(std::size_t{rows} * inputs * 2);
    Fill(backend, x, std::size_t{rows} * inputs * 2);
    y.Reserve(std::size_t{rows} * outputs * 2);
    const double took = Seconds(backend, [&] {
      backend.ops().matmul(backend.device(), {weights.get(), x.data(), rows, y.data(), DType::kBF16});
    });
    seconds += took;
    return 2.0 * rows * outputs * inputs / took;
  }

  void MeasureProducts() {
    const Backend backend = Open();
    double seconds = 0;
    const std::uint32_t n = sizes_.peak_product;
    Add("gpu_product_peak", Product(backend, n, n, n, seconds) / 1e12, "TFLOP/s");
    seconds = 0;
    double operations = 0;
    constexpr std::pair<std::uint32_t, std::uint32_t> kShapes[] = {
        {6144, 4096}, {4096, 4096}, {28672, 4096}, {4096, 14336}};
    for (auto [outputs, inputs] : kShapes) {
      outputs /= sizes_.divide_widths;
      inputs /= sizes_.divide_widths;
      (void)Product(backend, sizes_.product_tokens, outputs, inputs, seconds);
      operations += 2.0 * sizes_.product_tokens * outputs * inputs;
    }
    Add("gpu_product_8b", operations / seconds / 1e12, "TFLOP/s");
  }

  // Slices with so many tokens each, the first `shared` of all of which are the same.
  struct Requests {
    std::vector<std::vector<BlockId>> blocks;
    std::vector<worker::BatchSlice> slices;
    std::uint32_t block_count = 0;
  };

  static Requests MakeRequests(std::uint32_t count, std::uint32_t first, std::uint32_t tokens, std::uint32_t shared) {
    Requests requests;
    requests.blocks.resize(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      auto& blocks = requests.blocks[i];
      while (blocks.size() * kBlockTokens < first + tokens) {
        const bool is_first = i == 0 || (blocks.size() + 1) * kBlockTokens > shared;
        blocks.push_back(is_first ? BlockId(requests.block_count++) : requests.blocks[0][blocks.size()]);
      }
      requests.slices.push_back(
          {.blocks = blocks, .first_position = first, .token_count = tokens, .wants_logits = true});
    }
    return requests;
  }

  double AttentionSeconds(const Requests& requests) const {
    const Backend backend = Open();
    const std::uint32_t heads = sizes_.kv_heads * sizes_.group;
    kernels::KvLayout kv{nullptr, DType::kBF16, requests.block_count, 1, sizes_.kv_heads, kBlockTokens, 128};
    worker::AttentionPlan plan;
    worker::PlanAttention(requests.slices,
                          {.block_tokens = kBlockTokens,
                           .query_head_count = heads,
                           .kv_head_count = sizes_.kv_heads,
                           .profile = backend.ops().attention_profile(backend.device(), kv.head_dim)},
                          plan);
    std::uint32_t tokens = 0;
    for (const auto& slice : requests.slices) tokens += slice.token_count;
    DeviceBuffer storage(backend);
    DeviceBuffer q(backend);
    DeviceBuffer out(backend);
    DeviceBuffer partials(backend);
    storage.Reserve(kv.BlockBytes() * kv.block_count);
    Fill(backend, storage, kv.BlockBytes() * kv.block_count);
    q.Reserve(std::size_t{tokens} * heads * kv.head_dim * 2);
    Fill(backend, q, std::size_t{tokens} * heads * kv.head_dim * 2);
    out.Reserve(std::size_t{tokens} * heads * kv.head_dim * 2);
    partials.Reserve(sizeof(float) * plan.partial_count * kernels::PartialFloats(kv.head_dim));
    const auto upload = [&backend](const auto& values) {
      DeviceBuffer buffer(backend);
      buffer.Upload(std::span(values.data(), values.size()));
      return buffer;
    };
    const DeviceBuffer blocks = upload(plan.blocks);
    const DeviceBuffer rows = upload(plan.rows);
    const DeviceBuffer items = upload(plan.items);
    const DeviceBuffer merges = upload(plan.merges);
    const DeviceBuffer parts = upload(plan.parts);
    kv.base = storage.data();
    return Seconds(backend, [&] {
      backend.ops().attention(backend.device(), {.q = q.data(),
                                                 .q_dtype = DType::kBF16,
                                                 .scale = 1,
                                                 .query_head_count = heads,
                                                 .kv = kv,
                                                 .layer = 0,
                                                 .blocks = blocks.as<std::uint32_t>(),
                                                 .rows = rows.as<kernels::AttentionRow>(),
                                                 .items = items.as<kernels::AttentionItem>(),
                                                 .item_count = static_cast<std::uint32_t>(plan.items.size()),
                                                 .merges = merges.as<kernels::AttentionMerge>(),
                                                 .merge_count = static_cast<std::uint32_t>(plan.merges.size()),
                                                 .parts = parts.as<std::uint32_t>(),
                                                 .partials = partials.as<float>(),
                                                 .out = out.data(),
                                                 .out_dtype = DType::kBF16});
    });
  }

  void MeasureDecodeAttention(std::uint32_t context) {
    const double seconds = AttentionSeconds(MakeRequests(sizes_.decode_batch, context - 1, 1, 0));
    const double bytes = 2.0 * sizes_.decode_batch * context * sizes_.kv_heads * 128 * 2;
    Add(fmt::format("gpu_decode_attention_{}", context), bytes / seconds / 1e9, "GB/s");
    Add(fmt::format("gpu_decode_attention_{}_of_copy", context), bytes / seconds / copy_bandwidth_, "ratio");
  }

  void MeasurePrefillAttention() {
    const double n = sizes_.prompt_tokens;
    const double seconds = AttentionSeconds(MakeRequests(1, 0, sizes_.prompt_tokens, 0));
    Add("gpu_prefill_attention", 2 * n * n * 128 * sizes_.kv_heads * sizes_.group / seconds / 1e12, "TFLOP/s");
  }

  void MeasureSharedPrefix() {
    const std::uint32_t context = sizes_.prompt_tokens + kBlockTokens;
    const double alone = AttentionSeconds(MakeRequests(sizes_.decode_batch, context, 1, 0));
    const double shared = AttentionSeconds(MakeRequests(sizes_.decode_batch, context, 1, sizes_.prompt_tokens));
    Add("gpu_shared_prefix_speedup", alone / shared, "x");
  }

  // A batch of the next tokens of all requests.
  static Batch BatchOf(const Requests& requests, std::uint32_t vocab_size) {
    Batch batch;
    Rng rng(1);
    for (const auto& slice : requests.slices) {
      for (std::uint32_t i = 0; i < slice.token_count; ++i) {
        batch.tokens.push_back(static_cast<TokenId>(rng.Below(vocab_size)));
      }
      batch.slices.push_back(slice);
    }
    return batch;
  }

  // Seconds of the step with greedy tokens, or of the host's part alone: until Compute returns.
  struct StepSeconds {
    double host = 0;
    double whole = 0;
  };
  StepSeconds Step(Transformer& model, const Batch& batch) const {
    worker::Draws draws;
    for (std::uint32_t row = 0; row < batch.slices.size(); ++row) draws.Add({.row = row, .temperature = 0}, {});
    const SteadyClock clock;
    StepSeconds seconds;
    // Twice before it counts: the second time may be recorded.
    (void)(model.Compute(batch), model.Sample(draws));
    (void)(model.Compute(batch), model.Sample(draws));
    seconds.whole = MedianSeconds(effort_, [&] {
      const Instant start = clock.Now();
      model.Compute(batch);
      seconds.host = ToSeconds(clock.Now() - start);
      ROOST_CHECK(model.Sample(draws).size() == draws.rows.size());
    });
    return seconds;
  }

  void MeasureModel(const std::string& preset) {
    HfConfig config = *worker::SyntheticConfig(preset);
    if (effort_ == Effort::kQuick) config.head_dim = 64;
    const std::uint32_t many_blocks = sizes_.many_sequences * (sizes_.many_context / kBlockTokens + 2);
    const std::uint32_t block_count = many_blocks + sizes_.prompt_tokens / kBlockTokens + 1;
    const auto model = Transformer::Create(Open(), config, worker::RandomWeights(1),
                                           {.block_tokens = kBlockTokens,
                                            .block_count = block_count,
                                            .max_context_tokens = config.max_positions,
                                            .compute_dtype = DType::kBF16})
                           .value();
    const std::string name = "gpu_" + preset;
    const auto step = [&](const Requests& requests) { return Step(*model, BatchOf(requests, config.vocab_size)); };
    const Requests chunk = MakeRequests(1, 0, sizes_.chunk_tokens, 0);
    Add(name + "_prefill", sizes_.chunk_tokens / step(chunk).whole, "tokens/s");
    Add(name + "_decode_1", step(MakeRequests(1, sizes_.many_context, 1, 0)).whole * 1e3, "ms");
    const StepSeconds many = step(MakeRequests(sizes_.many_sequences, sizes_.many_context, 1, 0));
    Add(fmt::format("{}_decode_{}", name, sizes_.many_sequences), sizes_.many_sequences / many.whole, "tokens/s");
    Add(fmt::format("{}_host_step_{}", name, sizes_.many_sequences), many.host * 1e6, "us");
    const double cold = step(MakeRequests(1, 0, sizes_.prompt_tokens, 0)).whole;
    const double warm = step(MakeRequests(1, sizes_.prompt_tokens - 1, 1, 0)).whole;
    Add(name + "_warm_over_cold", warm / cold, "ratio");
  }

  const kernels::OpTable& ops_;
  const std::string device_;
  const Sizes sizes_;
  const Effort effort_;
  double copy_bandwidth_ = 1;
  std::vector<std::pair<std::string, double>> figures_;
};

}  // namespace

void Figure(std::string_view name, double value, std::string_view unit) {
  fmt::print("figure {} {:.4g} {}\n", name, value, unit);
}

int Main(int argc, char** argv) {
  Effort effort = Effort::kFull;
  std::string json_file;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--quick") {
      effort = Effort::kQuick;
    } else {
      json_file = argv[i];
    }
  }
  worker::BackendChoice choice{.ops = &simt::SimtOps(), .ordinals = {0}, .device = "shim", .cuda = ""};
  if (effort == Effort::kFull) {
    const auto found = worker::ChooseBackend({.kind = worker::BackendKind::kCuda});
    if (!found.ok()) {
      fmt::print(stderr, "roost_gpu_bench: skipped: {}\n", found.error().ToString());
      return kSkipped;
    }
    choice = *found;
    fmt::print("{}\n", choice.device);
  }
  GpuBench bench(*choice.ops, choice.device, effort == Effort::kFull ? Sizes{} : Tiny(), effort);
  bench.Run();
  if (json_file.empty() || effort == Effort::kQuick) return 0;
  std::FILE* file = std::fopen(json_file.c_str(), "w");
  ROOST_CHECK(file != nullptr, "{} can not be written", json_file);
  fmt::print(file, "{}\n", bench.Json());
  std::fclose(file);
  return 0;
}

}  // namespace roost::bench

int main(int argc, char** argv) { return roost::bench::Main(argc, argv); }
