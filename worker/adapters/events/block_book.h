// Follows the blocks in the cache of vLLM or SGLang by its events, and tells of them in our terms: as wire::CacheEvents
// with our hashes. The engine's own hashes only say which block an event means; ours come from the tokens, the salt and
// the parent:
//
//   Stored   hashes [e0 e1], parent nil, salt "roost:ROOT", tokens  →  h0 = ChainHash(ROOT, …), h1 = ChainHash(h0, …)
//   Stored   hashes [e2], parent e1, tokens                         →  h2 = ChainHash(h1, …)
//   Removed  [e2]                                                   →  h2, once all its copies are gone
//
// Its blocks may be larger than ours: then one is a chain of several of ours, which come and go together. They may be
// smaller: then the last one of those that fill a block of ours stands for it. The first event says how large they are.
//
// It follows blocks on the device, of one rank (the first that stores one, if none is named) and of that rank's first
// group with full attention. Other blocks, and all those behind them, are left out and counted (left_out.h).
//
// Memory is bounded by the engine's room. An engine that has more copies than blocks, as one whose removals
// were lost, ends in Outcome::kOverflow: the book is empty then, and follows what comes.
//
// Not thread-safe. O(tokens) for a stored block, O(1) expected for a removed one; a removed block that has blocks
// behind it costs O(those), see BlockTree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/ids.h"
#include "common/prefix/block_hash.h"
#include "common/wire/messages.h"
#include "worker/adapters/events/cache_change.h"
#include "worker/adapters/events/cache_salt.h"
#include "worker/engine_api/cache_view_counts.h"
#include "worker/engine_api/event_log.h"

namespace roost::worker::adapters {

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
// Not thread-safe. Store and Remove are O(1) expected, and O(blocks below) when they show or hide them.

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

class BlockBook {
 public:
  struct Options {
    std::uint32_t block_tokens = 16;  // ours, IsValidBlockTokens
    BlockHash default_root;           // of requests without a salt
    // The same of requests for this adapter; null: blocks of adapters are left out.
    std::function<BlockHash(const std::string& adapter)> adapter_root = nullptr;
    std::uint32_t max_blocks = 0;                      // of ours, that the engine has room for; above 0
    std::optional<std::uint32_t> rank = std::nullopt;  // the one to follow; none: the first that stores a block
  };
  enum class Outcome : std::uint8_t {
    kFollowed,
    kEmptied,   // by the engine: what the book holds from now on is all that there is
    kOverflow,  // see above
  };

  explicit BlockBook(const Options& options);

  [[nodiscard]] Outcome Apply(const CacheChange& change);
  // Removes all blocks, and follows the rank and the group that come first from now on.
  void Clear();

  // Moves the events since the last call to the end of `events`.
  void TakeEvents(std::vector<wire::CacheEvent>& events) { tree_.TakeEvents(events); }
  // All visible blocks, parents before children, as after the events that were taken and those that were not.
  [[nodiscard]] std::vector<wire::StoredRun> Snapshot() const { return tree_.Snapshot(); }

  [[nodiscard]] BlockHash digest() const { return tree_.digest(); }
  [[nodiscard]] std::size_t block_count() const { return tree_.visible_count(); }
  [[nodiscard]] const LeftOutCounts& left_out() const { return left_out_; }

 private:
  void Store(const Stored& stored);
  void Remove(const Removed& removed);
  // The reason to leave out the whole run, without keeping it in the tree.
  [[nodiscard]] std::optional<LeftOut> Elsewhere(const Stored& stored);
  [[nodiscard]] bool IsFollowed(const CachePlace& place) const;
  // The block at `index` of the run, behind `parent`, with a new copy: its last part.
  TreeBlock* StoreBlock(const Stored& stored, std::size_t index, TreeBlock* parent);
  [[nodiscard]] std::optional<LeftOut> ReasonOf(const Stored& stored, std::size_t index, const TreeBlock* parent) const;
  // The roots of a prompt that begins with the first of these blocks.
  [[nodiscard]] SaltedRoots RootsOf(const Stored& stored) const;
  // Where a run begins that no reason leaves out.
  [[nodiscard]] BlockIdentity BeginOf(const Stored& stored, const TreeBlock* parent) const;
  // The same after more tokens, at most one block of ours.
  [[nodiscard]] BlockIdentity After(const BlockIdentity& before, std::span<const TokenId> tokens) const;
  // The blocks of ours that one of the engine's is a chain of; 1 where it is one, or a piece of one.
  [[nodiscard]] std::uint32_t parts() const;
  // The most blocks of ours, or pieces of them, that the engine can hold.
  [[nodiscard]] std::size_t max_copies() const;
  void Count(LeftOut reason, std::size_t blocks = 1) { left_out_[IndexOf(reason)] += blocks; }

  Options options_;
  BlockTree tree_;
  std::optional<std::uint32_t> rank_;      // that is followed
  std::optional<std::uint32_t> group_;     // the same
  std::uint32_t engine_block_tokens_ = 0;  // of that group; 0: not known yet
  LeftOutCounts left_out_{};
};

}  // namespace roost::worker::adapters
