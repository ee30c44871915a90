// The blocks that the engine beside holds, as a tree, and what of it the router may see. The engine names a block by
// its own hash; several such blocks (of requests with different salts) may be one block of ours.
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
// An engine may hold a block twice. Some tell of each copy that goes, others only of the last. So the first removal of
// a block that was stored more than once hides it, and if another one follows without a store between them, the engine
// tells of each: from then on copies are counted. A view of either kind promises nothing that is gone.
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
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/prefix/block_hash.h"
#include "common/wire/messages.h"
#include "worker/adapters/events/cache_salt.h"
#include "worker/engine_api/cache_view_counts.h"
#include "worker/engine_api/event_log.h"

namespace roost::worker::adapters {

// The tokens from the root to the end of an engine's block, in Roost's blocks.
struct BlockIdentity {
  BlockHash hash;                       // of the last whole block; of none the root
  std::uint32_t block_count = 0;        // whole blocks
  std::vector<TokenId> rest;            // behind them, fewer than a block has
  std::shared_ptr<const OwnScope> own;  // that begins further down the chain; null: none

  // False: the block after it, or one further down, completes one of Roost's.
  [[nodiscard]] bool is_whole() const { return rest.empty(); }
  // The place of the last whole block, in blocks from the root.
  [[nodiscard]] std::uint32_t position() const { return block_count - 1; }
};

struct TreeBlock {
  const std::string* name = nullptr;  // the engine's hash; of a part of its block, see PartName
  BlockIdentity identity;             // of a block that is not followed: meaningless
  std::optional<LeftOut> left_out;    // the reason to leave out this block and those below it; nothing: none
  std::uint32_t copies = 0;
  std::uint32_t groups = 0;  // bits of the other groups of layers that hold the block of this name; see ResumePoints
  bool visible = false;
  bool doubted = false;  // removed, but perhaps only one of its copies
  bool watched = false;  // it had groups once: what shows or hides it is noted
  TreeBlock* parent = nullptr;
  TreeBlock* first_child = nullptr;
  TreeBlock* next = nullptr;  // among the parent's children
  TreeBlock* previous = nullptr;
};

class BlockTree {
 public:
  // XXH3 with the process's seed; see BlockHashHasher.
  struct NameHasher {
    [[nodiscard]] std::size_t operator()(const std::string& name) const noexcept;
  };

  BlockTree() = default;
  BlockTree(const BlockTree&) = delete;
  BlockTree& operator=(const BlockTree&) = delete;

  // Null: the tree has no such block. A block lives as long as it, or one below it, has a copy.
  [[nodiscard]] TreeBlock* Find(std::string_view name);
  // Is this block of ours visible?
  [[nodiscard]] bool Shows(BlockHash hash) const { return shown_.contains(hash); }
  // Does the engine hold it, as far as is known?
  [[nodiscard]] bool Holds(std::string_view name);

  // Adds a block without a copy. The tree has none of this name.
  TreeBlock* Add(std::string_view name, TreeBlock* parent, BlockIdentity identity, std::optional<LeftOut> left_out);
  void AddCopy(TreeBlock& block);
  // The block has a copy. Afterwards it may be gone.
  void RemoveCopy(TreeBlock& block);
  // Removes all.
  void Clear();

  // A watched block that was shown or hidden since the last call.
  struct Turned {
    std::string name;
    BlockHash hash;
    bool is_removed = false;  // an event tells of its removal
  };
  [[nodiscard]] std::vector<Turned> TakeTurned() { return std::exchange(turned_, {}); }

  // Moves the events since the last call to the end of `events`. None has more hashes than a message may have.
  void TakeEvents(std::vector<wire::CacheEvent>& events);
  // All visible blocks, parents before children.
  [[nodiscard]] std::vector<wire::StoredRun> Snapshot() const;

  [[nodiscard]] BlockHash digest() const { return digest_; }  // xor of the visible hashes
  [[nodiscard]] std::size_t visible_count() const { return shown_.size(); }
  [[nodiscard]] std::size_t size() const { return blocks_.size(); }  // with those that have no copy
  [[nodiscard]] std::uint64_t copy_count() const { return copy_count_; }
  [[nodiscard]] std::uint64_t held_count() const { return held_count_; }  // blocks that have one; see Holds
  // Does the engine tell of each copy that goes, as far as is known? If not, copies may add up.
  [[nodiscard]] bool counts_copies() const { return counts_copies_; }
  // It has shown so: blocks of which one copy went are there again. O(blocks).
  void TrustCopies();

 private:
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
  void ShowIfReached(TreeBlock& block);
  // Forgets blocks without copies and children, from this one upwards.
  void Drop(TreeBlock* block);

  std::unordered_map<std::string, TreeBlock, NameHasher> blocks_;
  std::unordered_map<BlockHash, Shown, BlockHashHasher> shown_;
  std::uint64_t copy_count_ = 0;
  std::uint64_t held_count_ = 0;
  bool counts_copies_ = false;  // the engine tells of each copy that goes
  BlockHash digest_;
  EventLog log_;
  std::vector<Turned> turned_;
};

}  // namespace roost::worker::adapters
