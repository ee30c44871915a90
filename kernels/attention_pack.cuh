// The work of one block of threads in attention: which lanes it computes, where their q and slabs come from, how far
// each sees, and where its results go.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/attention.h"
#include "kernels/attention_tile.cuh"
#include "kernels/cuda_kernels.h"
#include "kernels/cuda_primitives.cuh"

namespace roost::kernels {

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

}  // namespace roost::kernels
