// Which of cuBLASLt's algorithms computes a product. Its heuristics cost tens of microseconds, so they are asked once
// per shape and bucket of rows, and the answer is used for every batch of the bucket that it takes. A batch that it
// does not take is planned alone, from then on.
#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>

#include "kernels/matmul_bucket.h"

namespace roost::kernels {

class CudaDevice;

struct MatmulPlanKey {
  std::uint32_t rows = 0;  // a bucket's; see MatmulBucket
  std::uint32_t outputs = 0;
  std::uint32_t inputs = 0;
  cudaDataType_t y_type = CUDA_R_16BF;
  bool has_bias = false;

  auto operator<=>(const MatmulPlanKey&) const = default;
};

// The layouts and the operation of y[rows, outputs] = x[rows, inputs] · W[outputs, inputs]ᵀ as cuBLASLt, which counts
// by columns, takes them: yᵀ = Wᵀ-of-its-view · xᵀ. Plain values: nothing to destroy.
class CudaProduct {
 public:
  CudaProduct(const CudaDevice& device, const MatmulPlanKey& shape, const void* bias);

  // The best algorithm within the device's workspace that adds in f32 alone; ends the process when cuBLASLt knows none.
  [[nodiscard]] cublasLtMatmulAlgo_t FindAlgorithm();
  // False when the algorithm, which may have been found for another number of rows, does not take this one. Any other
  // failure ends the process.
  [[nodiscard]] bool TryRun(const cublasLtMatmulAlgo_t& algorithm, const void* weight, const void* x, void* y);

 private:
  const CudaDevice& device_;
  cublasLtMatmulDescOpaque_t operation_;
  cublasLtMatrixLayoutOpaque_t weight_, x_, y_;
};

// Of one device. Not thread-safe.
class CudaMatmulPlans {
 public:
  // The algorithm for the key's bucket; asks cuBLASLt the first time.
  [[nodiscard]] const cublasLtMatmulAlgo_t& For(const CudaDevice& device, const MatmulPlanKey& key, const void* bias);

  // Of whose rows a product of this shape is planned: its bucket's, or its own where that was refused.
  [[nodiscard]] MatmulPlanKey KeyOf(const MatmulPlanKey& shape) const;
  // The bucket's algorithm does not take the shape.
  void PlanAlone(const MatmulPlanKey& shape) { planned_alone_.insert(shape); }

 private:
  std::set<MatmulPlanKey> planned_alone_;
  std::map<MatmulPlanKey, cublasLtMatmulAlgo_t> algorithms_;
};

}  // namespace roost::kernels
