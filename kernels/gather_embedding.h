// out[r][i] = table[tokens[r] - first_token][i], widened to f32, or 0 if the table does not have the token. So if each
// of several tables has a part of the vocabulary, the sum over them is exact.
#pragma once

#include <cstdint>

#include "common/base/ids.h"
#include "kernels/device.h"
#include "kernels/dtype.h"

namespace roost::kernels {

struct GatherEmbeddingArgs {
  const void* table = nullptr;  // [token_count][width], any dtype
  DType table_dtype = DType::kF32;
  TokenId first_token = 0;
  std::uint32_t token_count = 0;
  const TokenId* tokens = nullptr;  // [rows]
  std::uint32_t rows = 0;
  std::uint32_t width = 0;
  float* out = nullptr;  // [rows][width], no alias
};

// token_count or more if the table does not have the token.
[[nodiscard]] constexpr std::uint32_t TableRowOf(const GatherEmbeddingArgs& args, TokenId token) {
  return token - args.first_token;
}

void GatherEmbeddingRef(Device& device, const GatherEmbeddingArgs& args);
void GatherEmbeddingCpu(Device& device, const GatherEmbeddingArgs& args);
void GatherEmbeddingCuda(Device& device, const GatherEmbeddingArgs& args);

}  // namespace roost::kernels
