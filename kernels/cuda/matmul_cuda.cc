// Weights are stored as [N][K] bf16, the parts one after another, as in the model's files, so that a product can use
// rows that the device holds for another purpose. cuBLASLt computes the products.
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/matmul_plans_cuda.h"
#include "kernels/matmul.h"

namespace roost::kernels {
namespace {

// Memory of a device, which outlives it.
class CudaMemory {
 public:
  CudaMemory(CudaDevice& device, std::size_t bytes) : device_(device), data_(device.Allocate(bytes)) {}
  ~CudaMemory() {
    if (data_ != nullptr) device_.Release(data_);
  }
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;

  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  CudaDevice& device_;
  void* data_;
};

class CudaWeights final : public MatmulWeights {
 public:
  // Allocates no memory if `rows` is given.
  CudaWeights(CudaDevice& device, std::uint32_t inputs, std::uint32_t outputs, bool biased, const void* rows)
      : MatmulWeights(inputs, outputs),
        has_bias(biased),
        own_rows(device, rows != nullptr ? 0 : std::size_t{inputs} * outputs * SizeOf(DType::kBF16)),
        weight(rows != nullptr ? rows : own_rows.data()),
        // One bias for each dtype of y, because cuBLASLt wants bias and y to have the same.
        bias_bf16(device, biased ? outputs * SizeOf(DType::kBF16) : 0),
        bias_f32(device, biased ? outputs * SizeOf(DType::kF32) : 0) {}

  [[nodiscard]] bool complete() const {
    return own_rows.data() != nullptr && bias_bf16.data() != nullptr && bias_f32.data() != nullptr;
  }

  const bool has_bias;
  const CudaMemory own_rows;
  const void* const weight;
  const CudaMemory bias_bf16;
  const CudaMemory bias_f32;
};

// Uploads as bf16, in pieces of a limited size.
void UploadAsBF16(CudaDevice& device, const void* from, DType dtype, std::size_t elements, std::byte* to) {
  if (dtype == DType::kBF16) {
    device.CopyToDevice(to, from, elements * SizeOf(DType::kBF16));
    return;
  }
  constexpr std::size_t kPieceElements = std::size_t{1} << 22U;
  std::vector<std::uint16_t> piece(std::min(elements, kPieceElements));
  for (std::size_t first = 0; first < elements; first += kPieceElements) {
    const std::size_t count = std::min(kPieceElements, elements - first);
    for (std::size_t i = 0; i < count; ++i) piece[i] = FloatToBF16(LoadElement(from, dtype, first + i));
    device.CopyToDevice(to + first * sizeof(std::uint16_t), piece.data(), count * sizeof(std::uint16_t));
  }
}

void UploadBias(CudaDevice& device, const PrepareMatmulArgs& args, const CudaWeights& weights) {
  std::vector<float> bias;
  for (const MatmulPart& part : args.parts) {
    for (std::size_t i = 0; i < part.outputs; ++i) {
      bias.push_back(part.bias != nullptr ? LoadElement(part.bias, part.dtype, i) : 0);
    }
  }
  UploadAsBF16(device, bias.data(), DType::kF32, bias.size(), weights.bias_bf16.data());
  device.CopyToDevice(weights.bias_f32.data(), bias.data(), bias.size() * sizeof(float));
}

}  // namespace

Result<std::unique_ptr<MatmulWeights>> PrepareMatmulCuda(Device& device, const PrepareMatmulArgs& args) {
  ROOST_CHECK(args.compute_dtype == DType::kBF16);
  CudaDevice& cuda = CudaDevice::Of(device);
  std::uint32_t outputs = 0;
  bool has_bias = false;
  for (const MatmulPart& part : args.parts) {
    outputs += part.outputs;
    has_bias = has_bias || part.bias != nullptr;
  }
  const void* rows = AreUsableInPlace(args) ? args.resident : nullptr;
  auto weights = std::make_unique<CudaWeights>(cuda, args.inputs, outputs, has_bias, rows);
  if (!weights->complete()) {
    return Error{
        ErrorCode::kInternal, fmt::format("no device memory for a weight of {} x {}", outputs, args.inputs), {}};
  }
  if (rows != nullptr) return std::unique_ptr<MatmulWeights>(std::move(weights));
  std::byte* to = weights->own_rows.data();
  for (const MatmulPart& part : args.parts) {
    const std::size_t elements = std::size_t{part.outputs} * args.inputs;
    UploadAsBF16(cuda, part.weight, part.dtype, elements, to);
    to += elements * SizeOf(DType::kBF16);
  }
  if (has_bias) UploadBias(cuda, args, *weights);
  return std::unique_ptr<MatmulWeights>(std::move(weights));
}

void MatmulCuda(Device& device, const MatmulArgs& args) {
  if (args.rows == 0) return;
  CudaDevice& cuda = CudaDevice::Of(device);
  const auto& weights = static_cast<const CudaWeights&>(*args.weights);
  const bool f32 = args.y_dtype == DType::kF32;
  const void* bias = f32 ? weights.bias_f32.data() : weights.bias_bf16.data();
  const MatmulPlanKey shape{.rows = args.rows,
                            .outputs = weights.outputs(),
                            .inputs = weights.inputs(),
                            .y_type = f32 ? CUDA_R_32F : CUDA_R_16BF,
                            .has_bias = weights.has_bias};
  CudaProduct product(cuda, shape, bias);
  CudaMatmulPlans& plans = cuda.matmul_plans();
  const auto run = [&](const cublasLtMatmulAlgo_t& algorithm) {
    return product.TryRun(algorithm, weights.weight, args.x, args.y);
  };
  const auto try_run = [&] { return run(plans.For(cuda, plans.KeyOf(shape), bias, run)); };
  if (try_run()) return;
  plans.PlanAlone(shape);
  if (try_run()) return;
  cuda.Check(CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmul");
}

}  // namespace roost::kernels
