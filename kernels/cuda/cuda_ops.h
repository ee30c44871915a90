// The CUDA backend's op table, which backend_module.h exports.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/result.h"
#include "kernels/cuda/cuda_limits.h"
#include "kernels/device.h"
#include "kernels/model_dims.h"
#include "kernels/ops.h"
#include "kernels/sample.h"

namespace roost::kernels {

// The models that the kernels of the CUDA backend support. Needs no CUDA headers, so that tests run without CUDA.

// The op table's check_model.
[[nodiscard]] inline Result<void> CheckModelCuda(Device& /*device*/, const ModelDims& model) {
  constexpr std::uint32_t kMinBlockTokens = 16;
  if (model.kv.head_dim != 64 && model.kv.head_dim != 128) {
    return InvalidArgument("head_dim", "the CUDA backend computes heads of 64 and 128, not of {}", model.kv.head_dim);
  }
  if (model.kv.block_tokens < kMinBlockTokens) {
    return InvalidArgument("block_tokens", "the CUDA backend takes blocks of at least {} tokens, not {}",
                           kMinBlockTokens, model.kv.block_tokens);
  }
  if (model.hidden_size > kMaxNormedWidth) {
    return InvalidArgument("hidden_size", "the CUDA backend computes rows of at most {}, not of {}", kMaxNormedWidth,
                           model.hidden_size);
  }
  if (model.vocab_size > kMaxSampledVocab) {
    return InvalidArgument("vocab_size", "the CUDA backend draws from at most {} tokens, not from {}", kMaxSampledVocab,
                           model.vocab_size);
  }
  return {};
}

// The sums of a product have another order in a batch of another size, and results are rounded to bf16 between ops. The
// tests allow models of a few layers half of this; errors grow with the root of the number of layers.
inline constexpr float kCudaBatchTolerance = 4e-2F;

// bf16 with f32 sums. A row's result depends on the batch's size, but not on the other rows.
[[nodiscard]] const OpTable& CudaOps();

// All devices that CUDA finds, including unusable ones. kUnavailable when there is no driver or no device, with CUDA's
// reason.
[[nodiscard]] Result<std::vector<DeviceInfo>> ListCudaDevices();

}  // namespace roost::kernels
