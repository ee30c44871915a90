// Weights are packed by oneDNN, so rows that lie on the device already are no use here. W is cut into slabs of output
// columns. A task is one slab times one tile of rows; tasks are dealt to threads in any
// order. A small W is one slab, so that its tiles write y in place; else a tile's part of y is copied from scratch.
#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "kernels/cpu_parallel.h"
#include "kernels/matmul.h"
#include "kernels/matmul_kernels.h"

namespace roost::kernels {
namespace {

constexpr std::uint32_t kSlabOutputs = 256;
constexpr std::size_t kOneSlabElements = std::size_t{1} << 20U;
constexpr std::uint32_t kSmallestTileForBalance = 16;

struct Slab {
  std::uint32_t first_output = 0;
  MatmulKernelFamily* family = nullptr;  // of the device
  dnnl::memory packed;
};

class CpuWeights final : public MatmulWeights {
 public:
  CpuWeights(std::uint32_t inputs, std::uint32_t outputs, DType compute_dtype)
      : MatmulWeights(inputs, outputs), dtype(compute_dtype) {}

  DType dtype;
  std::vector<Slab> slabs;
  std::vector<float> bias;  // [outputs], or empty
};

// Rows first … first + count - 1 of the stacked parts, in the compute dtype.
void ConvertRows(const PrepareMatmulArgs& args, std::uint32_t first, std::uint32_t count, std::byte* to) {
  const std::size_t inputs = args.inputs;
  std::uint32_t part_first = 0;
  for (const MatmulPart& part : args.parts) {
    const std::uint32_t begin = std::max(first, part_first);
    const std::uint32_t end = std::min(first + count, part_first + part.outputs);
    for (std::uint32_t row = begin; row < end; ++row) {
      const std::size_t source = (row - part_first) * inputs;
      std::byte* row_to = to + (row - first) * inputs * SizeOf(args.compute_dtype);
      if (part.dtype == args.compute_dtype) {
        const std::size_t size = SizeOf(part.dtype);
        std::memcpy(row_to, static_cast<const std::byte*>(part.weight) + source * size, inputs * size);
        continue;
      }
      for (std::size_t i = 0; i < inputs; ++i) {
        StoreElement(row_to, args.compute_dtype, i, LoadElement(part.weight, part.dtype, source + i));
      }
    }
    part_first += part.outputs;
  }
}

std::vector<float> StackedBias(std::span<const MatmulPart> parts) {
  std::vector<float> bias;
  if (std::none_of(parts.begin(), parts.end(), [](const MatmulPart& part) { return part.bias != nullptr; }))
    return bias;
  for (const MatmulPart& part : parts) {
    for (std::size_t i = 0; i < part.outputs; ++i) {
      bias.push_back(part.bias != nullptr ? LoadElement(part.bias, part.dtype, i) : 0);
    }
  }
  return bias;
}

// The tile's y: into place, with bias.
void Deliver(const CpuWeights& weights, const Slab& slab, const MatmulTile& tile, const float* from, float* y) {
  const std::size_t columns = slab.family->shape().outputs;
  const float* bias = weights.bias.empty() ? nullptr : weights.bias.data() + slab.first_output;
  for (std::size_t r = 0; r < tile.rows; ++r) {
    float* to = y + (tile.first_row + r) * weights.outputs() + slab.first_output;
    const float* row = from + r * columns;
    if (bias != nullptr) {
      for (std::size_t i = 0; i < columns; ++i) to[i] = row[i] + bias[i];
    } else if (to != row) {
      std::memcpy(to, row, columns * sizeof(float));
    }
  }
}

void RunTile(CpuDevice& device, const CpuWeights& weights, const MatmulArgs& args, const Slab& slab,
             const MatmulTile& tile, std::uint32_t thread) {
  const std::size_t columns = slab.family->shape().outputs;
  const std::size_t tile_rows = slab.family->tile_rows(tile.kernel);
  const std::size_t row_bytes = weights.inputs() * SizeOf(weights.dtype);
  const bool whole_tile = tile.rows == tile_rows;
  const bool in_place = whole_tile && columns == weights.outputs();
  const std::byte* x = static_cast<const std::byte*>(args.x) + tile.first_row * row_bytes;
  const std::size_t y_floats = in_place ? 0 : tile_rows * columns;
  const std::size_t x_floats = whole_tile ? 0 : (tile_rows * row_bytes + sizeof(float) - 1) / sizeof(float);
  float* scratch = device.Scratch(thread, y_floats + x_floats);
  if (!whole_tile) {
    float* padded = scratch + y_floats;
    std::memset(padded, 0, x_floats * sizeof(float));
    std::memcpy(padded, x, tile.rows * row_bytes);
    x = reinterpret_cast<const std::byte*>(padded);
  }
  auto* out = static_cast<float*>(args.y);
  float* y = in_place ? out + std::size_t{tile.first_row} * columns : scratch;
  slab.family->Run(tile.kernel, thread, slab.packed, x, y);
  Deliver(weights, slab, tile, y, out);
}

// Tiles shrink until there are enough for all threads; their size changes no result.
std::uint32_t MaxTileRows(const CpuDevice& device, const CpuWeights& weights, std::uint32_t rows) {
  std::uint32_t max_tile_rows = kLargestTileRows;
  const auto wanted = std::size_t{2} * device.thread_count();
  while (device.thread_count() > 1 && max_tile_rows > kSmallestTileForBalance &&
         (rows + max_tile_rows - 1) / max_tile_rows * weights.slabs.size() < wanted) {
    max_tile_rows /= 2;
  }
  return max_tile_rows;
}

}  // namespace

Result<std::unique_ptr<MatmulWeights>> PrepareMatmulCpu(Device& device, const PrepareMatmulArgs& args) {
  CpuDevice& cpu = CpuDevice::Of(device);
  std::uint32_t outputs = 0;
  for (const MatmulPart& part : args.parts) outputs += part.outputs;
  ROOST_CHECK(outputs > 0 && args.inputs > 0);
  auto weights = std::make_unique<CpuWeights>(args.inputs, outputs, args.compute_dtype);
  weights->bias = StackedBias(args.parts);
  const std::uint32_t width = std::size_t{outputs} * args.inputs <= kOneSlabElements ? outputs : kSlabOutputs;
  for (std::uint32_t first = 0; first < outputs; first += width) {
    const MatmulShape shape{std::min(width, outputs - first), args.inputs, args.compute_dtype};
    ROOST_ASSIGN_OR_RETURN(MatmulKernelFamily * family, cpu.matmul_kernels().For(shape));
    weights->slabs.push_back({first, family, {}});
  }
  std::vector<std::optional<Error>> errors(weights->slabs.size());
  const Cost packing{std::uint64_t{8} * outputs * args.inputs};
  ParallelFor(cpu, weights->slabs.size(), packing, [&](std::size_t index, std::uint32_t thread) {
    Slab& slab = weights->slabs[index];
    const MatmulShape& shape = slab.family->shape();
    const std::size_t bytes = std::size_t{shape.outputs} * shape.inputs * SizeOf(shape.dtype);
    auto* plain = reinterpret_cast<std::byte*>(cpu.Scratch(thread, bytes / sizeof(float) + 1));
    ConvertRows(args, slab.first_output, shape.outputs, plain);
    auto packed = slab.family->Pack(plain);
    if (packed.ok()) {
      slab.packed = *std::move(packed);
    } else {
      errors[index] = packed.error();
    }
  });
  for (const std::optional<Error>& error : errors) {
    if (error) return *error;
  }
  return std::unique_ptr<MatmulWeights>(std::move(weights));
}

void MatmulCpu(Device& device, const MatmulArgs& args) {
  ROOST_CHECK(args.y_dtype == DType::kF32);
  if (args.rows == 0) return;
  CpuDevice& cpu = CpuDevice::Of(device);
  const auto& weights = static_cast<const CpuWeights&>(*args.weights);
  const ScopedSerialOpenMp serial;
  // All slabs but the last share a family; the last, if narrower, may have kept other tile sizes.
  const std::uint32_t max_tile_rows = MaxTileRows(cpu, weights, args.rows);
  const std::vector<MatmulTile> tiles = weights.slabs.front().family->Cut(args.rows, max_tile_rows);
  const std::vector<MatmulTile> last_tiles = weights.slabs.back().family->Cut(args.rows, max_tile_rows);
  const std::size_t last_first = (weights.slabs.size() - 1) * tiles.size();
  const Cost cost{std::uint64_t{args.rows} * weights.outputs() * weights.inputs()};
  ParallelFor(cpu, last_first + last_tiles.size(), cost, [&](std::size_t index, std::uint32_t thread) {
    const bool last = index >= last_first;
    const Slab& slab = last ? weights.slabs.back() : weights.slabs[index / tiles.size()];
    const MatmulTile& tile = last ? last_tiles[index - last_first] : tiles[index % tiles.size()];
    RunTile(cpu, weights, args, slab, tile, thread);
  });
}

}  // namespace roost::kernels
