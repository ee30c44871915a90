// Chooses the algorithm of cuBLASLt for a product. Its heuristics name a few; the fastest of them on this device is
// measured once per shape and bucket of rows, and every batch of the bucket uses it. (The first of an H200's candidates
// took 14 us for a product of 4 MB, and others a third of that.) If the algorithm refuses a batch size, that size gets
// its own plan from then on.
#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <vector>

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

// y[rows, outputs] = x[rows, inputs] · W[outputs, inputs]ᵀ for cuBLASLt, which is column-major: its yᵀ is (its view of
// W)ᵀ times xᵀ. Holds the layouts and the operation as plain values: nothing to destroy.
class CudaProduct {
 public:
  static constexpr int kCandidates = 6;

  CudaProduct(const CudaDevice& device, const MatmulPlanKey& shape, const void* bias);

  // The likeliest to be fast first, at most kCandidates: algorithms that fit into the device's workspace and add in f32
  // only. Ends the process when cuBLASLt has none.
  [[nodiscard]] std::vector<cublasLtMatmulAlgo_t> FindAlgorithms();
  // False when the algorithm, which may be for another number of rows, refuses this one. Any other failure ends the
  // process.
  [[nodiscard]] bool TryRun(const cublasLtMatmulAlgo_t& algorithm, const void* weight, const void* x, void* y);

 private:
  const CudaDevice& device_;
  cublasLtMatmulDescOpaque_t operation_;
  cublasLtMatrixLayoutOpaque_t weight_, x_, y_;
};

// For one device. Not thread-safe.
class CudaMatmulPlans {
 public:
  // Computes a product of the bucket with an algorithm; false if it refuses.
  using Run = std::function<bool(const cublasLtMatmulAlgo_t&)>;

  // The algorithm for the key's bucket. The first time it runs the heuristics, and every candidate some times; while
  // ops are recorded nothing runs, and the first candidate is taken.
  [[nodiscard]] const cublasLtMatmulAlgo_t& For(const CudaDevice& device, const MatmulPlanKey& key, const void* bias,
                                                const Run& run);

  // The key under which this shape is planned: with its bucket's rows, or with its own if the bucket's algorithm
  // refused it.
  [[nodiscard]] MatmulPlanKey KeyOf(const MatmulPlanKey& shape) const;
  // Call it when the bucket's algorithm refuses the shape.
  void PlanAlone(const MatmulPlanKey& shape) { planned_alone_.insert(shape); }

 private:
  std::set<MatmulPlanKey> planned_alone_;
  std::map<MatmulPlanKey, cublasLtMatmulAlgo_t> algorithms_;
};

}  // namespace roost::kernels
