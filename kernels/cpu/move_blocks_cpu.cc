#include <cstring>

#include "kernels/move_blocks.h"

namespace roost::kernels {
namespace {

std::byte* BlockOf(const MoveBlocksArgs& args, std::uint32_t i) {
  return static_cast<std::byte*>(args.kv.base) + args.moves[i].block * args.kv.BlockBytes();
}

std::byte* PlaceOf(const MoveBlocksArgs& args, std::uint32_t i) {
  return static_cast<std::byte*>(args.buffer) + args.moves[i].place * args.kv.BlockBytes();
}

}  // namespace

void GatherBlocksCpu(Device& /*device*/, const MoveBlocksArgs& args) {
  for (std::uint32_t i = 0; i < args.count; ++i) {
    std::memcpy(PlaceOf(args, i), BlockOf(args, i), args.kv.BlockBytes());
  }
}

void ScatterBlocksCpu(Device& /*device*/, const MoveBlocksArgs& args) {
  for (std::uint32_t i = 0; i < args.count; ++i) {
    std::memcpy(BlockOf(args, i), PlaceOf(args, i), args.kv.BlockBytes());
  }
}

}  // namespace roost::kernels
