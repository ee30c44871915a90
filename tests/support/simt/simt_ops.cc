#include "tests/support/simt/simt_ops.h"

#include "kernels/check_model_cuda.h"
#include "tests/support/simt/device.h"
#include "tests/support/simt/ops.h"

namespace roost::simt {
namespace {

using kernels::DType;

DType PreferredDType(kernels::Device& /*device*/) { return DType::kBF16; }
bool SupportsDType(kernels::Device& /*device*/, DType dtype) { return dtype == DType::kBF16; }
DType ActivationDType(kernels::Device& /*device*/, DType dtype) { return dtype; }
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

}  // namespace

const kernels::OpTable& SimtOps() {
  static const kernels::OpTable kOps = [] {
    kernels::OpTable ops = MemoryOps();
    ops.preferred_dtype = PreferredDType;
    ops.supports_dtype = SupportsDType;
    ops.activation_dtype = ActivationDType;
    ops.begin_batch = BeginBatch;
    ops.memory_use = MemoryUseOf;
    ops.check_model = kernels::CheckModelCuda;
    ops.gather_embedding = kernels::GatherEmbeddingCuda;
    ops.rms_norm = kernels::RmsNormCuda;
    ops.prepare_matmul = kernels::PrepareMatmulRef;
    ops.matmul = RunOrRecord<kernels::MatmulRef>;
    ops.rope_angles = kernels::RopeAnglesCuda;
    ops.rope_to_cache = kernels::RopeToCacheCuda;
    ops.attention_profile = kernels::AttentionProfileCuda;
    ops.attention = kernels::AttentionCuda;
    ops.silu_mul = kernels::SiluMulCuda;
    ops.copy_block_rows = kernels::CopyBlockRowsCuda;
    ops.gather_blocks = kernels::GatherBlocksCuda;
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
