#include "kernels/cuda/matmul_plans_cuda.h"

#include <algorithm>
#include <array>
#include <limits>
#include <span>

#include "kernels/cuda/cuda_device.h"

namespace roost::kernels {
namespace {

// A product that is split along K needs its parts added in f32. The other schemes add in the type of y, and would round
// the sum of a bf16 product once per part.
constexpr std::uint32_t kReductions = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;

// Times work on the device's stream.
class StreamTimer {
 public:
  explicit StreamTimer(const CudaDevice& device) : device_(device) {
    device_.Check(cudaEventCreate(&begin_), "cudaEventCreate");
    device_.Check(cudaEventCreate(&end_), "cudaEventCreate");
  }
  ~StreamTimer() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  StreamTimer(const StreamTimer&) = delete;
  StreamTimer& operator=(const StreamTimer&) = delete;

  template <typename Work>
  [[nodiscard]] float MillisecondsOf(const Work& work) const {
    device_.Check(cudaEventRecord(begin_, device_.stream()), "cudaEventRecord");
    work();
    device_.Check(cudaEventRecord(end_, device_.stream()), "cudaEventRecord");
    device_.Check(cudaEventSynchronize(end_), "cudaEventSynchronize");
    float milliseconds = 0;
    device_.Check(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
    return milliseconds;
  }

 private:
  const CudaDevice& device_;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

// The least of some times, after a first run that does not count; infinity if the algorithm refuses the product.
// Writing the workspace before each run takes most of a weight out of the device's cache, as the other weights of a
// step do.
float MillisecondsOf(const CudaDevice& device, const StreamTimer& timer, const cublasLtMatmulAlgo_t& algorithm,
                     const CudaMatmulPlans::Run& run) {
  constexpr int kRuns = 3;
  float least = std::numeric_limits<float>::infinity();
  if (!run(algorithm)) return least;
  for (int i = 0; i < kRuns; ++i) {
    device.Check(cudaMemsetAsync(device.workspace(), 0, CudaDevice::kWorkspaceBytes, device.stream()),
                 "cudaMemsetAsync");
    least = std::min(least, timer.MillisecondsOf([&] { (void)run(algorithm); }));
  }
  return least;
}

// The number of the fastest candidate; the first if all refuse.
std::size_t FastestOf(const CudaDevice& device, std::span<const cublasLtMatmulAlgo_t> candidates,
                      const CudaMatmulPlans::Run& run) {
  if (candidates.size() == 1) return 0;
  const StreamTimer timer(device);
  std::size_t fastest = 0;
  float least = std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const float milliseconds = MillisecondsOf(device, timer, candidates[i], run);
    if (milliseconds >= least) continue;
    least = milliseconds;
    fastest = i;
  }
  return fastest;
}

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

std::vector<cublasLtMatmulAlgo_t> CudaProduct::FindAlgorithms() {
  cublasLtMatmulPreferenceOpaque_t preference;
  device_.Check(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit");
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    device_.Check(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof(value)),
                  "cublasLtMatmulPreferenceSetAttribute");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, CudaDevice::kWorkspaceBytes);
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, kReductions);
  std::array<cublasLtMatmulHeuristicResult_t, kCandidates> found{};
  int count = 0;
  device_.Check(cublasLtMatmulAlgoGetHeuristic(device_.cublas(), &operation_, &weight_, &x_, &y_, &y_, &preference,
                                               kCandidates, found.data(), &count),
                "cublasLtMatmulAlgoGetHeuristic");
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (const auto& each : std::span(found).first(static_cast<std::size_t>(count))) {
    if (each.state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(each.algo);
  }
  if (algorithms.empty()) device_.Check(CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmulAlgoGetHeuristic");
  return algorithms;
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

const cublasLtMatmulAlgo_t& CudaMatmulPlans::For(const CudaDevice& device, const MatmulPlanKey& key, const void* bias,
                                                 const Run& run) {
  const auto found = algorithms_.find(key);
  if (found != algorithms_.end()) return found->second;
  const std::vector<cublasLtMatmulAlgo_t> candidates = CudaProduct(device, key, bias).FindAlgorithms();
  const std::size_t chosen = device.is_capturing() ? 0 : FastestOf(device, candidates, run);
  return algorithms_.emplace(key, candidates[chosen]).first->second;
}

MatmulPlanKey CudaMatmulPlans::KeyOf(const MatmulPlanKey& shape) const {
  if (planned_alone_.count(shape) > 0) return shape;
  MatmulPlanKey bucket = shape;
  bucket.rows = MatmulBucket(shape.rows);
  return bucket;
}

}  // namespace roost::kernels
