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
#include <cstddef>
#include <cstdint>

#include "common/base/check.h"
#include "kernels/attention.h"
#include "kernels/cuda/attention_tile.cuh"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/cuda_primitives.cuh"
#include "kernels/cuda/vector_io.cuh"

namespace roost::kernels {
namespace {

// The work of one block of threads in attention: which lanes it computes, where their q and slabs come from, how far
// each sees, and where its results go.

inline constexpr std::uint32_t kWarps = 4;
inline constexpr std::uint32_t kThreads = 32 * kWarps;
inline constexpr std::uint32_t kMaxLanes = 128;
inline constexpr std::uint32_t kDecodeStages = 3;   // slabs per warp
inline constexpr std::uint32_t kPrefillStages = 2;  // each of kWarps slabs
inline constexpr float kLog2E = 1.44269504088896340736F;

// Shared memory: the ends of what lanes see (RowsSight), then
//
//   decode    slabs, stage after stage; q lies in the last stage until all warps have it in registers
//   prefill   q, then slabs, stage after stage
inline constexpr std::uint32_t kEndsBytes = kMaxLanes * sizeof(std::uint32_t);
template <std::uint32_t kHeadDim>
inline constexpr std::uint32_t kStageBytes = kWarps* kSlabBytes<kHeadDim>;
template <std::uint32_t kHeadDim>
inline constexpr std::uint32_t kPrefillBytes = kMaxLanes* kHeadDim * 2 + kPrefillStages* kStageBytes<kHeadDim>;
template <std::uint32_t kHeadDim>
inline constexpr std::uint32_t kSharedBytes = kEndsBytes +
                                              std::max(kDecodeStages* kStageBytes<kHeadDim>, kPrefillBytes<kHeadDim>);
static_assert(kSharedBytes<64> <= kMaxSharedBytes && kSharedBytes<128> <= kMaxSharedBytes);

// Values common to all items of a launch.
struct AttentionLaunch {
  AttentionArgs args;
  std::uint32_t group;           // query heads of a kv head
  std::uint32_t packs_of_group;  // more than 1 if the group has more than kMaxLanes query heads
  std::uint32_t block_shift;     // log2(block_tokens)
  std::size_t block_bytes;
};

// The work of one block of threads: an item for one kv head, or for some of its query heads.
struct Pack {
  AttentionItem item;
  std::uint32_t kv_head;
  std::uint32_t first_query_head;
  std::uint32_t query_head_count;

  __device__ __forceinline__ std::uint32_t lane_count() const { return item.row_count * query_head_count; }
};

__device__ __forceinline__ Pack PackOf(const AttentionLaunch& launch, std::uint32_t index) {
  const std::uint32_t packs_of_item = launch.args.kv.kv_head_count * launch.packs_of_group;
  const std::uint32_t in_item = index % packs_of_item;
  const std::uint32_t first_of_group = in_item % launch.packs_of_group * kMaxLanes;
  Pack pack{};
  pack.item = launch.args.items[index / packs_of_item];
  pack.kv_head = in_item / launch.packs_of_group;
  pack.first_query_head = pack.kv_head * launch.group + first_of_group;
  pack.query_head_count = min(kMaxLanes, launch.group - first_of_group);
  return pack;
}

// The places where a lane's q is read and its result is written.
struct LanePlace {
  std::size_t element;  // (token, query head) in q and out
  std::size_t partial;
};

__device__ __forceinline__ LanePlace PlaceOf(const AttentionArgs& args, const Pack& pack, std::uint32_t lane) {
  const std::uint32_t row = lane / pack.query_head_count;
  const std::uint32_t head = pack.first_query_head + lane % pack.query_head_count;
  const std::size_t token = args.rows[pack.item.first_row + row].token;
  return {token * args.query_head_count + head,
          pack.item.first_partial + std::size_t{row} * args.query_head_count + head};
}

// Starts the copy of the pack's q to rows 0 … kRows-1 of shared memory; rows beyond the pack's lanes become zero.
template <std::uint32_t kHeadDim, std::uint32_t kRows>
__device__ __forceinline__ void CopyQueries(const AttentionArgs& args, const Pack& pack, std::byte* queries) {
  constexpr std::uint32_t kChunks = kHeadDim / 8;
  for (std::uint32_t i = threadIdx.x; i < kRows * kChunks; i += kThreads) {
    const std::uint32_t row = i / kChunks;
    const bool valid = row < pack.lane_count();
    const std::size_t element = PlaceOf(args, pack, valid ? row : 0).element;
    CopyAsync16OrZero(queries + ChunkOffset<kHeadDim>(row, i % kChunks),
                      static_cast<const std::uint16_t*>(args.q) + element * kHeadDim + i % kChunks * 8, valid ? 1 : 0);
  }
}

// K and V of the pack's positions. Each warp copies its slabs in order, and looks up the next slab's block in advance.
template <std::uint32_t kHeadDim>
class SlabSource {
 public:
  __device__ __forceinline__ SlabSource(const AttentionLaunch& launch, const Pack& pack, std::uint32_t first_slab)
      : blocks_(launch.args.blocks + pack.item.first_block),
        first_(static_cast<const std::byte*>(launch.args.kv.base) +
               launch.args.kv.KOffset(0, launch.args.layer, pack.kv_head) * 2),
        block_bytes_(launch.block_bytes),
        v_bytes_(static_cast<std::uint32_t>(launch.args.kv.HeadElements() * launch.args.kv.kv_head_count * 2)),
        block_shift_(launch.block_shift),
        position_count_(pack.item.position_count),
        position_(first_slab * kSlabPositions) {
    LookUp();
  }

  // Starts the copy of the current slab, and moves to the slab kWarps further. Positions beyond the item become zero.
  __device__ __forceinline__ void Copy(std::byte* slab) {
    constexpr std::uint32_t kChunks = kHeadDim / 8;
    constexpr std::uint32_t kRowsAtOnce = 32 / kChunks;
    const std::uint32_t lane = threadIdx.x % 32;
    const std::uint32_t in_block = position_ & ((1U << block_shift_) - 1);
    const std::byte* from = first_ + block_ * block_bytes_ + in_block * (kHeadDim * 2) + lane * 16;
#pragma unroll
    for (std::uint32_t row = 0; row < kSlabPositions; row += kRowsAtOnce) {
      const std::uint32_t own_row = row + lane / kChunks;
      const std::uint32_t valid = position_ + own_row < position_count_ ? 1 : 0;
      std::byte* to = slab + ChunkOffset<kHeadDim>(own_row, lane % kChunks);
      CopyAsync16OrZero(to, from + row * (kHeadDim * 2), valid);
      CopyAsync16OrZero(to + kSlabBytes<kHeadDim> / 2, from + v_bytes_ + row * (kHeadDim * 2), valid);
    }
    position_ += kWarps * kSlabPositions;
    LookUp();
  }

 private:
  __device__ __forceinline__ void LookUp() {
    if (position_ < position_count_) block_ = blocks_[position_ >> block_shift_];
  }

  const std::uint32_t* blocks_;
  const std::byte* first_;  // K of block 0
  std::size_t block_bytes_;
  std::uint32_t v_bytes_;  // distance from K to V
  std::uint32_t block_shift_;
  std::uint32_t position_count_;
  std::uint32_t position_;   // of the current slab, relative to the item's first position
  std::uint32_t block_ = 0;  // that the current slab lies in
};

// One thread per lane. Readers need a barrier first.
__device__ __forceinline__ void WriteEnds(const AttentionArgs& args, const Pack& pack) {
  static_assert(kThreads == kMaxLanes);
  std::uint32_t end = pack.item.position_count;
  if (threadIdx.x < pack.lane_count()) {
    const std::uint32_t past = args.rows[pack.item.first_row + threadIdx.x / pack.query_head_count].position + 1;
    end = past > pack.item.first_position ? min(end, past - pack.item.first_position) : 0;
  }
  reinterpret_cast<std::uint32_t*>(DynamicShared())[threadIdx.x] = end;
}

// For the warp's rows: lanes first_lane … first_lane + kRows - 1.
template <std::uint32_t kRows>
__device__ __forceinline__ RowsSight SightOf(const Pack& pack, std::uint32_t first_lane) {
  static_assert(kRows <= 32);
  RowsSight sight{};
  sight.ends = reinterpret_cast<const std::uint32_t*>(DynamicShared()) + first_lane;
  const std::uint32_t row = threadIdx.x % kRows;
  sight.least_end = sight.ends[row];
  sight.most_end = first_lane + row < pack.lane_count() ? sight.least_end : 0;
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    sight.least_end = min(sight.least_end, __shfl_xor_sync(0xFFFFFFFFU, sight.least_end, step));
    sight.most_end = max(sight.most_end, __shfl_xor_sync(0xFFFFFFFFU, sight.most_end, step));
  }
  return sight;
}

// Two neighbouring columns of a lane's result. `max` is the largest unscaled score.
template <std::uint32_t kHeadDim>
__device__ __forceinline__ void WriteTwo(const AttentionArgs& args, const Pack& pack, const LanePlace& place,
                                         std::uint32_t column, float max, float sum, float low, float high) {
  if (pack.item.output == AttentionItem::Output::kWhole) {
    auto* out = static_cast<std::uint16_t*>(args.out) + place.element * kHeadDim + column;
    *reinterpret_cast<std::uint32_t*>(out) = PackBF16(low / sum, high / sum);
    return;
  }
  float* partial = args.partials + place.partial * PartialFloats(kHeadDim);
  if (column == 0) *reinterpret_cast<float2*>(partial) = make_float2(max * args.scale, sum);
  *reinterpret_cast<float2*>(partial + 2 + column) = make_float2(low, high);
}

template <std::uint32_t kHeadDim, std::uint32_t kRowTiles>
__device__ __forceinline__ void WriteRows(const AttentionArgs& args, const Pack& pack, std::uint32_t first_lane,
                                          const RowsState<kHeadDim, kRowTiles>& state) {
#pragma unroll
  for (std::uint32_t i = 0; i < 2 * kRowTiles; ++i) {
    const std::uint32_t lane = first_lane + i * 8 + threadIdx.x % 32 / 4;
    if (lane >= pack.lane_count()) continue;
    const LanePlace place = PlaceOf(args, pack, lane);
#pragma unroll
    for (std::uint32_t eight = 0; eight < kHeadDim / 8; ++eight) {
      const float(&columns)[4] = state.out[i / 2][eight];
      WriteTwo<kHeadDim>(args, pack, place, eight * 8 + threadIdx.x % 4 * 2, state.max[i / 2][i % 2],
                         state.sum[i / 2][i % 2], columns[i % 2 * 2], columns[i % 2 * 2 + 1]);
    }
  }
}

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
