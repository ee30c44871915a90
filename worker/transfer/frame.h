// A block as it travels: one format for every way between pools.
//
//   0   magic "RSTB"     4   version u32       8   position u32     12  token count u32
//   16  data bytes u64   24  hash              40  parent           56  root             72  hash of the tenant u64
//   80  tokens, u32 each │ data: [layer][K|V][kv head][token][dim] │ XXH3-128 of all before it
//
// Little-endian; of a hash of 128 bits the high half comes first, of the sum the low half. `parent` is what the block's
// hash is chained from: the hash of the block before it, or the root where a scope begins. A receiver computes the hash
// again from parent and tokens, so the tokens are proven; the sum shows bytes that changed on the way. Nothing shows
// bytes that the sender computed wrong, as long as they are numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/prefix/block_hash.h"
#include "kernels/dtype.h"

namespace roost::worker {

inline constexpr std::uint32_t kFrameVersion = 1;
inline constexpr std::size_t kFrameHeaderBytes = 80;
inline constexpr std::size_t kFrameSumBytes = 16;

// The sizes of every frame of a worker: they follow from its model.
struct FrameSizes {
  std::uint32_t block_tokens = 0;
  std::size_t data_bytes = 0;
  std::optional<kernels::DType> dtype = std::nullopt;  // of the numbers in the data; nothing: any bytes

  [[nodiscard]] constexpr std::size_t data_offset() const {
    return kFrameHeaderBytes + std::size_t{block_tokens} * sizeof(std::uint32_t);
  }
  [[nodiscard]] constexpr std::size_t frame_bytes() const { return data_offset() + data_bytes + kFrameSumBytes; }

  bool operator==(const FrameSizes&) const = default;
};

// A frame's description of its block, besides the tokens.
struct FrameBlock {
  std::uint32_t position = 0;  // in blocks from the root
  BlockHash hash;
  BlockHash parent;
  BlockHash root;
  std::uint64_t tenant = 0;  // TenantHash

  bool operator==(const FrameBlock&) const = default;
};

// 0 for no tenant.
[[nodiscard]] std::uint64_t TenantHash(std::string_view tenant);

// Takes memory of frames back.
class FrameMemoryOwner {
 public:
  virtual ~FrameMemoryOwner() = default;
  // `wipe`: as it was when the memory was given.
  virtual void TakeBack(std::byte* memory, std::uint64_t wipe) = 0;
};

// Frees the memory of a frame, or gives it back to its owner.
struct FrameDeleter {
  std::shared_ptr<FrameMemoryOwner> owner;
  std::uint64_t wipe = 0;

  void operator()(std::byte* memory) const {
    if (owner == nullptr) {
      delete[] memory;
    } else {
      owner->TakeBack(memory, wipe);
    }
  }
};

// Memory for one frame, from the heap or of an owner. The data begins at a multiple of 16 bytes.
class FrameBuffer {
 public:
  FrameBuffer() = default;
  // Not cleared.
  explicit FrameBuffer(FrameSizes sizes) : sizes_(sizes), bytes_(new std::byte[sizes.frame_bytes()]) {}
  FrameBuffer(FrameSizes sizes, std::byte* memory, FrameDeleter deleter)
      : sizes_(sizes), bytes_(memory, std::move(deleter)) {}

  [[nodiscard]] const FrameSizes& sizes() const { return sizes_; }
  [[nodiscard]] std::span<std::byte> bytes() { return {bytes_.get(), bytes_ ? sizes_.frame_bytes() : 0}; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return {bytes_.get(), bytes_ ? sizes_.frame_bytes() : 0}; }
  [[nodiscard]] std::span<std::byte> data() { return bytes().subspan(sizes_.data_offset(), sizes_.data_bytes); }
  [[nodiscard]] std::span<const std::byte> data() const {
    return bytes().subspan(sizes_.data_offset(), sizes_.data_bytes);
  }

 private:
  FrameSizes sizes_;
  std::unique_ptr<std::byte[], FrameDeleter> bytes_;  // NOLINT(modernize-avoid-c-arrays): not cleared
};

// Writes header, tokens and sum around the data, which is in the frame already. There are block_tokens tokens.
void SealFrame(const FrameBlock& block, std::span<const TokenId> tokens, FrameBuffer& frame);

// A frame whose form, sum and hash are right.
struct OpenedFrame {
  FrameBlock block;
  std::vector<TokenId> tokens;
};

// kInvalidArgument, naming the field: another format, other sizes than the buffer's, a wrong sum, a hash that does not
// follow from parent and tokens, or data with a number that is not finite: it would spoil every token that reads it.
[[nodiscard]] Result<OpenedFrame> OpenFrame(const FrameBuffer& frame);

// The blocks that are asked for: a part of a chain, front to back.
struct FrameChain {
  BlockHash root;
  std::optional<OwnScope> own = {};
  BlockHash parent = {};  // the hash of the block before hashes[0]; any if that is the first of the prompt
  std::uint32_t first_position = 0;
  std::vector<BlockHash> hashes = {};
  std::uint64_t tenant = 0;  // TenantHash; a block may also belong to no tenant

  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(hashes.size()); }
  [[nodiscard]] BlockHash RootAt(std::uint32_t index) const {
    return own && first_position + index >= own->first_block ? own->root : root;
  }
  [[nodiscard]] BlockHash ParentAt(std::uint32_t index) const {
    return ParentOf(first_position + index, root, own, index == 0 ? parent : hashes[index - 1]);
  }
};

// Opens the frame and compares it with block `index` of the chain.
[[nodiscard]] Result<OpenedFrame> OpenFrame(const FrameBuffer& frame, const FrameChain& chain, std::uint32_t index);

}  // namespace roost::worker
