// Copies whole blocks between the cache and one contiguous buffer, to send them or to store them elsewhere:
//
//   gather    buffer[i] = block blocks[i]
//   scatter   block blocks[i] = buffer[i]
//
// Exact. A block has the same layout in the buffer as in the cache; see kv_layout.h.
#pragma once

#include <cstdint>

#include "kernels/device.h"
#include "kernels/kv_layout.h"

namespace roost::kernels {

struct MoveBlocksArgs {
  KvLayout kv;                            // BlockBytes() a multiple of 16
  const std::uint32_t* blocks = nullptr;  // [count]; distinct for scatter
  std::uint32_t count = 0;
  void* buffer = nullptr;  // [count][kv.BlockBytes()], aligned to 16, no alias
};

void GatherBlocksCpu(Device& device, const MoveBlocksArgs& args);
void ScatterBlocksCpu(Device& device, const MoveBlocksArgs& args);
void GatherBlocksCuda(Device& device, const MoveBlocksArgs& args);
void ScatterBlocksCuda(Device& device, const MoveBlocksArgs& args);

}  // namespace roost::kernels
