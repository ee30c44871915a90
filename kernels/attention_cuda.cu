// Attention on tensor cores: a block of 4 warps per (item, kv head), in one of three ways, by the number of lanes:
//
//   up to 16    decode: all warps have the same rows, and each takes every fourth slab of positions, from a ring of its
//               own, without waiting for other warps; at the end their results are merged
//   up to 64    each warp has 16 rows; all warps work on the same 64 positions, which they load together
//   up to 128   the same with 32 rows per warp, so that each read of shared memory serves two row tiles
//
// Lanes are the rows times the query heads of the kv head, so that one read of K or V serves them all. cp.async loads
// slabs while earlier ones are computed. A slab of 16 positions lies in one block.
#include <algorithm>
#include <bit>

#include "common/base/check.h"
#include "kernels/attention.h"
#include "kernels/attention_pack.cuh"
#include "kernels/attention_tile.cuh"
#include "kernels/cuda_kernels.h"
#include "kernels/vector_io.cuh"

namespace roost::kernels {
namespace {

// ---- rows split among the warps ----

template <std::uint32_t kHeadDim, std::uint32_t kRowTiles>
struct QueriesOf {
  using Type = SharedQueries<kHeadDim>;
};
template <std::uint32_t kHeadDim>
struct QueriesOf<kHeadDim, 1> {
  using Type = RegisterQueries<kHeadDim>;
};

template <std::uint32_t kHeadDim, std::uint32_t kRowTiles>
__device__ __forceinline__ void AttendByRows(const AttentionLaunch& launch, const Pack& pack) {
  constexpr std::uint32_t kRows = kWarps * kRowTiles * kTileRows;
  constexpr std::uint32_t kStepPositions = kWarps * kSlabPositions;
  constexpr std::uint32_t kSlabs = kWarps / kRowTiles;  // computed at a time: more scores do not fit into the registers
  const std::uint32_t warp = threadIdx.x / 32;
  const std::uint32_t first_lane = warp * kRowTiles * kTileRows;
  std::byte* queries_memory = DynamicShared() + kEndsBytes;
  std::byte* ring = queries_memory + kRows * kHeadDim * 2;
  const auto stage = [ring](std::uint32_t step) { return ring + step % kPrefillStages * kStageBytes<kHeadDim>; };
  SlabSource<kHeadDim> source(launch, pack, warp);
  CopyQueries<kHeadDim, kRows>(launch.args, pack, queries_memory);
  source.Copy(ring + warp * kSlabBytes<kHeadDim>);
  CommitCopies();
  WriteEnds(launch.args, pack);
  WaitForCopies<0>();
  __syncthreads();
  const RowsSight sight = SightOf<kRowTiles * kTileRows>(pack, first_lane);
  const typename QueriesOf<kHeadDim, kRowTiles>::Type queries{queries_memory + first_lane * kHeadDim * 2};
  RowsState<kHeadDim, kRowTiles> state;
  state.Clear();
  const std::uint32_t steps = (pack.item.position_count + kStepPositions - 1) / kStepPositions;
  for (std::uint32_t step = 0; step < steps; ++step) {
    WaitForCopies<0>();
    __syncthreads();  // this step's slabs have arrived, and no warp still reads the previous step's
    if (step + 1 < steps) source.Copy(stage(step + 1) + warp * kSlabBytes<kHeadDim>);
    CommitCopies();
    const std::byte* slabs = stage(step);
#pragma unroll
    for (std::uint32_t slab = 0; slab < kWarps; slab += kSlabs) {
      AttendSlabs<kHeadDim, kRowTiles, kSlabs>(queries, sight, slabs + slab * kSlabBytes<kHeadDim>,
                                               step * kStepPositions + slab * kSlabPositions,
                                               launch.args.scale * kLog2E, state);
    }
  }
  state.FinishSums();
  // The pack is computed again: keeping it would cost registers in the loop.
  WriteRows<kHeadDim, kRowTiles>(launch.args, PackOf(launch, blockIdx.x), first_lane, state);
}

// ---- positions split among the warps ----

// The values that the warps of a decode exchange. It reuses the memory of the slabs once all warps are done with them.
template <std::uint32_t kHeadDim>
struct WarpResults {
  float max[kWarps][kTileRows];
  float sum[kWarps][kTileRows];
  float out[kWarps][kTileRows][kHeadDim + 8];  // padded, so that the rows of one store hit different banks
};

template <std::uint32_t kHeadDim>
__device__ __forceinline__ void ShareResults(const RowsState<kHeadDim, 1>& state, WarpResults<kHeadDim>& results) {
  const std::uint32_t warp = threadIdx.x / 32;
#pragma unroll
  for (std::uint32_t half = 0; half < 2; ++half) {
    const std::uint32_t row = half * 8 + threadIdx.x % 32 / 4;
    if (threadIdx.x % 4 == 0) {  // the other lanes of the row have the same
      results.max[warp][row] = state.max[0][half];
      results.sum[warp][row] = state.sum[0][half];
    }
#pragma unroll
    for (std::uint32_t eight = 0; eight < kHeadDim / 8; ++eight) {
      const float(&columns)[4] = state.out[0][eight];
      *reinterpret_cast<float2*>(&results.out[warp][row][eight * 8 + threadIdx.x % 4 * 2]) =
          make_float2(columns[2 * half], columns[2 * half + 1]);
    }
  }
}

// Eight threads per row; each combines the warps' results in its columns.
template <std::uint32_t kHeadDim>
__device__ __forceinline__ void WriteMerged(const AttentionArgs& args, const Pack& pack,
                                            const WarpResults<kHeadDim>& results) {
  const std::uint32_t row = threadIdx.x / 8;
  if (row >= pack.lane_count()) return;
  float max = kNoScore;
#pragma unroll
  for (const auto& of_warp : results.max) max = fmaxf(max, of_warp[row]);
  float scales[kWarps];
  float sum = 0;
#pragma unroll
  for (std::uint32_t warp = 0; warp < kWarps; ++warp) {
    scales[warp] = FastExp2((results.max[warp][row] - max) * args.scale * kLog2E);
    sum += results.sum[warp][row] * scales[warp];
  }
  const LanePlace place = PlaceOf(args, pack, row);
#pragma unroll
  for (std::uint32_t column = threadIdx.x % 8 * 2; column < kHeadDim; column += 16) {
    float low = 0;
    float high = 0;
#pragma unroll
    for (std::uint32_t warp = 0; warp < kWarps; ++warp) {
      const auto two = *reinterpret_cast<const float2*>(&results.out[warp][row][column]);
      low += two.x * scales[warp];
      high += two.y * scales[warp];
    }
    WriteTwo<kHeadDim>(args, pack, place, column, max, sum, low, high);
  }
}

template <std::uint32_t kHeadDim>
__device__ __forceinline__ void AttendByPositions(const AttentionLaunch& launch, const Pack& pack) {
  const std::uint32_t warp = threadIdx.x / 32;
  std::byte* ring = DynamicShared() + kEndsBytes;
  std::byte* queries_memory = ring + (kDecodeStages - 1) * kStageBytes<kHeadDim>;
  static_assert(kTileRows * kHeadDim * 2 <= kStageBytes<kHeadDim>);
  static_assert(sizeof(WarpResults<kHeadDim>) <= kDecodeStages * kStageBytes<kHeadDim>);
  const auto slot = [ring, warp](std::uint32_t stage) {
    return ring + stage % kDecodeStages * kStageBytes<kHeadDim> + warp * kSlabBytes<kHeadDim>;
  };
  const std::uint32_t slabs = (pack.item.position_count + kSlabPositions - 1) / kSlabPositions;
  const std::uint32_t steps = warp < slabs ? (slabs - warp + kWarps - 1) / kWarps : 0;
  SlabSource<kHeadDim> source(launch, pack, warp);
  CopyQueries<kHeadDim, kTileRows>(launch.args, pack, queries_memory);
#pragma unroll
  for (std::uint32_t stage = 0; stage + 1 < kDecodeStages; ++stage) {
    if (stage < steps) source.Copy(slot(stage));
    CommitCopies();
  }
  WriteEnds(launch.args, pack);
  RowsState<kHeadDim, 1> state;
  state.Clear();
  WaitForCopies<kDecodeStages - 2>();
  __syncthreads();
  const RowsSight sight = SightOf<kTileRows>(pack, 0);
  const RegisterQueries<kHeadDim> queries(queries_memory);
  __syncthreads();  // slabs may overwrite q from here on
  for (std::uint32_t step = 0; step < steps; ++step) {
    WaitForCopies<kDecodeStages - 2>();
    __syncwarp();  // the slab is visible to all lanes, and all have read the previous one
    if (step + kDecodeStages - 1 < steps) source.Copy(slot(step + kDecodeStages - 1));
    CommitCopies();
    AttendSlabs<kHeadDim, 1, 1>(queries, sight, slot(step), (step * kWarps + warp) * kSlabPositions,
                                launch.args.scale * kLog2E, state);
  }
  state.FinishSums();
  auto& results = *reinterpret_cast<WarpResults<kHeadDim>*>(ring);
  __syncthreads();
  ShareResults(state, results);
  __syncthreads();
  WriteMerged(launch.args, pack, results);
}

template <std::uint32_t kHeadDim>
__global__ void __launch_bounds__(kThreads, kHeadDim == 64 ? 3 : 2) AttentionKernel(const AttentionLaunch launch) {
  const Pack pack = PackOf(launch, blockIdx.x);
  if (pack.item.row_count == 0) return;
  if (pack.lane_count() <= kTileRows) {
    AttendByPositions<kHeadDim>(launch, pack);
  } else if (pack.lane_count() <= kWarps * kTileRows) {
    AttendByRows<kHeadDim, 1>(launch, pack);
  } else {
    AttendByRows<kHeadDim, 2>(launch, pack);
  }
}

// One warp for each query head of a merge. Each lane computes the place and the weight of one part out of 32, so that
// the loads of the parts' values do not wait for each other.
template <std::uint32_t kHeadDim>
__global__ void __launch_bounds__(kThreads) MergeKernel(const AttentionArgs args) {
  const AttentionMerge merge = args.merges[blockIdx.x];
  const std::uint32_t head = blockIdx.y * kWarps + threadIdx.x / 32;
  if (merge.part_count == 0 || head >= args.query_head_count) return;
  const std::uint32_t lane = threadIdx.x % 32;
  float max = kNoScore;
  float sum = 0;  // over this lane's parts
  float2 out[kHeadDim / 64] = {};
  for (std::uint32_t first = 0; first < merge.part_count; first += 32) {
    const int count = static_cast<int>(min(32U, merge.part_count - first));
    std::uint32_t place = 0;
    float2 scores = make_float2(kNoScore, 0);
    if (first + lane < merge.part_count) {
      place = args.parts[merge.first_part + first + lane] + head;
      scores = *reinterpret_cast<const float2*>(args.partials + std::size_t{place} * PartialFloats(kHeadDim));
    }
    const float max_before = max;
    max = fmaxf(max, WarpMax(scores.y > 0 ? scores.x : kNoScore));
    const float kept = FastExp2((max_before - max) * kLog2E);
    const float weight = scores.y > 0 ? FastExp2((scores.x - max) * kLog2E) : 0;
    sum = sum * kept + scores.y * weight;
#pragma unroll
    for (float2& two : out) two = make_float2(two.x * kept, two.y * kept);
#pragma unroll 4
    for (int i = 0; i < count; ++i) {
      const std::size_t place_of_part = __shfl_sync(0xFFFFFFFFU, place, i);
      const float weight_of_part = __shfl_sync(0xFFFFFFFFU, weight, i);
      const float* values = args.partials + place_of_part * PartialFloats(kHeadDim) + 2 + lane * 2;
#pragma unroll
      for (std::uint32_t j = 0; j < kHeadDim / 64; ++j) {
        const auto two = *reinterpret_cast<const float2*>(values + j * 64);
        out[j].x += two.x * weight_of_part;
        out[j].y += two.y * weight_of_part;
      }
    }
  }
  sum = WarpSum(sum);
  auto* to = static_cast<std::uint16_t*>(args.out) +
             (std::size_t{merge.token} * args.query_head_count + head) * kHeadDim + lane * 2;
#pragma unroll
  for (std::uint32_t j = 0; j < kHeadDim / 64; ++j) {
    *reinterpret_cast<std::uint32_t*>(to + j * 64) = PackBF16(out[j].x / sum, out[j].y / sum);
  }
}

template <std::uint32_t kHeadDim>
constexpr LaunchShape ShapeOf(std::uint32_t blocks) {
  return {.grid_x = blocks, .threads = kThreads, .shared_bytes = kSharedBytes<kHeadDim>};
}

template <std::uint32_t kHeadDim>
void LaunchAttention(Device& device, const AttentionLaunch& launch) {
  const AttentionArgs& args = launch.args;
  if (args.item_count > 0) {
    const std::uint32_t blocks = args.item_count * args.kv.kv_head_count * launch.packs_of_group;
    Launch(device, ShapeOf<kHeadDim>(blocks), AttentionKernel<kHeadDim>, launch);
  }
  if (args.merge_count > 0) {
    Launch(device,
           {.grid_x = args.merge_count, .grid_y = (args.query_head_count + kWarps - 1) / kWarps, .threads = kThreads},
           MergeKernel<kHeadDim>, args);
  }
}

}  // namespace

AttentionProfile AttentionProfileCuda(Device& device, std::uint32_t head_dim) {
  const std::uint32_t concurrent = head_dim == 64 ? ConcurrentBlocks(device, ShapeOf<64>(1), AttentionKernel<64>)
                                                  : ConcurrentBlocks(device, ShapeOf<128>(1), AttentionKernel<128>);
  return {.lane_tiles = {kTileRows, kWarps * kTileRows, kMaxLanes},
          .partial_step = kSlabPositions,
          .max_partial_positions = std::uint32_t{1} << 31U,
          // Both costs are estimates from an H200's data sheet; neither was measured.
          .read_cost_lanes = 64,
          .item_cost_positions = 64,
          .concurrent_items = std::max(1U, concurrent)};
}

void AttentionCuda(Device& device, const AttentionArgs& args) {
  ROOST_CHECK(args.q_dtype == DType::kBF16 && args.kv.dtype == DType::kBF16 && args.out_dtype == DType::kBF16);
  ROOST_CHECK(args.kv.head_dim == 64 || args.kv.head_dim == 128);
  ROOST_CHECK(args.kv.block_tokens >= kSlabPositions && std::has_single_bit(args.kv.block_tokens));
  const std::uint32_t group = args.query_head_count / args.kv.kv_head_count;
  const AttentionLaunch launch{.args = args,
                               .group = group,
                               .packs_of_group = (group + kMaxLanes - 1) / kMaxLanes,
                               .block_shift = static_cast<std::uint32_t>(std::countr_zero(args.kv.block_tokens)),
                               .block_bytes = args.kv.BlockBytes()};
  if (args.kv.head_dim == 64) {
    LaunchAttention<64>(device, launch);
  } else {
    LaunchAttention<128>(device, launch);
  }
}

void LoadAttentionKernels(Device& device) {
  Load(device, AttentionKernel<64>, AttentionKernel<128>, MergeKernel<64>, MergeKernel<128>);
}

}  // namespace roost::kernels
