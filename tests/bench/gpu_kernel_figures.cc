#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "kernels/device_memory.h"
#include "tests/bench/gpu_bench.h"
#include "worker/model/attention_plan.h"

namespace roost::bench {
namespace {

using kernels::Backend;
using kernels::DeviceBuffer;
using kernels::DType;

constexpr std::uint32_t kHeadDim = 128;

Backend Open(const GpuUnderTest& gpu) { return Backend::Open(gpu.ops, {}).value(); }

void Wait(const Backend& backend) { backend.ops().copy_to_host(backend.device(), nullptr, nullptr, 0); }

// Median seconds of one call, when calls follow each other without a wait.
double Seconds(const GpuUnderTest& gpu, const Backend& backend, const std::function<void()>& work) {
  return MedianSeconds(gpu.effort,
                       [&] {
                         for (int i = 0; i < gpu.sizes.calls; ++i) work();
                         Wait(backend);
                       }) /
         gpu.sizes.calls;
}

// bf16 values in [-1, 1). Zeros would be faster than real values.
std::vector<std::uint16_t> RandomValues(std::size_t count) {
  std::vector<std::uint16_t> values(count);
  Rng rng(1);
  for (std::uint16_t& value : values) value = kernels::FloatToBF16(static_cast<float>(2 * rng.Uniform() - 1));
  return values;
}

// A device buffer of this many bytes, filled with repetitions of a random piece.
DeviceBuffer RandomBuffer(const Backend& backend, std::size_t bytes) {
  constexpr std::size_t kPiece = std::size_t{4} << 20U;
  const std::vector<std::uint16_t> values = RandomValues(std::min(bytes / sizeof(std::uint16_t), kPiece));
  const std::size_t piece = values.size() * sizeof(std::uint16_t);
  DeviceBuffer buffer(backend);
  buffer.Reserve(bytes);
  for (std::size_t done = 0; done < bytes; done += piece) {
    backend.ops().copy_to_device(backend.device(), buffer.as<std::byte>() + done, values.data(),
                                 std::min(piece, bytes - done));
  }
  Wait(backend);
  return buffer;
}

// ---- the device's limits ----

// Bytes read and written per second.
double CopyBandwidth(const GpuUnderTest& gpu) {
  const Backend backend = Open(gpu);
  const DeviceBuffer from = RandomBuffer(backend, gpu.sizes.copy_bytes);
  DeviceBuffer to(backend);
  to.Reserve(gpu.sizes.copy_bytes);
  return 2 * static_cast<double>(gpu.sizes.copy_bytes) / gpu.copy_seconds(to.data(), from.data(), gpu.sizes.copy_bytes);
}

// y[rows, outputs] = x[rows, inputs] · Wᵀ
struct Product {
  std::uint32_t rows = 0;
  std::uint32_t outputs = 0;
  std::uint32_t inputs = 0;

  [[nodiscard]] double operations() const { return 2.0 * rows * outputs * inputs; }
};

double ProductSeconds(const GpuUnderTest& gpu, const Product& product) {
  const Backend backend = Open(gpu);
  const std::vector<std::uint16_t> weight = RandomValues(std::size_t{product.outputs} * product.inputs);
  const kernels::MatmulPart part{weight.data(), DType::kBF16, nullptr, product.outputs};
  const auto weights =
      backend.ops().prepare_matmul(backend.device(), {{&part, 1}, product.inputs, DType::kBF16}).value();
  const DeviceBuffer x = RandomBuffer(backend, std::size_t{product.rows} * product.inputs * 2);
  DeviceBuffer y(backend);
  y.Reserve(std::size_t{product.rows} * product.outputs * 2);
  return Seconds(gpu, backend, [&] {
    backend.ops().matmul(backend.device(), {weights.get(), x.data(), product.rows, y.data(), DType::kBF16});
  });
}

double PeakProduct(const GpuUnderTest& gpu) {
  const std::uint32_t n = gpu.sizes.peak_product;
  const Product product{n, n, n};
  return product.operations() / ProductSeconds(gpu, product);
}

// ---- products and attention ----

double ProductsOf8B(const GpuUnderTest& gpu) {
  constexpr std::pair<std::uint32_t, std::uint32_t> kShapes[] = {
      {6144, 4096}, {4096, 4096}, {28672, 4096}, {4096, 14336}};
  double operations = 0;
  double seconds = 0;
  for (const auto& [outputs, inputs] : kShapes) {
    const Product product{gpu.sizes.product_tokens, outputs / gpu.sizes.divide_widths,
                          inputs / gpu.sizes.divide_widths};
    operations += product.operations();
    seconds += ProductSeconds(gpu, product);
  }
  return operations / seconds;
}

// Slices with this many tokens each; the first `shared` tokens of all are the same.
struct Requests {
  std::vector<std::vector<BlockId>> blocks;
  std::vector<worker::BatchSlice> slices;
  std::uint32_t block_count = 0;
  std::uint32_t token_count = 0;
};

struct RequestShape {
  std::uint32_t count = 1;
  std::uint32_t first_position = 0;
  std::uint32_t tokens = 1;
  std::uint32_t shared = 0;
  // Each call computes the next one of so many layers, whose K and V have at least this size together.
  std::size_t least_kv_bytes = 1;
};

Requests MakeRequests(const RequestShape& shape) {
  Requests requests;
  requests.blocks.resize(shape.count);
  for (std::uint32_t i = 0; i < shape.count; ++i) {
    auto& blocks = requests.blocks[i];
    while (blocks.size() * kGpuBlockTokens < shape.first_position + shape.tokens) {
      const bool own = i == 0 || (blocks.size() + 1) * kGpuBlockTokens > shape.shared;
      blocks.push_back(own ? BlockId(requests.block_count++) : requests.blocks[0][blocks.size()]);
    }
    requests.slices.push_back(
        {.blocks = blocks, .first_position = shape.first_position, .token_count = shape.tokens, .logits_count = 1});
  }
  requests.token_count = shape.count * shape.tokens;
  return requests;
}

// The lists of a plan on the device.
struct UploadedPlan {
  UploadedPlan(const Backend& backend, const worker::AttentionPlan& plan)
      : blocks(backend), rows(backend), items(backend), merges(backend), parts(backend), partials(backend) {
    blocks.Upload(std::span(plan.blocks.data(), plan.blocks.size()));
    rows.Upload(std::span(plan.rows.data(), plan.rows.size()));
    items.Upload(std::span(plan.items.data(), plan.items.size()));
    merges.Upload(std::span(plan.merges.data(), plan.merges.size()));
    parts.Upload(std::span(plan.parts.data(), plan.parts.size()));
    partials.Reserve(sizeof(float) * plan.partial_count * kernels::PartialFloats(kHeadDim));
  }
  DeviceBuffer blocks, rows, items, merges, parts, partials;
};

double AttentionSeconds(const GpuUnderTest& gpu, const RequestShape& shape) {
  const Requests requests = MakeRequests(shape);
  const Backend backend = Open(gpu);
  const std::uint32_t heads = gpu.sizes.kv_heads * gpu.sizes.group;
  worker::AttentionPlan plan;
  worker::PlanAttention(requests.slices,
                        {.block_tokens = kGpuBlockTokens,
                         .query_head_count = heads,
                         .kv_head_count = gpu.sizes.kv_heads,
                         .profile = backend.ops().attention_profile(backend.device(), kHeadDim)},
                        plan);
  const UploadedPlan uploaded(backend, plan);
  kernels::KvLayout kv{nullptr, DType::kBF16, requests.block_count, 1, gpu.sizes.kv_heads, kGpuBlockTokens, kHeadDim};
  const std::size_t layer_bytes = kv.BlockBytes() * kv.block_count;
  kv.layer_count = static_cast<std::uint32_t>((shape.least_kv_bytes + layer_bytes - 1) / layer_bytes);
  const DeviceBuffer storage = RandomBuffer(backend, kv.BlockBytes() * kv.block_count);
  kv.base = storage.data();
  const std::size_t query_bytes = std::size_t{requests.token_count} * heads * kHeadDim * 2;
  const DeviceBuffer q = RandomBuffer(backend, query_bytes);
  DeviceBuffer out(backend);
  out.Reserve(query_bytes);
  kernels::AttentionArgs args{.q = q.data(),
                              .q_dtype = DType::kBF16,
                              .scale = 1 / std::sqrt(static_cast<float>(kHeadDim)),
                              .query_head_count = heads,
                              .kv = kv,
                              .layer = 0,
                              .blocks = uploaded.blocks.as<std::uint32_t>(),
                              .rows = uploaded.rows.as<kernels::AttentionRow>(),
                              .items = uploaded.items.as<kernels::AttentionItem>(),
                              .item_count = static_cast<std::uint32_t>(plan.items.size()),
                              .merges = uploaded.merges.as<kernels::AttentionMerge>(),
                              .merge_count = static_cast<std::uint32_t>(plan.merges.size()),
                              .parts = uploaded.parts.as<std::uint32_t>(),
                              .partials = uploaded.partials.as<float>(),
                              .out = out.data(),
                              .out_dtype = DType::kBF16};
  return Seconds(gpu, backend, [&] {
    backend.ops().attention(backend.device(), args);
    args.layer = (args.layer + 1) % kv.layer_count;
  });
}

// Bytes of K and V per second.
double DecodeAttention(const GpuUnderTest& gpu, std::uint32_t batch, std::uint32_t context) {
  const double seconds = AttentionSeconds(
      gpu, {.count = batch, .first_position = context - 1, .least_kv_bytes = gpu.sizes.decode_kv_bytes});
  return 2.0 * batch * context * gpu.sizes.kv_heads * kHeadDim * 2 / seconds;
}

// Operations per second of the causal half of the scores, and of the weighted sums.
double PrefillAttention(const GpuUnderTest& gpu) {
  const double n = gpu.sizes.prompt_tokens;
  const double seconds = AttentionSeconds(gpu, {.tokens = gpu.sizes.prompt_tokens});
  return 2 * n * n * kHeadDim * gpu.sizes.kv_heads * gpu.sizes.group / seconds;
}

double SharedPrefixSpeedup(const GpuUnderTest& gpu) {
  RequestShape shape{.count = gpu.sizes.sharing_requests, .first_position = gpu.sizes.prompt_tokens + kGpuBlockTokens};
  const double alone = AttentionSeconds(gpu, shape);
  shape.shared = gpu.sizes.prompt_tokens;
  return alone / AttentionSeconds(gpu, shape);
}

}  // namespace

std::vector<GpuFigure> GpuKernelFigures(const GpuUnderTest& gpu) {
  std::vector<GpuFigure> figures;
  figures.push_back({"gpu_copy_bandwidth", "GB/s", [&gpu] { return CopyBandwidth(gpu) / 1e9; }});
  figures.push_back({"gpu_product_peak", "TFLOP/s", [&gpu] { return PeakProduct(gpu) / 1e12; }});
  figures.push_back({"gpu_product_8b", "TFLOP/s", [&gpu] { return ProductsOf8B(gpu) / 1e12; }});
  for (const std::uint32_t batch : gpu.sizes.decode_batches) {
    for (const std::uint32_t context : gpu.sizes.decode_contexts) {
      figures.push_back({fmt::format("gpu_decode_attention_{}x{}", batch, context), "GB/s",
                         [&gpu, batch, context] { return DecodeAttention(gpu, batch, context) / 1e9; }});
    }
  }
  figures.push_back({"gpu_prefill_attention", "TFLOP/s", [&gpu] { return PrefillAttention(gpu) / 1e12; }});
  figures.push_back({"gpu_shared_prefix_speedup", "x", [&gpu] { return SharedPrefixSpeedup(gpu); }});
  return figures;
}

}  // namespace roost::bench
