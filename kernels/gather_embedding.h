// out[r][i] = table[tokens[r]][i], widened to f32. Exact.
#pragma once

#include <cstdint>

#include "common/base/ids.h"
#include "kernels/device.h"
#include "kernels/dtype.h"

namespace roost::kernels {

struct GatherEmbeddingArgs {
  const void* table = nullptr;  // [vocab][width], any dtype
  DType table_dtype = DType::kF32;
  const TokenId* tokens = nullptr;  // [rows], each below vocab
  std::uint32_t rows = 0;
  std::uint32_t width = 0;
  float* out = nullptr;  // [rows][width], no alias
};

void GatherEmbeddingRef(Device& device, const GatherEmbeddingArgs& args);
void GatherEmbeddingCpu(Device& device, const GatherEmbeddingArgs& args);
void GatherEmbeddingCuda(Device& device, const GatherEmbeddingArgs& args);

}  // namespace roost::kernels
