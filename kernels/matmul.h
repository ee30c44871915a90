// y[M,N] = x[M,K] · W[N,K]ᵀ + bias[N], accumulated in f32.
//
// Weights are prepared once, in the layout that the implementation likes and in its compute dtype. A product is between
// x of that dtype and W rounded to it. Accuracy: the rounding of f32 sums of K products, and of y to its dtype.
//
// Determinism: row m of y depends on row m of x alone. On the CPU that holds bit for bit: whatever M, threads and the
// other rows are. On CUDA the order of a sum depends on M, and nothing else.
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
  // Where the device holds the rows of the one part already, as they are, in memory of its own that outlives what is
  // prepared; or null. A device that computes from such rows needs no copy.
  const void* resident = nullptr;
};

// Can a device that computes from [N][K] of the compute dtype use the rows where they lie?
[[nodiscard]] inline bool AreUsableInPlace(const PrepareMatmulArgs& args) {
  return args.resident != nullptr && args.parts.size() == 1 && args.parts.front().bias == nullptr &&
         args.parts.front().dtype == args.compute_dtype;
}

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
  void* y = nullptr;            // [rows][N] of y_dtype, no alias
  DType y_dtype = DType::kF32;  // kF32, or the device's activation dtype; see ops.h
};

// Fails with kInternal when memory is short or the CPU lacks the compute dtype. The parts are not needed afterwards.
[[nodiscard]] Result<std::unique_ptr<MatmulWeights>> PrepareMatmulRef(Device& device, const PrepareMatmulArgs& args);
void MatmulRef(Device& device, const MatmulArgs& args);

[[nodiscard]] Result<std::unique_ptr<MatmulWeights>> PrepareMatmulCpu(Device& device, const PrepareMatmulArgs& args);
void MatmulCpu(Device& device, const MatmulArgs& args);

// The compute dtype is kBF16; y is kBF16 or kF32, a bias is rounded to it. x, y and resident rows begin at multiples of
// 256 bytes.
[[nodiscard]] Result<std::unique_ptr<MatmulWeights>> PrepareMatmulCuda(Device& device, const PrepareMatmulArgs& args);
void MatmulCuda(Device& device, const MatmulArgs& args);

}  // namespace roost::kernels
