// The gated activation of a feed-forward layer: out[r][i] = silu(g) · u with g = gate_up[r][i], u =
// gate_up[r][width+i], silu(g) = g / (1 + exp(-g)). Source: Shazeer: GLU Variants Improve Transformer, 2020. Accuracy:
// 1e-5 relative, before rounding to out_dtype; each element depends on g and u alone.
#pragma once

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"

namespace roost::kernels {

struct SiluMulArgs {
  const void* gate_up = nullptr;  // [rows][2·width] of gate_up_dtype
  std::uint32_t rows = 0;
  std::uint32_t width = 0;
  void* out = nullptr;                // [rows][width], no alias
  DType out_dtype = DType::kF32;      // kF32 or kBF16
  DType gate_up_dtype = DType::kF32;  // the device's activation dtype; see ops.h
};

void SiluMulRef(Device& device, const SiluMulArgs& args);
void SiluMulCpu(Device& device, const SiluMulArgs& args);
void SiluMulCuda(Device& device, const SiluMulArgs& args);

}  // namespace roost::kernels
