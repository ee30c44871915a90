// The blocks that a foreign engine holds, as a tree, and what of it the router may see. The engine names a block by its
// own hash; several such blocks (of requests with different salts) may be one block of ours.
//
//   engine's blocks         a ─ b ─ c        visible: a has a copy, and so has each block above it
//                             └ d
//   the engine removes b    a ─(b)─ c        removed: c, b. Hidden c stays here, as does b, without a copy, for c
//                             └ d
//   and stores it again     a ─ b ─ c        stored: b, c
//                             └ d
//
// A block of ours is visible while one of the engine's blocks that are it is visible. So after each event of the log
// every stored block's parent is stored, as wire::CacheEvent asks. Two blocks that claim one hash of ours with
// different parents (a client of the engine may choose such a salt) are not both shown: the second one stays hidden.
//
// Not thread-safe. Store and Remove are O(1) expected, and O(blocks below) when they show or hide them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/prefix/block_hash.h"
#include "common/wire/messages.h"
#include "worker/engine_api/cache_view_counts.h"
#include "worker/engine_api/event_log.h"

namespace roost::worker::foreign {

// The identity of an engine's block among Roost's.
struct BlockIdentity {
  BlockHash hash;
  std::uint32_t position = 0;           // in blocks from the root
  std::shared_ptr<const OwnScope> own;  // that begins further down the chain; null: none
};

struct TreeBlock {
  const std::string* name = nullptr;  // the engine's hash
  BlockIdentity identity;             // of a block that is not followed: meaningless
  std::optional<LeftOut> left_out;    // the reason to leave out this block and those below it; nothing: none
  std::uint32_t copies = 0;
  bool visible = false;
  TreeBlock* parent = nullptr;
  TreeBlock* first_child = nullptr;
  TreeBlock* next = nullptr;  // among the parent's children
  TreeBlock* previous = nullptr;
};

class BlockTree {
 public:
  BlockTree() = default;
  BlockTree(const BlockTree&) = delete;
  BlockTree& operator=(const BlockTree&) = delete;

  // Null: the tree has no such block. A block lives as long as it, or one below it, has a copy.
  [[nodiscard]] TreeBlock* Find(std::string_view name);

  // Adds a block without a copy. The tree has none of this name.
  TreeBlock* Add(std::string_view name, TreeBlock* parent, BlockIdentity identity, std::optional<LeftOut> left_out);
  void AddCopy(TreeBlock& block);
  // The block has a copy. Afterwards it may be gone.
  void RemoveCopy(TreeBlock& block);
  // Removes all.
  void Clear();

  // Moves the events since the last call to the end of `events`. None has more hashes than a message may have.
  void TakeEvents(std::vector<wire::CacheEvent>& events);
  // All visible blocks, parents before children.
  [[nodiscard]] std::vector<wire::StoredRun> Snapshot() const;

  [[nodiscard]] BlockHash digest() const { return digest_; }  // xor of the visible hashes
  [[nodiscard]] std::size_t visible_count() const { return shown_.size(); }
  [[nodiscard]] std::size_t size() const { return blocks_.size(); }  // with those that have no copy
  [[nodiscard]] std::uint64_t copy_count() const { return copy_count_; }

 private:
  // XXH3 with the process's seed; see BlockHashHasher.
  struct NameHasher {
    [[nodiscard]] std::size_t operator()(const std::string& name) const noexcept;
  };
  // A visible block of ours.
  struct Shown {
    BlockHash parent;  // of a first block: zero
    std::uint32_t position = 0;
    std::uint32_t count = 0;  // the engine's visible blocks that are this one
  };

  void Show(TreeBlock& top);
  void Hide(TreeBlock& top);
  [[nodiscard]] bool Reveal(TreeBlock& block);
  void Conceal(TreeBlock& block);
  // Forgets blocks without copies and children, from this one upwards.
  void Drop(TreeBlock* block);

  std::unordered_map<std::string, TreeBlock, NameHasher> blocks_;
  std::unordered_map<BlockHash, Shown, BlockHashHasher> shown_;
  std::uint64_t copy_count_ = 0;
  BlockHash digest_;
  EventLog log_;
};

}  // namespace roost::worker::foreign
