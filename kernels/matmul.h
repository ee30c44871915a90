// y[M,N] = x[M,K] · W[N,K]ᵀ + bias[N], accumulated in f32.
//
// Weights are prepared once, in the layout that the implementation likes and in its compute dtype. A product is between
// x of that dtype and W rounded to it. Accuracy: the rounding of f32 sums of K products.
//
// Determinism: row m of y depends, bit for bit, on row m of x alone: not on M, nor on the other rows, nor on threads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "common/base/result.h"
#include "kernels/device.h"
#include "kernels/dtype.h"

namespace roost::kernels {

// Some output rows of W, in host memory. Parts that read the same input are fused into one product this way (q, k, v).
struct MatmulPart {
  const void* weight = nullptr;  // [outputs][K], any dtype
  DType dtype = DType::kF32;
  const void* bias = nullptr;  // [outputs] of the same dtype, or null for zeros
  std::uint32_t outputs = 0;
};

struct PrepareMatmulArgs {
  std::span<const MatmulPart> parts;  // stacked in order: N is the sum of their outputs
  std::uint32_t inputs = 0;           // K
  DType compute_dtype = DType::kF32;  // kF32, or kBF16 where the op table computes in it
};

// Prepared weights: made by an op table's prepare_matmul, used by its matmul on the same device, and gone before it.
class MatmulWeights {
 public:
  virtual ~MatmulWeights() = default;
  [[nodiscard]] std::uint32_t inputs() const { return inputs_; }
  [[nodiscard]] std::uint32_t outputs() const { return outputs_; }

 protected:
  MatmulWeights(std::uint32_t inputs, std::uint32_t outputs) : inputs_(inputs), outputs_(outputs) {}

 private:
  std::uint32_t inputs_;
  std::uint32_t outputs_;
};

struct MatmulArgs {
  const MatmulWeights* weights = nullptr;
  const void* x = nullptr;  // [rows][K] of the compute dtype
  std::uint32_t rows = 0;
  float* y = nullptr;  // [rows][N], no alias
};

// Fails with kInternal when memory is short or the CPU lacks the compute dtype. The parts are not needed afterwards.
[[nodiscard]] Result<std::unique_ptr<MatmulWeights>> PrepareMatmulRef(Device& device, const PrepareMatmulArgs& args);
void MatmulRef(Device& device, const MatmulArgs& args);

[[nodiscard]] Result<std::unique_ptr<MatmulWeights>> PrepareMatmulCpu(Device& device, const PrepareMatmulArgs& args);
void MatmulCpu(Device& device, const MatmulArgs& args);

}  // namespace roost::kernels
