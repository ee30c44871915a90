// A worker's disk as its scheduler asks it for blocks: DiskCache, or a simulated one.
#pragma once

#include <cstdint>

#include "worker/transfer/frame_source.h"

namespace roost::worker {

class DiskSource : public FrameSource {
 public:
  // The number of the chain's first blocks that it has.
  [[nodiscard]] virtual std::uint32_t CountFront(const FrameChain& chain) const = 0;
  // The time until so many blocks would be read, behind those that are asked for; see ReadRate.
  [[nodiscard]] virtual double SecondsFor(std::uint32_t block_count) const = 0;
};

}  // namespace roost::worker
