// Physical KV blocks as numbers: which are free, which are referenced, and how often. The pool owns no memory: the
// model knows which bytes belong to a block, and the prefix cache knows what a block holds.
//
//              Allocate                DropReference to 0            AddReference
//     free ───────────────▶ referenced ───────────────────▶ idle ───────────────────▶ referenced
//       ▲                                                     │
//       └─────────────────────────────────────────────────────┘ Free (the generation goes up)
//
// Not thread-safe. Every operation is O(1). Breaking a precondition is a bug and stops the process.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/big_vector.h"
#include "common/base/ids.h"
#include "common/base/prefetch.h"

namespace roost::worker {

// A reference to a block at one time. It is stale once the block has been freed. Using a stale reference is a bug, and
// is caught.
struct BlockRef {
  BlockId block;
  std::uint32_t generation = 0;
};

class BlockPool {
 public:
  explicit BlockPool(std::uint32_t block_count);

  // Takes a free block, with one reference; empty when none is free. A fresh pool gives low numbers first.
  [[nodiscard]] std::optional<BlockId> Allocate();

  // Adds a reference to a block that is not free.
  void AddReference(BlockId block);

  // Removes a reference and returns how many are left. Without references the block is idle until it is freed or
  // referenced again.
  std::uint32_t DropReference(BlockId block);

  // Gives an idle block back.
  void Free(BlockId block);

  // The block no longer has the content that it was found for: all existing refs to it become stale.
  void MakeStale(BlockId block);

  // For debugging: from now on, records the blocks whose contents must not be read any more.
  void NoteEmptied() { notes_emptied_ = true; }
  // The blocks that were freed or allocated since the last call. A block may be listed more than once.
  [[nodiscard]] std::vector<BlockId> TakeEmptied() { return std::exchange(emptied_, {}); }

  [[nodiscard]] bool IsFree(BlockId block) const { return entries_[Checked(block)].free(); }
  [[nodiscard]] std::uint32_t references(BlockId block) const {
    const Entry& entry = entries_[Checked(block)];
    return entry.free() ? 0 : entry.references;
  }
  [[nodiscard]] std::uint32_t generation(BlockId block) const { return entries_[Checked(block)].generation; }
  [[nodiscard]] BlockRef RefTo(BlockId block) const { return {block, generation(block)}; }

  void Prefetch(BlockId block) const { roost::Prefetch(&entries_[block.value()]); }

  [[nodiscard]] std::uint32_t block_count() const { return static_cast<std::uint32_t>(entries_.size()); }
  [[nodiscard]] std::uint32_t free_count() const { return static_cast<std::uint32_t>(free_.size()); }
  [[nodiscard]] std::uint32_t referenced_count() const { return referenced_count_; }
  [[nodiscard]] std::uint32_t idle_count() const { return block_count() - free_count() - referenced_count_; }

 private:
  static constexpr std::uint32_t kFree = 0xFFFFFFFFU;

  struct Entry {
    std::uint32_t references = kFree;
    std::uint32_t generation = 0;

    [[nodiscard]] bool free() const { return references == kFree; }
  };

  [[nodiscard]] std::uint32_t Checked(BlockId block) const;

  BigVector<Entry> entries_;
  std::vector<std::uint32_t> free_;  // a stack: the block freed last is the most likely one in the CPU's caches
  std::uint32_t referenced_count_ = 0;
  bool notes_emptied_ = false;
  std::vector<BlockId> emptied_;
};

}  // namespace roost::worker
