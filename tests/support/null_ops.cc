#include "tests/support/null_ops.h"

#include <memory>

namespace roost::testing_support {
namespace {

using kernels::Device;
using kernels::OpTable;

class NullWeights final : public kernels::MatmulWeights {
 public:
  explicit NullWeights(std::uint32_t inputs) : MatmulWeights(inputs, 0) {}
};

template <typename Args>
void DoNothing(Device& /*device*/, const Args& /*args*/) {}

void DrawNullTokens(Device& /*device*/, const kernels::SampleArgs& args) {
  for (std::uint32_t i = 0; i < args.row_count; ++i) args.out[i] = {.token = kNullToken};
}

}  // namespace

const OpTable& NullOps() {
  static const OpTable kOps = [] {
    OpTable ops = kernels::CpuOps();
    ops.name = "null";
    ops.begin_recording = [](Device& /*device*/) {};
    ops.end_recording = [](Device& /*device*/) { return std::make_unique<kernels::Recording>(); };
    ops.replay = [](Device& /*device*/, const kernels::Recording& /*recording*/) {};
    ops.prepare_matmul = [](Device& /*device*/, const kernels::PrepareMatmulArgs& args) {
      return Result<std::unique_ptr<kernels::MatmulWeights>>(std::make_unique<NullWeights>(args.inputs));
    };
    ops.attention_profile = [](Device& /*device*/, std::uint32_t /*head_dim*/) { return kLargeDeviceProfile; };
    ops.gather_embedding = DoNothing<kernels::GatherEmbeddingArgs>;
    ops.rms_norm = DoNothing<kernels::RmsNormArgs>;
    ops.matmul = DoNothing<kernels::MatmulArgs>;
    ops.rope_angles = DoNothing<kernels::RopeAnglesArgs>;
    ops.rope_to_cache = DoNothing<kernels::RopeToCacheArgs>;
    ops.attention = DoNothing<kernels::AttentionArgs>;
    ops.silu_mul = DoNothing<kernels::SiluMulArgs>;
    ops.copy_block_rows = DoNothing<kernels::CopyBlockRowsArgs>;
    ops.sample = DrawNullTokens;
    ops.logprobs = DoNothing<kernels::LogprobsArgs>;
    ops.place_sampled = DoNothing<kernels::PlaceSampledArgs>;
    return ops;
  }();
  return kOps;
}

}  // namespace roost::testing_support
