// Writes a token's query, and its K and V in the cache, from its fused projection, in one pass:
//
//   rope_angles   cos, sin [rows][head_dim/2] of float(position) · inverse_frequencies[i], once per batch
//   rope_to_cache per row: q heads: norm (optional), rotate → q; k heads: norm (optional), rotate → cache; v → cache
//
// The norm is the one of rms_norm.h over head_dim, with one weight for all heads. Rotation pairs element i with
// i + head_dim/2:  (a, b) → (a·cos - b·sin, b·cos + a·sin).
// Source: Su et al.: RoFormer, 2021, with the halves split as in Hugging Face's Llama; as there, angles are products in
// f32. Accuracy: 1e-5 of the head's largest value, before rounding to the dtypes of cache and q. A row's result depends
// on that row alone.
#pragma once

#include <cstdint>

#include "kernels/device.h"
#include "kernels/kv_layout.h"

namespace roost::kernels {

struct RopeAnglesArgs {
  const float* inverse_frequencies = nullptr;  // [half_dim]
  const std::uint32_t* positions = nullptr;    // [rows]
  std::uint32_t rows = 0;
  std::uint32_t half_dim = 0;
  float* cos = nullptr;  // [rows][half_dim]
  float* sin = nullptr;  // [rows][half_dim]
};

struct RopeToCacheArgs {
  const void* qkv = nullptr;      // [rows][(query_head_count + 2·kv_head_count) · head_dim]: all q, all k, all v
  const float* cos = nullptr;     // [rows][head_dim/2]
  const float* sin = nullptr;     // [rows][head_dim/2]
  const float* q_norm = nullptr;  // [head_dim] or null
  const float* k_norm = nullptr;  // [head_dim] or null
  float epsilon = 0;
  std::uint32_t rows = 0;
  std::uint32_t query_head_count = 0;
  void* q = nullptr;  // [rows][query_head_count][head_dim], no alias
  KvLayout kv;
  std::uint32_t layer = 0;
  const std::uint32_t* slots = nullptr;  // [rows]: block · block_tokens + row in the block; distinct
  DType activation_dtype = DType::kF32;  // of qkv and q: the device's; see ops.h
};

void RopeAnglesRef(Device& device, const RopeAnglesArgs& args);
void RopeAnglesCpu(Device& device, const RopeAnglesArgs& args);
void RopeToCacheRef(Device& device, const RopeToCacheArgs& args);
void RopeToCacheCpu(Device& device, const RopeToCacheArgs& args);
void RopeAnglesCuda(Device& device, const RopeAnglesArgs& args);
void RopeToCacheCuda(Device& device, const RopeToCacheArgs& args);

}  // namespace roost::kernels
