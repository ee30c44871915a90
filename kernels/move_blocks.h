// Copies whole blocks between the cache and a buffer with a place for each of several blocks, to send them or to store
// them elsewhere:
//
//   gather    place moves[i].place = block moves[i].block
//   scatter   block moves[i].block = place moves[i].place
//
// Exact. A block has the same layout in the buffer as in the cache; see kv_layout.h.
#pragma once

#include <cstdint>

#include "kernels/device.h"
#include "kernels/kv_layout.h"

namespace roost::kernels {

struct BlockMove {
  std::uint32_t block = 0;
  std::uint32_t place = 0;
};

struct MoveBlocksArgs {
  KvLayout kv;                       // BlockBytes() a multiple of 16
  const BlockMove* moves = nullptr;  // host memory; distinct places for gather, distinct blocks for scatter
  std::uint32_t count = 0;
  void* buffer = nullptr;  // [places][kv.BlockBytes()], aligned to 16, no alias
};

void GatherBlocksCpu(Device& device, const MoveBlocksArgs& args);
void ScatterBlocksCpu(Device& device, const MoveBlocksArgs& args);
void ScatterBlocksCuda(Device& device, const MoveBlocksArgs& args);

}  // namespace roost::kernels
