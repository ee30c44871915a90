// Copies KV blocks out of a model's pool while the model computes.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

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

  // Copies a block as [layer][K|V][kv head][token][dim]. `to` has block_bytes(). Any thread may call it, as long as no
  // batch writes to the block: see ReadableBlocks.
  virtual void Read(BlockId block, std::span<std::byte> to) const = 0;
};

}  // namespace roost::worker
