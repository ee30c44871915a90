// Root mean square normalisation, with the residual addition before it:
//
//   h = hidden[i] + delta[i]            (delta optional; h is written back to hidden)
//   out[i] = h / sqrt(mean(h²) + epsilon) · weight[i]
//
// Source: Zhang, Sennrich: Root Mean Square Layer Normalization, NeurIPS 2019. Accuracy: within 1e-5 of the row's
// largest output, before rounding to out_dtype. A row's result depends on that row alone.
#pragma once

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"

namespace roost::kernels {

struct RmsNormArgs {
  float* hidden = nullptr;        // [*][width]; updated if delta is given
  const void* delta = nullptr;    // [*][width] of delta_dtype, or null; no alias
  const float* weight = nullptr;  // [width]
  // Rows of hidden and delta to work on, distinct; null: 0 … rows-1. Row r of out comes from row row_indices[r] of
  // hidden.
  const std::uint32_t* row_indices = nullptr;
  float epsilon = 0;
  std::uint32_t rows = 0;
  std::uint32_t width = 0;
  void* out = nullptr;              // [rows][width], no alias
  DType out_dtype = DType::kF32;    // kF32 or kBF16
  DType delta_dtype = DType::kF32;  // the device's activation dtype; see ops.h
};

void RmsNormRef(Device& device, const RmsNormArgs& args);
void RmsNormCpu(Device& device, const RmsNormArgs& args);
void RmsNormCuda(Device& device, const RmsNormArgs& args);

}  // namespace roost::kernels
