#include "kernels/matmul_plans_cuda.h"

#include "kernels/cuda_device.h"

namespace roost::kernels {
namespace {

// When a product is split along K, its parts must be added in f32. The other schemes add in the type of y, and would
// round the sum of a bf16 product once per part.
constexpr std::uint32_t kReductions = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;

}  // namespace

CudaProduct::CudaProduct(const CudaDevice& device, const MatmulPlanKey& shape, const void* bias) : device_(device) {
  device_.Check(cublasLtMatmulDescInit(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescInit");
  const auto set = [this](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    device_.Check(cublasLtMatmulDescSetAttribute(&operation_, attribute, &value, sizeof(value)),
                  "cublasLtMatmulDescSetAttribute");
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  if (shape.has_bias) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, shape.y_type);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  }
  const auto layout = [this](cublasLtMatrixLayoutOpaque_t& matrix, cudaDataType_t type, std::uint64_t rows,
                             std::uint64_t columns) {
    device_.Check(cublasLtMatrixLayoutInit(&matrix, type, rows, columns, static_cast<std::int64_t>(rows)),
                  "cublasLtMatrixLayoutInit");
  };
  layout(weight_, CUDA_R_16BF, shape.inputs, shape.outputs);
  layout(x_, CUDA_R_16BF, shape.inputs, shape.rows);
  layout(y_, shape.y_type, shape.outputs, shape.rows);
}

cublasLtMatmulAlgo_t CudaProduct::FindAlgorithm() {
  cublasLtMatmulPreferenceOpaque_t preference;
  device_.Check(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit");
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    device_.Check(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof(value)),
                  "cublasLtMatmulPreferenceSetAttribute");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, CudaDevice::kWorkspaceBytes);
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, kReductions);
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  device_.Check(cublasLtMatmulAlgoGetHeuristic(device_.cublas(), &operation_, &weight_, &x_, &y_, &y_, &preference, 1,
                                               &found, &count),
                "cublasLtMatmulAlgoGetHeuristic");
  device_.Check(count > 0 ? found.state : CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmulAlgoGetHeuristic");
  return found.algo;
}

bool CudaProduct::TryRun(const cublasLtMatmulAlgo_t& algorithm, const void* weight, const void* x, void* y) {
  const float one = 1;
  const float zero = 0;
  const cublasStatus_t status =
      cublasLtMatmul(device_.cublas(), &operation_, &one, weight, &weight_, x, &x_, &zero, y, &y_, y, &y_, &algorithm,
                     device_.workspace(), CudaDevice::kWorkspaceBytes, device_.stream());
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return false;
  device_.Check(status, "cublasLtMatmul");
  return true;
}

const cublasLtMatmulAlgo_t& CudaMatmulPlans::For(const CudaDevice& device, const MatmulPlanKey& key, const void* bias) {
  const auto found = algorithms_.find(key);
  if (found != algorithms_.end()) return found->second;
  return algorithms_.emplace(key, CudaProduct(device, key, bias).FindAlgorithm()).first->second;
}

MatmulPlanKey CudaMatmulPlans::KeyOf(const MatmulPlanKey& shape) const {
  if (planned_alone_.count(shape) > 0) return shape;
  MatmulPlanKey bucket = shape;
  bucket.rows = MatmulBucket(shape.rows);
  return bucket;
}

}  // namespace roost::kernels
