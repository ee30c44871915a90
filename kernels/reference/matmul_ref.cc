#include <vector>

#include "kernels/matmul.h"

namespace roost::kernels {
namespace {

class RefWeights final : public MatmulWeights {
 public:
  RefWeights(std::uint32_t inputs, std::uint32_t outputs, DType compute_dtype)
      : MatmulWeights(inputs, outputs), dtype(compute_dtype) {}

  DType dtype;
  std::vector<float> weight;  // [outputs][inputs], rounded to dtype
  std::vector<float> bias;    // [outputs]
};

float Rounded(float value, DType dtype) { return dtype == DType::kBF16 ? BF16ToFloat(FloatToBF16(value)) : value; }

}  // namespace

Result<std::unique_ptr<MatmulWeights>> PrepareMatmulRef(Device& /*device*/, const PrepareMatmulArgs& args) {
  std::uint32_t outputs = 0;
  for (const MatmulPart& part : args.parts) outputs += part.outputs;
  auto weights = std::make_unique<RefWeights>(args.inputs, outputs, args.compute_dtype);
  for (const MatmulPart& part : args.parts) {
    for (std::size_t i = 0; i < std::size_t{part.outputs} * args.inputs; ++i) {
      weights->weight.push_back(Rounded(LoadElement(part.weight, part.dtype, i), args.compute_dtype));
    }
    for (std::size_t i = 0; i < part.outputs; ++i) {
      weights->bias.push_back(part.bias != nullptr ? LoadElement(part.bias, part.dtype, i) : 0);
    }
  }
  return std::unique_ptr<MatmulWeights>(std::move(weights));
}

void MatmulRef(Device& /*device*/, const MatmulArgs& args) {
  const auto& weights = static_cast<const RefWeights&>(*args.weights);
  const std::size_t inputs = weights.inputs();
  for (std::size_t m = 0; m < args.rows; ++m) {
    for (std::size_t n = 0; n < weights.outputs(); ++n) {
      double sum = weights.bias[n];
      for (std::size_t k = 0; k < inputs; ++k) {
        sum += double{LoadElement(args.x, weights.dtype, m * inputs + k)} * weights.weight[n * inputs + k];
      }
      StoreElement(args.y, args.y_dtype, m * weights.outputs() + n, static_cast<float>(sum));
    }
  }
}

}  // namespace roost::kernels
