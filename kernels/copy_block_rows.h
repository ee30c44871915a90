// Copies the first `row_count` token rows of a block, K and V of every layer and head, into another block: copy on
// write. Exact.
#pragma once

#include <cstdint>

#include "kernels/device.h"
#include "kernels/kv_layout.h"

namespace roost::kernels {

struct BlockRowsCopy {
  std::uint32_t from_block = 0;
  std::uint32_t to_block = 0;   // not from_block
  std::uint32_t row_count = 0;  // at most block_tokens
};

struct CopyBlockRowsArgs {
  KvLayout kv;
  const BlockRowsCopy* copies = nullptr;  // host memory; in order: a later copy sees an earlier one
  std::uint32_t copy_count = 0;
};

void CopyBlockRowsCpu(Device& device, const CopyBlockRowsArgs& args);
void CopyBlockRowsCuda(Device& device, const CopyBlockRowsArgs& args);

}  // namespace roost::kernels
