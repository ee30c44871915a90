// Blocks of the cache along x, pieces of kPieceVectors vectors of 16 bytes along y.
#include <algorithm>

#include "common/base/check.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/vector_io.cuh"
#include "kernels/move_blocks.h"

namespace roost::kernels {
namespace {

constexpr std::uint32_t kThreads = 256;
constexpr std::uint32_t kPieceVectors = 4 * kThreads;
constexpr std::uint32_t kMaxGridY = 65535;

enum class Direction : std::uint8_t { kGather, kScatter };

template <Direction kDirection>
__global__ void MoveBlocksKernel(MoveBlocksArgs args) {
  const std::size_t vectors = args.kv.BlockBytes() / sizeof(uint4);
  uint4* block = static_cast<uint4*>(args.kv.base) + args.blocks[blockIdx.x] * vectors;
  uint4* place = static_cast<uint4*>(args.buffer) + blockIdx.x * vectors;
  const uint4* from = kDirection == Direction::kGather ? block : place;
  uint4* to = kDirection == Direction::kGather ? place : block;
  for (std::size_t first = std::size_t{blockIdx.y} * kPieceVectors; first < vectors;
       first += std::size_t{gridDim.y} * kPieceVectors) {
    const std::size_t end = min(vectors, first + kPieceVectors);
    for (std::size_t i = first + threadIdx.x; i < end; i += kThreads) to[i] = from[i];
  }
}

template <Direction kDirection>
void Move(Device& device, const MoveBlocksArgs& args) {
  if (args.count == 0) return;
  const std::size_t bytes = args.kv.BlockBytes();
  ROOST_CHECK(bytes % sizeof(uint4) == 0);
  const std::size_t pieces = (bytes / sizeof(uint4) + kPieceVectors - 1) / kPieceVectors;
  const LaunchShape shape{.grid_x = args.count,
                          .grid_y = static_cast<std::uint32_t>(std::min<std::size_t>(pieces, kMaxGridY)),
                          .threads = kThreads};
  Launch(device, shape, MoveBlocksKernel<kDirection>, args);
}

}  // namespace

void GatherBlocksCuda(Device& device, const MoveBlocksArgs& args) { Move<Direction::kGather>(device, args); }
void ScatterBlocksCuda(Device& device, const MoveBlocksArgs& args) { Move<Direction::kScatter>(device, args); }

void LoadMoveBlocksKernels(Device& device) {
  Load(device, MoveBlocksKernel<Direction::kGather>, MoveBlocksKernel<Direction::kScatter>);
}

}  // namespace roost::kernels
