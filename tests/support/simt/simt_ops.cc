#include "tests/support/simt/simt_ops.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/cuda/cuda_ops.h"
#include "tests/support/move_rows.h"
#include "tests/support/simt/memory_ops.h"
#include "tests/support/simt/simt_device.h"

namespace roost::kernels {

// In move_blocks_cuda.cu, in place of its launch on a stream.
void GatherBlocksSimt(Device& device, const MoveBlocksArgs& args);

}  // namespace roost::kernels

namespace roost::simt {
namespace {

using kernels::DType;

DType PreferredDType(kernels::Device& /*device*/) { return DType::kBF16; }
bool SupportsDType(kernels::Device& /*device*/, DType dtype) { return dtype == DType::kBF16; }
DType ActivationDType(kernels::Device& /*device*/, DType dtype) { return dtype; }
kernels::Arithmetic ArithmeticOf(kernels::Device& /*device*/) {
  return {.batch_tolerance = kernels::kCudaBatchTolerance, .name = "shim"};
}
void BeginBatch(kernels::Device& /*device*/, const kernels::BatchShape& /*shape*/) {}

// An op that launches no kernel of the shim.
template <auto kOp, typename Args>
void RunOrRecord(kernels::Device& device, const Args& args) {
  Device::Of(device).RunOrRecord([&device, args] { kOp(device, args); });
}

// As on a small device.
std::optional<kernels::MemoryUse> MemoryUseOf(kernels::Device& /*device*/) {
  return kernels::MemoryUse{.free_bytes = std::size_t{4} << 20U, .total_bytes = std::size_t{16} << 20U};
}

// Plain products that round a bias to y's dtype, as cuBLASLt does.
class Weights final : public kernels::MatmulWeights {
 public:
  Weights(std::unique_ptr<MatmulWeights> f32, std::unique_ptr<MatmulWeights> bf16)
      : MatmulWeights(f32->inputs(), f32->outputs()), for_f32(std::move(f32)), for_bf16(std::move(bf16)) {}

  const std::unique_ptr<MatmulWeights> for_f32;
  const std::unique_ptr<MatmulWeights> for_bf16;
};

Result<std::unique_ptr<kernels::MatmulWeights>> PrepareMatmul(kernels::Device& device,
                                                              const kernels::PrepareMatmulArgs& args) {
  ROOST_ASSIGN_OR_RETURN(auto for_f32, kernels::PrepareMatmulRef(device, args));
  std::vector<std::vector<float>> values;
  values.reserve(2 * args.parts.size());
  std::vector<kernels::MatmulPart> parts;
  for (const kernels::MatmulPart& part : args.parts) {
    // A bias has its weight's dtype, so both are converted.
    std::vector<float>& weight = values.emplace_back();
    for (std::size_t i = 0; i < std::size_t{part.outputs} * args.inputs; ++i) {
      weight.push_back(kernels::LoadElement(part.weight, part.dtype, i));
    }
    std::vector<float>& bias = values.emplace_back(part.bias != nullptr ? part.outputs : 0);
    for (std::size_t i = 0; i < bias.size(); ++i) {
      bias[i] = kernels::BF16ToFloat(kernels::FloatToBF16(kernels::LoadElement(part.bias, part.dtype, i)));
    }
    parts.push_back({weight.data(), DType::kF32, bias.empty() ? nullptr : bias.data(), part.outputs});
  }
  ROOST_ASSIGN_OR_RETURN(auto for_bf16, kernels::PrepareMatmulRef(device, {parts, args.inputs, args.compute_dtype}));
  return std::unique_ptr<kernels::MatmulWeights>(new Weights(std::move(for_f32), std::move(for_bf16)));
}

void Matmul(kernels::Device& device, kernels::MatmulArgs args) {
  const auto& weights = static_cast<const Weights&>(*args.weights);
  args.weights = (args.y_dtype == DType::kBF16 ? weights.for_bf16 : weights.for_f32).get();
  kernels::MatmulRef(device, args);
}

// Everything ends at once; see late_ops.h for streams that do not.
class CopyStreams final : public kernels::CopyStreams {
 public:
  explicit CopyStreams(kernels::Device& device) : device_(device) {}

  void Gather(const kernels::MoveBlocksArgs& args) override { kernels::GatherBlocksSimt(device_, args); }
  void Begin(kernels::CopyWay way, std::size_t /*place*/, const kernels::RowsCopy& copy) override {
    testing_support::MoveRows(way, copy);
  }
  void Await(kernels::CopyWay /*way*/, std::size_t /*place*/) override {}
  void Clear(void* device, std::size_t bytes) override { std::memset(device, 0, bytes); }
  void HoldOps() override {}

 private:
  kernels::Device& device_;
};

}  // namespace

const kernels::OpTable& SimtOps() {
  static const kernels::OpTable kOps = [] {
    kernels::OpTable ops = MemoryOps();
    ops.preferred_dtype = PreferredDType;
    ops.supports_dtype = SupportsDType;
    ops.activation_dtype = ActivationDType;
    ops.arithmetic = ArithmeticOf;
    ops.begin_batch = BeginBatch;
    ops.memory_use = MemoryUseOf;
    ops.check_model = kernels::CheckModelCuda;
    ops.gather_embedding = kernels::GatherEmbeddingCuda;
    ops.rms_norm = kernels::RmsNormCuda;
    ops.prepare_matmul = PrepareMatmul;
    ops.open_copy_streams = [](kernels::Device& device) -> std::unique_ptr<kernels::CopyStreams> {
      return std::make_unique<CopyStreams>(device);
    };
    ops.pin = [](kernels::Device& /*device*/, std::size_t bytes) -> void* { return std::aligned_alloc(64, bytes); };
    ops.unpin = [](void* memory) { std::free(memory); };
    ops.matmul = RunOrRecord<Matmul>;
    ops.rope_angles = kernels::RopeAnglesCuda;
    ops.rope_to_cache = kernels::RopeToCacheCuda;
    ops.attention_profile = kernels::AttentionProfileCuda;
    ops.attention = kernels::AttentionCuda;
    ops.silu_mul = kernels::SiluMulCuda;
    ops.copy_block_rows = kernels::CopyBlockRowsCuda;
    ops.scatter_blocks = kernels::ScatterBlocksCuda;
    ops.sample = kernels::SampleCuda;
    ops.logprobs = kernels::LogprobsCuda;
    ops.place_sampled = kernels::PlaceSampledCuda;
    // On a device NCCL does these.
    ops.connect = kernels::ConnectCpu;
    ops.all_reduce = RunOrRecord<kernels::AllReduceCpu>;
    ops.gather_columns = RunOrRecord<kernels::GatherColumnsCpu>;
    ops.broadcast = RunOrRecord<kernels::BroadcastCpu>;
    return ops;
  }();
  return kOps;
}

}  // namespace roost::simt
