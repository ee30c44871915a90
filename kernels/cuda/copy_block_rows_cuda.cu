// The copies are launch arguments, so that no upload is needed. Copies of one launch run at the same time, so a launch
// takes only as many as touch different blocks; launches run one after the other.
#include <algorithm>

#include "kernels/copy_block_rows.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/vector_io.cuh"

namespace roost::kernels {
namespace {

constexpr std::uint32_t kThreads = 256;
constexpr std::uint32_t kMaxPiecesOfGrid = 65535;
constexpr std::uint32_t kMaxCopies = 128;

struct LaunchedCopies {
  BlockRowsCopy copies[kMaxCopies];
  std::uint32_t count = 0;
};

// Along x, a block of threads per copy. Along y, the pieces in turn: the heads of K and V of all layers, one after
// another.
template <typename Unit>
__global__ void CopyRowsKernel(KvLayout kv, LaunchedCopies list) {
  const BlockRowsCopy& copy = list.copies[blockIdx.x];
  const std::size_t piece_units = kv.HeadElements() * SizeOf(kv.dtype) / sizeof(Unit);
  const std::size_t row_units = kv.head_dim * SizeOf(kv.dtype) / sizeof(Unit);
  const std::size_t pieces = std::size_t{kv.layer_count} * 2 * kv.kv_head_count;
  const std::size_t wanted = row_units * copy.row_count;
  const Unit* from = static_cast<const Unit*>(kv.base) + copy.from_block * pieces * piece_units;
  Unit* to = static_cast<Unit*>(kv.base) + copy.to_block * pieces * piece_units;
  for (std::size_t piece = blockIdx.y; piece < pieces; piece += gridDim.y) {
    for (std::size_t i = threadIdx.x; i < wanted; i += blockDim.x)
      to[piece * piece_units + i] = from[piece * piece_units + i];
  }
}

bool Touch(const BlockRowsCopy& a, const BlockRowsCopy& b) {
  return a.to_block == b.from_block || a.to_block == b.to_block || a.from_block == b.to_block;
}

// The copies from `first` on that can run together.
LaunchedCopies TakeIndependent(const CopyBlockRowsArgs& args, std::uint32_t first) {
  LaunchedCopies taken;
  for (std::uint32_t i = first; i < args.copy_count && taken.count < kMaxCopies; ++i) {
    const BlockRowsCopy& next = args.copies[i];
    const auto touches_next = [&next](const BlockRowsCopy& copy) { return Touch(copy, next); };
    if (std::any_of(taken.copies, taken.copies + taken.count, touches_next)) break;
    taken.copies[taken.count++] = next;
  }
  return taken;
}

}  // namespace

void CopyBlockRowsCuda(Device& device, const CopyBlockRowsArgs& args) {
  const std::uint32_t pieces = args.kv.layer_count * 2 * args.kv.kv_head_count;
  const bool vectors = args.kv.head_dim * SizeOf(args.kv.dtype) % sizeof(uint4) == 0;
  for (std::uint32_t done = 0; done < args.copy_count;) {
    const LaunchedCopies list = TakeIndependent(args, done);
    const LaunchShape shape{.grid_x = list.count, .grid_y = std::min(pieces, kMaxPiecesOfGrid), .threads = kThreads};
    Launch(device, shape, vectors ? CopyRowsKernel<uint4> : CopyRowsKernel<std::uint16_t>, args.kv, list);
    done += list.count;
  }
}

void LoadCopyBlockRowsKernels(Device& device) { Load(device, CopyRowsKernel<uint4>, CopyRowsKernel<std::uint16_t>); }

}  // namespace roost::kernels
