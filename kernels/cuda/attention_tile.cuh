// Attention within a warp, on tensor cores: up to 32 query rows against slabs of 16 positions in shared memory.
//
//   slab      K [16][head_dim], then V the same, bf16
//   scores    16 x 16 per row tile and slab: A = q, B = Kᵀ, which are K's rows as stored
//   p         the scores' accumulators, rounded to bf16, are already the A fragment of the next product
//   out       += p · V; the load transposes V's rows
//
// Rows in shared memory are swizzled: 16-byte chunk c of row r is stored at chunk c ^ (r mod 8), so that the eight rows
// that ldmatrix reads together are in different banks.
// Source: Dao: FlashAttention-2, 2023 (order of the products, registers reused as fragments).
#pragma once

#include <cstdint>

#include "kernels/cuda/cuda_primitives.cuh"

namespace roost::kernels {

inline constexpr std::uint32_t kSlabPositions = 16;
inline constexpr std::uint32_t kTileRows = 16;  // of an mma
// Below every score: exp2 makes it 0. It is finite, so that the difference of two is defined.
inline constexpr float kNoScore = -1e30F;

// The offset in bytes of a chunk in a matrix of swizzled rows.
template <std::uint32_t kHeadDim>
__device__ __forceinline__ std::uint32_t ChunkOffset(std::uint32_t row, std::uint32_t chunk) {
  return row * (kHeadDim * 2) + (chunk ^ row % 8) * 16;
}

// Given the offset of chunk c (0 or 1) of a row, the offset of chunk c + 2·step of the same row.
__device__ __forceinline__ std::uint32_t AtStep(std::uint32_t offset, std::uint32_t step) { return offset ^ step * 32; }

template <std::uint32_t kHeadDim>
inline constexpr std::uint32_t kSlabBytes = 2 * kSlabPositions* kHeadDim * 2;

// Running softmax of a warp's rows. Lane 4·g + t holds rows g and g+8 of each tile, and columns 2t, 2t+1 of each 8.
template <std::uint32_t kHeadDim, std::uint32_t kRowTiles>
struct RowsState {
  float out[kRowTiles][kHeadDim / 8][4];
  float max[kRowTiles][2];  // the largest unscaled score
  float sum[kRowTiles][2];  // over this lane's columns, until FinishSums

  __device__ __forceinline__ void Clear() {
#pragma unroll
    for (std::uint32_t tile = 0; tile < kRowTiles; ++tile) {
#pragma unroll
      for (std::uint32_t half = 0; half < 2; ++half) max[tile][half] = kNoScore, sum[tile][half] = 0;
#pragma unroll
      for (auto& columns : out[tile]) {
#pragma unroll
        for (float& value : columns) value = 0;
      }
    }
  }

  // Turns the lanes' sums into sums of whole rows.
  __device__ __forceinline__ void FinishSums() {
#pragma unroll
    for (auto& of_tile : sum) {
#pragma unroll
      for (float& value : of_tile) {
        value += __shfl_xor_sync(0xFFFFFFFFU, value, 1);
        value += __shfl_xor_sync(0xFFFFFFFFU, value, 2);
      }
    }
  }
};

// The number of positions that each of the warp's rows sees, counted from the item's first one.
struct RowsSight {
  const std::uint32_t* ends;  // [rows of the warp], in shared memory; rows beyond the item's lanes see all
  std::uint32_t least_end;    // the least over all rows
  std::uint32_t most_end;     // the greatest; 0: there are no rows
};

// The address that this lane passes to ldmatrix for the A fragment of 16 rows, columns 0 … 15; see AtStep.
template <std::uint32_t kHeadDim>
__device__ __forceinline__ std::uint32_t QueryOffset(std::uint32_t lane) {
  return ChunkOffset<kHeadDim>(lane % 16, lane / 16);
}

// The warp's q, read from shared memory for each use.
template <std::uint32_t kHeadDim>
struct SharedQueries {
  const std::byte* rows;  // the warp's first row

  __device__ __forceinline__ void Get(std::uint32_t lane, std::uint32_t tile, std::uint32_t step,
                                      std::uint32_t (&fragment)[4]) const {
    LoadMatrices(rows + tile * kTileRows * kHeadDim * 2 + AtStep(QueryOffset<kHeadDim>(lane), step), fragment);
  }
};

// One row tile of q, kept in registers.
template <std::uint32_t kHeadDim>
struct RegisterQueries {
  std::uint32_t fragments[kHeadDim / 16][4];

  __device__ __forceinline__ explicit RegisterQueries(const std::byte* rows) {
#pragma unroll
    for (std::uint32_t step = 0; step < kHeadDim / 16; ++step) {
      LoadMatrices(rows + AtStep(QueryOffset<kHeadDim>(threadIdx.x % 32), step), fragments[step]);
    }
  }
  __device__ __forceinline__ void Get(std::uint32_t /*lane*/, std::uint32_t /*tile*/, std::uint32_t step,
                                      std::uint32_t (&fragment)[4]) const {
#pragma unroll
    for (std::uint32_t i = 0; i < 4; ++i) fragment[i] = fragments[step][i];
  }
};

// Scores of kSlabs consecutive slabs; each [4] holds 8 positions of a slab.
template <std::uint32_t kRowTiles, std::uint32_t kSlabs>
using Scores = float[kRowTiles][2 * kSlabs][4];

template <std::uint32_t kHeadDim, std::uint32_t kRowTiles, std::uint32_t kSlabs, typename Queries>
__device__ __forceinline__ void ScoreSlabs(const Queries& queries, const std::byte* slabs,
                                           Scores<kRowTiles, kSlabs>& scores) {
  const std::uint32_t lane = LaneId();
  const std::uint32_t offset = ChunkOffset<kHeadDim>(lane % 8 + lane / 16 * 8, lane / 8 % 2);
#pragma unroll
  for (auto& of_tile : scores) {
#pragma unroll
    for (auto& columns : of_tile) columns[0] = columns[1] = columns[2] = columns[3] = 0;
  }
#pragma unroll
  for (std::uint32_t step = 0; step < kHeadDim / 16; ++step) {
    std::uint32_t q[kRowTiles][4];
#pragma unroll
    for (std::uint32_t tile = 0; tile < kRowTiles; ++tile) queries.Get(lane, tile, step, q[tile]);
#pragma unroll
    for (std::uint32_t slab = 0; slab < kSlabs; ++slab) {
      std::uint32_t k[4];
      LoadMatrices(slabs + slab * kSlabBytes<kHeadDim> + AtStep(offset, step), k);
#pragma unroll
      for (std::uint32_t tile = 0; tile < kRowTiles; ++tile) {
        MultiplyAdd16x8x16(q[tile], k[0], k[1], scores[tile][2 * slab]);
        MultiplyAdd16x8x16(q[tile], k[2], k[3], scores[tile][2 * slab + 1]);
      }
    }
  }
}

// Gives positions that a row does not see the score -inf. `first` is the first slab's first position.
template <std::uint32_t kRowTiles, std::uint32_t kSlabs>
__device__ __forceinline__ void HideUnseen(const RowsSight& sight, std::uint32_t first,
                                           Scores<kRowTiles, kSlabs>& scores) {
  if (first + kSlabs * kSlabPositions <= sight.least_end) return;
  const std::uint32_t column = first + threadIdx.x % 4 * 2;
#pragma unroll
  for (std::uint32_t tile = 0; tile < kRowTiles; ++tile) {
#pragma unroll
    for (std::uint32_t half = 0; half < 2; ++half) {
      const std::uint32_t end = sight.ends[tile * kTileRows + half * 8 + threadIdx.x % 32 / 4];
#pragma unroll
      for (std::uint32_t eight = 0; eight < 2 * kSlabs; ++eight) {
#pragma unroll
        for (std::uint32_t i = 0; i < 2; ++i) {
          if (column + 8 * eight + i >= end) scores[tile][eight][2 * half + i] = -INFINITY;
        }
      }
    }
  }
}

// Turns scores into p = 2^(scale · (score - max)), and rescales the state to the new max, which seldom grows after the
// first slabs.
template <std::uint32_t kHeadDim, std::uint32_t kRowTiles, std::uint32_t kSlabs>
__device__ __forceinline__ void Softmax(float scale, Scores<kRowTiles, kSlabs>& scores,
                                        RowsState<kHeadDim, kRowTiles>& state) {
  float kept[kRowTiles][2];
  int grown = 0;
#pragma unroll
  for (std::uint32_t tile = 0; tile < kRowTiles; ++tile) {
#pragma unroll
    for (std::uint32_t half = 0; half < 2; ++half) {
      float max = state.max[tile][half];
#pragma unroll
      for (const auto& columns : scores[tile]) max = fmaxf(max, fmaxf(columns[2 * half], columns[2 * half + 1]));
      max = fmaxf(max, __shfl_xor_sync(0xFFFFFFFFU, max, 1));
      max = fmaxf(max, __shfl_xor_sync(0xFFFFFFFFU, max, 2));
      if (max > state.max[tile][half]) grown = 1;
      kept[tile][half] = FastExp2((state.max[tile][half] - max) * scale);
      state.max[tile][half] = max;
      const float offset = max * scale;
      float sum = state.sum[tile][half] * kept[tile][half];
#pragma unroll
      for (auto& columns : scores[tile]) {
#pragma unroll
        for (std::uint32_t i = 2 * half; i < 2 * half + 2; ++i) {
          columns[i] = FastExp2(fmaf(columns[i], scale, -offset));
          sum += columns[i];
        }
      }
      state.sum[tile][half] = sum;
    }
  }
  if (__any_sync(0xFFFFFFFFU, grown) == 0) return;
#pragma unroll
  for (std::uint32_t tile = 0; tile < kRowTiles; ++tile) {
#pragma unroll
    for (auto& columns : state.out[tile]) {
#pragma unroll
      for (std::uint32_t i = 0; i < 4; ++i) columns[i] *= kept[tile][i / 2];
    }
  }
}

template <std::uint32_t kHeadDim, std::uint32_t kRowTiles, std::uint32_t kSlabs>
__device__ __forceinline__ void WeightValues(const std::byte* slabs, const Scores<kRowTiles, kSlabs>& p,
                                             RowsState<kHeadDim, kRowTiles>& state) {
  const std::uint32_t lane = LaneId();
  const std::uint32_t offset = ChunkOffset<kHeadDim>(lane % 16, lane / 16);
#pragma unroll
  for (std::uint32_t slab = 0; slab < kSlabs; ++slab) {
    const std::byte* values = slabs + slab * kSlabBytes<kHeadDim> + kSlabBytes<kHeadDim> / 2;
    std::uint32_t weights[kRowTiles][4];
#pragma unroll
    for (std::uint32_t tile = 0; tile < kRowTiles; ++tile) {
#pragma unroll
      for (std::uint32_t i = 0; i < 4; ++i) {
        const float(&columns)[4] = p[tile][2 * slab + i / 2];
        weights[tile][i] = PackBF16(columns[i % 2 * 2], columns[i % 2 * 2 + 1]);
      }
    }
#pragma unroll
    for (std::uint32_t step = 0; step < kHeadDim / 16; ++step) {
      std::uint32_t v[4];
      LoadMatricesTransposed(values + AtStep(offset, step), v);
#pragma unroll
      for (std::uint32_t tile = 0; tile < kRowTiles; ++tile) {
        MultiplyAdd16x8x16(weights[tile], v[0], v[1], state.out[tile][2 * step]);
        MultiplyAdd16x8x16(weights[tile], v[2], v[3], state.out[tile][2 * step + 1]);
      }
    }
  }
}

// Adds kSlabs slabs, whose first position is `first`, to the warp's rows. `scale` is the scale of scores times log2(e).
template <std::uint32_t kHeadDim, std::uint32_t kRowTiles, std::uint32_t kSlabs, typename Queries>
__device__ __forceinline__ void AttendSlabs(const Queries& queries, const RowsSight& sight, const std::byte* slabs,
                                            std::uint32_t first, float scale, RowsState<kHeadDim, kRowTiles>& state) {
  if (first >= sight.most_end) return;  // true or false for all lanes alike
  Scores<kRowTiles, kSlabs> scores;
  ScoreSlabs<kHeadDim, kRowTiles, kSlabs>(queries, slabs, scores);
  HideUnseen<kRowTiles, kSlabs>(sight, first, scores);
  Softmax<kHeadDim, kRowTiles, kSlabs>(scale, scores, state);
  WeightValues<kHeadDim, kRowTiles, kSlabs>(slabs, scores, state);
}

}  // namespace roost::kernels
