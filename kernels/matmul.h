// y[M,N] = x[M,K] · W[N,K]ᵀ + bias[N], accumulated in f32.
//
// Weights are prepared once, in the implementation's own layout and in its compute dtype. A product multiplies x of
// that dtype with W rounded to it. Accuracy: the rounding of f32 sums of K products, and of y to its dtype.
//
// Determinism: row m of y depends only on row m of x. On the CPU this holds bit for bit, for any M, any number of
// threads and any other rows. On CUDA the order of a sum depends on M, and on the algorithm that the device has found
// the fastest for about that M.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "common/base/result.h"
#include "kernels/device.h"
#include "kernels/dtype.h"

namespace roost::kernels {

// Some output rows of W, in host memory. Parts that read the same input (q, k, v) are thus fused into one product.
struct MatmulPart {
  const void* weight = nullptr;  // [outputs][K], any dtype
  DType dtype = DType::kF32;
  const void* bias = nullptr;  // [outputs] of the same dtype, or null for zeros
  std::uint32_t outputs = 0;
};

struct PrepareMatmulArgs {
  std::span<const MatmulPart> parts;  // stacked in order: N is the sum of their outputs
  std::uint32_t inputs = 0;           // K
  DType compute_dtype = DType::kF32;  // kF32, or kBF16 if the op table computes in it
  // If there is one part and the device already holds its rows unchanged, in memory that outlives the prepared weights:
  // those rows; else null. A device that computes from such rows then needs no copy.
  const void* resident = nullptr;
};

// Can a device that computes from [N][K] in the compute dtype use the resident rows directly?
[[nodiscard]] inline bool AreUsableInPlace(const PrepareMatmulArgs& args) {
  return args.resident != nullptr && args.parts.size() == 1 && args.parts.front().bias == nullptr &&
         args.parts.front().dtype == args.compute_dtype;
}

// Prepared weights. An op table's prepare_matmul makes them, its matmul uses them on the same device, and they are
// destroyed before the device.
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
  void* y = nullptr;            // [rows][N] of y_dtype, no alias
  DType y_dtype = DType::kF32;  // kF32, or the device's activation dtype; see ops.h
};

// Fails with kInternal when memory is short or the CPU does not compute in the dtype. The parts are not needed
// afterwards.
[[nodiscard]] Result<std::unique_ptr<MatmulWeights>> PrepareMatmulRef(Device& device, const PrepareMatmulArgs& args);
void MatmulRef(Device& device, const MatmulArgs& args);

[[nodiscard]] Result<std::unique_ptr<MatmulWeights>> PrepareMatmulCpu(Device& device, const PrepareMatmulArgs& args);
void MatmulCpu(Device& device, const MatmulArgs& args);

// The compute dtype is kBF16. y is kBF16 or kF32; a bias is rounded to it. x, y and resident rows are aligned to 256
// bytes.
[[nodiscard]] Result<std::unique_ptr<MatmulWeights>> PrepareMatmulCuda(Device& device, const PrepareMatmulArgs& args);
void MatmulCuda(Device& device, const MatmulArgs& args);

}  // namespace roost::kernels
