// The blocks on disk by hash, each behind the one that it continues: a closed set, as the cache's own tree is. Blocks
// enter front to back and leave leaf first.
//
// Not thread-safe. Every operation is O(1) for each block that it touches. 96 bytes for a block.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "common/prefix/block_hash.h"
#include "common/wire/messages.h"
#include "worker/disk/segment.h"

namespace roost::worker {

// The slot of a segment.
struct DiskPlace {
  std::uint64_t segment = 0;
  std::uint32_t slot = 0;

  auto operator<=>(const DiskPlace&) const = default;
};

class DiskIndex {
 public:
  struct Node {
    DiskBlock block;
    DiskPlace place;
    bool used = false;  // since it was written
    std::uint32_t parent = kNone;
    std::uint32_t first_child = kNone;
    std::uint32_t next = kNone;  // among the children of `parent`, or the first blocks of prompts
    std::uint32_t previous = kNone;
  };

  [[nodiscard]] const Node* Find(BlockHash hash) const;
  [[nodiscard]] Node* Find(BlockHash hash);
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(by_hash_.size()); }
  [[nodiscard]] BlockHash digest() const { return digest_; }  // xor of all hashes

  // May this block enter: the block before it is here, at the position before, and it is not here itself?
  [[nodiscard]] bool Takes(const DiskBlock& block) const;
  void Add(const DiskBlock& block, DiskPlace place);

  // Takes the block and all that continues it out, leaf first, and calls `visit` with each.
  void RemoveTree(BlockHash hash, const std::function<void(const Node&)>& visit);
  // Is it here, and does nothing continue it?
  [[nodiscard]] bool IsLeaf(BlockHash hash) const;
  // The hashes before this block, the last one first.
  [[nodiscard]] std::vector<BlockHash> PathBefore(BlockHash hash) const;

  // The first blocks of prompts.
  [[nodiscard]] std::vector<BlockHash> FirstBlocks() const;
  // The blocks of this tenant that continue none of it.
  [[nodiscard]] std::vector<BlockHash> TopsOf(std::uint64_t tenant) const;
  // All of them, parents before children.
  [[nodiscard]] std::vector<wire::StoredRun> Runs() const;

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFFU;

  [[nodiscard]] std::uint32_t& HeadOf(std::uint32_t parent) {
    return parent == kNone ? first_blocks_ : nodes_[parent].first_child;
  }
  void RemoveLeaf(std::uint32_t node);

  std::vector<Node> nodes_;
  std::vector<std::uint32_t> free_;
  std::unordered_map<BlockHash, std::uint32_t, BlockHashHasher> by_hash_;
  std::uint32_t first_blocks_ = kNone;
  BlockHash digest_;
};

}  // namespace roost::worker
