// Weights are always packed, so resident rows are of no use here. A CPU without bf16 instructions packs bf16 into
// panels, see matmul_panels_cpu.cc; otherwise oneDNN packs. For oneDNN, W is cut into slabs of output columns. A task
// is one slab times one tile of rows; threads take tasks in any order. A small W is one slab, so that its tiles write y
// in place; else a tile's part of y is copied from scratch.
#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "kernels/cpu/cpu_parallel.h"
#include "kernels/cpu/large_memory.h"
#include "kernels/cpu/matmul_cpu.h"
#include "kernels/cpu/matmul_kernels.h"
#include "kernels/cpu/matmul_stream.h"

namespace roost::kernels {
namespace {

constexpr std::uint32_t kSlabOutputs = 256;
constexpr std::size_t kOneSlabElements = std::size_t{1} << 20U;
constexpr std::uint32_t kSmallestTileForBalance = 16;

struct Slab {
  std::uint32_t first_output = 0;
  MatmulKernelFamily* family = nullptr;  // the device's
  std::size_t offset = 0;                // in the weights' memory
  dnnl::memory packed;
};

class SlabWeights final : public CpuMatmulWeights {
 public:
  SlabWeights(std::uint32_t inputs, std::uint32_t outputs, DType compute_dtype)
      : CpuMatmulWeights(inputs, outputs), dtype(compute_dtype) {}

  void Multiply(CpuDevice& device, const MatmulArgs& args) const override;

  DType dtype;
  LargeArray<std::byte> memory;  // of all slabs
  std::vector<Slab> slabs;
  std::vector<float> bias;  // [outputs], or empty
};

// Copies the tile's part of y into place if needed, and adds the bias.
void Deliver(const SlabWeights& weights, const Slab& slab, const MatmulTile& tile, const float* from, float* y) {
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

void RunTile(CpuDevice& device, const SlabWeights& weights, const MatmulArgs& args, const Slab& slab,
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

// Halves the tiles until there are enough for all threads; the size changes no result.
std::uint32_t MaxTileRows(const CpuDevice& device, const SlabWeights& weights, std::uint32_t rows) {
  std::uint32_t max_tile_rows = kLargestTileRows;
  const auto wanted = std::size_t{2} * device.thread_count();
  while (device.thread_count() > 1 && max_tile_rows > kSmallestTileForBalance &&
         (rows + max_tile_rows - 1) / max_tile_rows * weights.slabs.size() < wanted) {
    max_tile_rows /= 2;
  }
  return max_tile_rows;
}

// Decides the slabs' shapes, and allocates memory for all of them.
Result<void> ReserveSlabs(CpuDevice& device, SlabWeights& weights) {
  const std::uint32_t outputs = weights.outputs();
  const bool is_small = std::size_t{outputs} * weights.inputs() <= kOneSlabElements;
  const std::uint32_t width = is_small ? outputs : kSlabOutputs;
  std::size_t bytes = 0;
  for (std::uint32_t first = 0; first < outputs; first += width) {
    const MatmulShape shape{std::min(width, outputs - first), weights.inputs(), weights.dtype};
    ROOST_ASSIGN_OR_RETURN(MatmulKernelFamily * family, device.matmul_kernels().For(shape));
    weights.slabs.push_back({first, family, bytes, {}});
    bytes += family->packed_bytes();
  }
  weights.memory.reset(static_cast<std::byte*>(AllocateLarge(bytes)));
  if (weights.memory != nullptr) return {};
  return Error{ErrorCode::kInternal, fmt::format("no memory for {} bytes of weights", bytes), {}};
}

Result<void> PackSlabs(CpuDevice& device, const PrepareMatmulArgs& args, SlabWeights& weights) {
  std::vector<std::optional<Error>> errors(weights.slabs.size());
  const Cost packing{std::uint64_t{8} * weights.outputs() * weights.inputs()};
  ParallelFor(device, weights.slabs.size(), packing, [&](std::size_t index, std::uint32_t thread) {
    Slab& slab = weights.slabs[index];
    const MatmulShape& shape = slab.family->shape();
    const std::size_t bytes = std::size_t{shape.outputs} * shape.inputs * SizeOf(shape.dtype);
    auto* plain = reinterpret_cast<std::byte*>(device.Scratch(thread, bytes / sizeof(float) + 1));
    ConvertRows(args, slab.first_output, shape.outputs, plain);
    auto packed = slab.family->Pack(plain, weights.memory.get() + slab.offset);
    if (packed.ok()) {
      slab.packed = *std::move(packed);
    } else {
      errors[index] = packed.error();
    }
  });
  for (const std::optional<Error>& error : errors) {
    if (error) return *error;
  }
  return {};
}

// A streamed product in pieces: some neighbouring panels of a slab times some rows, so few that no thread waits long
// for another one. Neighbouring pieces have the same panels, which stay in a core's cache.
class StreamPieces {
 public:
  StreamPieces(const CpuDevice& device, const SlabWeights& weights, std::uint32_t rows)
      : weights_(weights),
        rows_(rows),
        row_parts_(CeilDiv(rows, RowsAtOnce(device))),
        panels_at_once_(PanelsAtOnce(device)),
        pieces_of_slab_(PiecesOf(weights.slabs.front())) {}

  [[nodiscard]] std::size_t count() const {
    return (weights_.slabs.size() - 1) * pieces_of_slab_ + PiecesOf(weights_.slabs.back());
  }

  void Run(const MatmulArgs& args, std::size_t index) const {
    const Slab& slab = weights_.slabs[index / pieces_of_slab_];
    const std::size_t in_slab = index % pieces_of_slab_;
    const std::size_t panel = in_slab / row_parts_ * panels_at_once_;
    const std::size_t first_row = rows_ * (in_slab % row_parts_) / row_parts_;
    const std::size_t end_row = rows_ * (in_slab % row_parts_ + 1) / row_parts_;
    const auto first = static_cast<std::uint32_t>(panel * kStreamedPanelOutputs);
    const auto most = static_cast<std::uint32_t>(panels_at_once_ * kStreamedPanelOutputs);
    const std::uint32_t columns = std::min(most, slab.family->shape().outputs - first);
    const std::size_t output = std::size_t{slab.first_output} + first;
    const StreamedProduct product{.packed = weights_.memory.get() + slab.offset + panel * panel_bytes(),
                                  .inputs = weights_.inputs(),
                                  .depth = slab.family->stream_depth(),
                                  .outputs = columns,
                                  .x = static_cast<const std::uint16_t*>(args.x) + first_row * weights_.inputs(),
                                  .rows = static_cast<std::uint32_t>(end_row - first_row),
                                  .y = static_cast<float*>(args.y) + first_row * weights_.outputs() + output,
                                  .y_stride = weights_.outputs()};
    Stream(product);
    if (weights_.bias.empty()) return;
    for (std::size_t row = 0; row < product.rows; ++row) {
      for (std::size_t i = 0; i < columns; ++i) product.y[row * product.y_stride + i] += weights_.bias[output + i];
    }
  }

 private:
  // A piece takes one core some 20 us to read, or 45 us to compute.
  static constexpr std::size_t kPieceBytes = std::size_t{512} << 10U;
  static constexpr std::size_t kPieceProducts = std::size_t{5} << 20U;
  static constexpr std::size_t kLeastPieceProducts = std::size_t{256} << 10U;
  // A panel of more bytes does not stay in a core's cache beside x, so a piece has more rows for it.
  static constexpr std::size_t kKeptPanelBytes = std::size_t{768} << 10U;
  static constexpr std::size_t kRowsOfLargePanel = std::size_t{4} * kStreamedRowsAtOnce;

  static std::size_t CeilDiv(std::size_t a, std::size_t b) { return (a + b - 1) / b; }

  [[nodiscard]] std::size_t panel_bytes() const { return StreamedPanelBytes(weights_.inputs()); }
  [[nodiscard]] std::size_t row_products() const { return kStreamedPanelOutputs * weights_.inputs(); }

  // The products of a piece: fewer if there would be too few pieces for all threads.
  [[nodiscard]] std::size_t ProductsAtOnce(const CpuDevice& device) const {
    if (device.thread_count() == 1) return kPieceProducts;
    const std::size_t all = rows_ * weights_.outputs() * weights_.inputs();
    return std::clamp(all / (4 * device.thread_count()), kLeastPieceProducts, kPieceProducts);
  }

  [[nodiscard]] std::size_t RowsAtOnce(const CpuDevice& device) const {
    const std::size_t least = panel_bytes() <= kKeptPanelBytes ? kStreamedRowsAtOnce : kRowsOfLargePanel;
    return std::max(least, ProductsAtOnce(device) / row_products());
  }

  [[nodiscard]] std::size_t PanelsAtOnce(const CpuDevice& device) const {
    const std::size_t rows = CeilDiv(rows_, row_parts_);
    const std::size_t most = std::min(kPieceBytes / panel_bytes(), ProductsAtOnce(device) / (rows * row_products()));
    return std::max<std::size_t>(1, most);
  }

  [[nodiscard]] std::size_t PiecesOf(const Slab& slab) const {
    const std::size_t panels = CeilDiv(slab.family->shape().outputs, kStreamedPanelOutputs);
    return CeilDiv(panels, panels_at_once_) * row_parts_;
  }

  const SlabWeights& weights_;
  const std::size_t rows_;
  const std::size_t row_parts_;
  const std::size_t panels_at_once_;
  const std::size_t pieces_of_slab_;  // of all slabs but the last, which may be narrower
};

void StreamSlabs(CpuDevice& device, const SlabWeights& weights, const MatmulArgs& args) {
  constexpr std::uint64_t kRowsPerReading = 4;  // are computed while the weights are read
  const StreamPieces pieces(device, weights, args.rows);
  const Cost cost{std::max<std::uint64_t>(args.rows, kRowsPerReading) * weights.outputs() * weights.inputs() /
                  kRowsPerReading};
  ParallelFor(device, pieces.count(), cost, [&](std::size_t index, std::uint32_t) { pieces.Run(args, index); });
}

void SlabWeights::Multiply(CpuDevice& device, const MatmulArgs& args) const {
  if (slabs.front().family->MayStream(args.rows) && slabs.back().family->MayStream(args.rows)) {
    StreamSlabs(device, *this, args);
    return;
  }
  const ScopedSerialOpenMp serial;
  // All slabs but the last share a family; a narrower last one may use other tile sizes.
  const std::uint32_t max_tile_rows = MaxTileRows(device, *this, args.rows);
  const std::vector<MatmulTile> tiles = slabs.front().family->Cut(args.rows, max_tile_rows);
  const std::vector<MatmulTile> last_tiles = slabs.back().family->Cut(args.rows, max_tile_rows);
  const std::size_t last_first = (slabs.size() - 1) * tiles.size();
  const Cost cost{std::uint64_t{args.rows} * outputs() * inputs()};
  ParallelFor(device, last_first + last_tiles.size(), cost, [&](std::size_t index, std::uint32_t thread) {
    const bool last = index >= last_first;
    const Slab& slab = last ? slabs.back() : slabs[index / tiles.size()];
    const MatmulTile& tile = last ? last_tiles[index - last_first] : tiles[index % tiles.size()];
    RunTile(device, *this, args, slab, tile, thread);
  });
}

}  // namespace

Result<std::unique_ptr<MatmulWeights>> PrepareMatmulCpu(Device& device, const PrepareMatmulArgs& args) {
  CpuDevice& cpu = CpuDevice::Of(device);
  const std::uint32_t outputs = OutputsOf(args);
  ROOST_CHECK(outputs > 0 && args.inputs > 0);
  if (args.compute_dtype == DType::kBF16 && !CpuComputesBF16()) return PreparePanels(cpu, args);
  auto weights = std::make_unique<SlabWeights>(args.inputs, outputs, args.compute_dtype);
  weights->bias = StackedBias(args);
  ROOST_RETURN_IF_ERROR(ReserveSlabs(cpu, *weights));
  ROOST_RETURN_IF_ERROR(PackSlabs(cpu, args, *weights));
  return std::unique_ptr<MatmulWeights>(std::move(weights));
}

void MatmulCpu(Device& device, const MatmulArgs& args) {
  ROOST_CHECK(args.y_dtype == DType::kF32);
  if (args.rows == 0) return;
  static_cast<const CpuMatmulWeights&>(*args.weights).Multiply(CpuDevice::Of(device), args);
}

}  // namespace roost::kernels
