// Blocks of the cache along x, pieces of kPieceVectors vectors of 16 bytes along y. The moves are launch arguments, so
// that no upload is needed.
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
constexpr std::uint32_t kMaxMoves = 256;

struct LaunchedMoves {
  void* pool;
  void* buffer;
  std::size_t block_vectors;
  BlockMove moves[kMaxMoves];
};

enum class Direction : std::uint8_t { kGather, kScatter };

template <Direction kDirection>
__global__ void MoveBlocksKernel(LaunchedMoves list) {
  const BlockMove& move = list.moves[blockIdx.x];
  const std::size_t vectors = list.block_vectors;
  uint4* block = static_cast<uint4*>(list.pool) + move.block * vectors;
  uint4* place = static_cast<uint4*>(list.buffer) + move.place * vectors;
  const uint4* from = kDirection == Direction::kGather ? block : place;
  uint4* to = kDirection == Direction::kGather ? place : block;
  for (std::size_t first = std::size_t{blockIdx.y} * kPieceVectors; first < vectors;
       first += std::size_t{gridDim.y} * kPieceVectors) {
    const std::size_t end = min(vectors, first + kPieceVectors);
    for (std::size_t i = first + threadIdx.x; i < end; i += kThreads) to[i] = from[i];
  }
}

// Calls launch(shape, moves) for each launch.
template <typename Launch>
void Move(const MoveBlocksArgs& args, const Launch& launch) {
  const std::size_t bytes = args.kv.BlockBytes();
  ROOST_CHECK(bytes % sizeof(uint4) == 0);
  LaunchedMoves list{.pool = args.kv.base, .buffer = args.buffer, .block_vectors = bytes / sizeof(uint4), .moves = {}};
  const std::size_t pieces = (list.block_vectors + kPieceVectors - 1) / kPieceVectors;
  for (std::uint32_t done = 0; done < args.count; done += kMaxMoves) {
    const std::uint32_t count = std::min(args.count - done, kMaxMoves);
    std::copy_n(args.moves + done, count, list.moves);
    launch(LaunchShape{.grid_x = count,
                       .grid_y = static_cast<std::uint32_t>(std::min<std::size_t>(pieces, kMaxGridY)),
                       .threads = kThreads},
           list);
  }
}

}  // namespace

void ScatterBlocksCuda(Device& device, const MoveBlocksArgs& args) {
  Move(args, [&](const LaunchShape& shape, const LaunchedMoves& list) {
    Launch(device, shape, MoveBlocksKernel<Direction::kScatter>, list);
  });
}

#ifdef ROOST_SIMT

void GatherBlocksSimt(Device& device, const MoveBlocksArgs& args) {
  Move(args, [&](const LaunchShape& shape, const LaunchedMoves& list) {
    Launch(device, shape, MoveBlocksKernel<Direction::kGather>, list);
  });
}

#else

cudaError_t GatherBlocksOn(cudaStream_t stream, const MoveBlocksArgs& args) {
  cudaError_t status = cudaSuccess;
  Move(args, [&](const LaunchShape& shape, const LaunchedMoves& list) {
    if (status != cudaSuccess) return;
    MoveBlocksKernel<Direction::kGather>
        <<<dim3(shape.grid_x, shape.grid_y, shape.grid_z), shape.threads, shape.shared_bytes, stream>>>(list);
    status = cudaGetLastError();
  });
  return status;
}

#endif

void LoadMoveBlocksKernels(Device& device) {
  Load(device, MoveBlocksKernel<Direction::kGather>, MoveBlocksKernel<Direction::kScatter>);
}

}  // namespace roost::kernels
