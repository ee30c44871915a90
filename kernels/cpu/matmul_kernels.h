// oneDNN's products of one shape: [tile_rows, K] · [K, N] for a few fixed tile_rows, because oneDNN generates code for
// each.
//
// A family is used only after a trial on random numbers: every row must come out bit for bit the same with every tile
// size and at every place in the tile. Tile sizes that fail are dropped, so the others can be mixed freely: any number
// of rows is cut into tiles, and no result depends on how. Streaming (see matmul_stream.h) has the same trial.
// Primitives run on one thread each; our own loop distributes tiles. oneDNN's exceptions are caught here.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include <dnnl.hpp>

#include "common/base/result.h"
#include "kernels/dtype.h"

namespace roost::kernels {

inline constexpr std::uint32_t kLargestTileRows = 128;

// Has the CPU the bf16 instructions that oneDNN uses? Without them its bf16 products are slow.
[[nodiscard]] bool CpuComputesBF16();

struct MatmulShape {
  std::uint32_t outputs = 0;  // N
  std::uint32_t inputs = 0;   // K
  DType dtype = DType::kF32;  // of x and W; y is f32
  auto operator<=>(const MatmulShape&) const = default;
};

// A range of rows that tile size `kernel` of the family computes. `rows` is less than the tile size only in the last
// tile of a product, when there is no smaller tile size.
struct MatmulTile {
  std::uint32_t first_row = 0;
  std::uint32_t rows = 0;
  std::size_t kernel = 0;
};

// Not thread-safe, except that Run may be called at once with distinct `thread`s.
class MatmulKernelFamily {
 public:
  // Generates and tests the kernels; takes 1 to 100 ms.
  [[nodiscard]] static Result<std::unique_ptr<MatmulKernelFamily>> Create(const MatmulShape& shape,
                                                                          std::uint32_t thread_count);

  [[nodiscard]] const MatmulShape& shape() const { return shape_; }
  [[nodiscard]] std::uint32_t tile_rows(std::size_t kernel) const { return kernels_[kernel].tile_rows; }
  // All tile sizes in use, ascending.
  [[nodiscard]] std::vector<std::uint32_t> TileSizes() const;

  // May products of this many rows be streamed? Only if their rows equal those from tiles, bit for bit; and only few
  // rows where oneDNN's tiles use matrix instructions, which Stream does not.
  [[nodiscard]] bool MayStream(std::uint32_t rows) const;
  // As StreamedProduct has it.
  [[nodiscard]] std::uint32_t stream_depth() const { return stream_depth_; }

  // Cuts `rows` into tiles of at most `max_tile_rows` (where the sizes in use allow).
  [[nodiscard]] std::vector<MatmulTile> Cut(std::uint32_t rows, std::uint32_t max_tile_rows) const;

  // Size of a packed W, padded so that another one behind it is aligned.
  [[nodiscard]] std::size_t packed_bytes() const;

  // Packs W [N][K], row-major in the shape's dtype, into the kernels' own layout at `to`, 64-byte aligned.
  [[nodiscard]] Result<dnnl::memory> Pack(const void* weight, void* to) const;

  // y[tile_rows][N] = x[tile_rows][K] · packedᵀ; y is contiguous.
  void Run(std::size_t kernel, std::uint32_t thread, const dnnl::memory& packed, const void* x, float* y);

 private:
  // One tile size. Memory objects are per thread, because a call sets their addresses.
  struct Kernel {
    struct Arguments {
      dnnl::memory x;
      dnnl::memory y;
      dnnl::memory scratch;
    };
    std::uint32_t tile_rows = 0;
    dnnl::matmul::primitive_desc description;
    dnnl::matmul primitive;
    std::vector<Arguments> arguments;
  };

  MatmulKernelFamily(const MatmulShape& shape, std::uint32_t thread_count);
  void Generate();
  [[nodiscard]] Kernel MakeKernel(std::uint32_t tile_rows, const dnnl::memory::desc& packed) const;
  [[nodiscard]] Result<void> DropUnequalKernels();
  [[nodiscard]] std::uint32_t FindStreamDepth(const dnnl::memory& packed, const std::vector<std::byte>& x,
                                              const std::vector<float>& wanted) const;
  [[nodiscard]] bool StreamsLikeKernels(std::uint32_t depth, const dnnl::memory& packed,
                                        const std::vector<std::byte>& x, const std::vector<float>& wanted) const;
  [[nodiscard]] std::vector<float> RunAll(std::size_t kernel, const dnnl::memory& packed,
                                          const std::vector<std::byte>& x);

  const MatmulShape shape_;
  const std::uint32_t thread_count_;
  dnnl::engine engine_;
  std::vector<dnnl::stream> streams_;  // per thread
  std::vector<Kernel> kernels_;        // ascending tile_rows
  std::uint32_t stream_depth_ = 0;     // 0: streamed rows would differ
};

// The families of one device.
class MatmulKernelCache {
 public:
  explicit MatmulKernelCache(std::uint32_t thread_count) : thread_count_(thread_count) {}

  [[nodiscard]] Result<MatmulKernelFamily*> For(const MatmulShape& shape);

 private:
  const std::uint32_t thread_count_;
  std::map<MatmulShape, std::unique_ptr<MatmulKernelFamily>> families_;
};

}  // namespace roost::kernels
