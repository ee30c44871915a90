// The ways of blocks' bytes out of a model's pool and into it, beside its batches.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "common/base/ids.h"
#include "kernels/dtype.h"

namespace roost::worker {

class BlockReader {
 public:
  virtual ~BlockReader() = default;

  // The bytes of K and V of one block, of all heads.
  [[nodiscard]] virtual std::size_t block_bytes() const = 0;

  // The format of the numbers in them; nothing: any bytes.
  [[nodiscard]] virtual std::optional<kernels::DType> dtype() const { return std::nullopt; }

  // Copies a block as [layer][K|V][kv head][token][dim]. `to` has block_bytes(), and is the data of a frame of the
  // model's FrameStaging, if it has one. Any thread may call it, as long as no batch that has begun and not finished
  // writes to the block: see ReadableBlocks. Batches that begin after `may_change` was called may write to it.
  virtual void Read(BlockId block, std::span<std::byte> to, const std::function<void()>& may_change) const = 0;
};

// The memory through which blocks go to devices and from them: frames of one size in pinned memory, and for each of
// them a place on every device. Any thread may call it.
class FrameStaging {
 public:
  virtual ~FrameStaging() = default;

  // Gives away so many of the frames, which must be there.
  [[nodiscard]] virtual std::vector<std::byte*> Take(std::size_t count) = 0;
  // Brings the data of a frame to the frame's places. Returns when it is there: then a batch may write it to the pool.
  virtual void Stage(std::span<const std::byte> data) = 0;
  // Fills a frame that nothing uses, and its places, with zeros.
  virtual void Clear(std::byte* frame) = 0;
};

}  // namespace roost::worker
