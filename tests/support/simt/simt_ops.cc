#include "tests/support/simt/simt_ops.h"

#include <memory>

#include "tests/support/simt/device.h"

namespace roost::simt {
namespace {

using kernels::DType;

Result<kernels::Device*> Open(const kernels::DeviceOptions& /*options*/) {
  return static_cast<kernels::Device*>(std::make_unique<Device>().release());
}

void Close(kernels::Device* device) { const std::unique_ptr<Device> owned(static_cast<Device*>(device)); }

DType PreferredDType(kernels::Device& /*device*/) { return DType::kBF16; }
bool SupportsDType(kernels::Device& /*device*/, DType dtype) { return dtype == DType::kBF16; }
DType ActivationDType(kernels::Device& /*device*/, DType dtype) { return dtype; }

}  // namespace

const kernels::OpTable& SimtOps() {
  static const kernels::OpTable kOps = [] {
    kernels::OpTable ops = kernels::ReferenceOps();
    ops.name = "simt";
    ops.open = Open;
    ops.close = Close;
    ops.preferred_dtype = PreferredDType;
    ops.supports_dtype = SupportsDType;
    ops.activation_dtype = ActivationDType;
    ops.gather_embedding = kernels::GatherEmbeddingCuda;
    ops.rms_norm = kernels::RmsNormCuda;
    ops.rope_angles = kernels::RopeAnglesCuda;
    ops.rope_to_cache = kernels::RopeToCacheCuda;
    ops.silu_mul = kernels::SiluMulCuda;
    ops.copy_block_rows = kernels::CopyBlockRowsCuda;
    return ops;
  }();
  return kOps;
}

}  // namespace roost::simt
