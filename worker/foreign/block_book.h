// Follows the blocks in a foreign engine's cache by its events, and tells of them in our terms: as wire::CacheEvents
// with our hashes. The engine's own hashes only say which block an event means; ours come from the tokens, the salt and
// the parent:
//
//   Stored   hashes [e0 e1], parent nil, salt "roost:ROOT", tokens  →  h0 = ChainHash(ROOT, …), h1 = ChainHash(h0, …)
//   Stored   hashes [e2], parent e1, tokens                         →  h2 = ChainHash(h1, …)
//   Removed  [e2]                                                   →  h2, once all its copies are gone
//
// It follows blocks on the device, of the first rank that stores one and of that rank's first group with full
// attention. Other blocks, and all those behind them, are left out and counted (left_out.h).
//
// Memory is bounded by the engine's number of blocks. An engine that has more copies than blocks, as one whose removals
// were lost, ends in Outcome::kOverflow: the book is empty then, and follows what comes.
//
// Not thread-safe. O(tokens) for a stored block, O(1) expected for a removed one; a removed block that has blocks
// behind it costs O(those), see block_tree.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/prefix/block_hash.h"
#include "common/wire/messages.h"
#include "worker/engine_api/cache_view_counts.h"
#include "worker/foreign/block_tree.h"
#include "worker/foreign/cache_change.h"
#include "worker/foreign/cache_salt.h"

namespace roost::worker::foreign {

class BlockBook {
 public:
  struct Options {
    std::uint32_t block_tokens = 16;  // IsValidBlockTokens
    BlockHash default_root;           // of requests without a salt
    // The same of requests for this adapter; null: blocks of adapters are left out.
    std::function<BlockHash(const std::string& adapter)> adapter_root = nullptr;
    std::uint32_t max_blocks = 0;  // that the engine has; above 0
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
  // The block at `index` of the run, behind `parent`, with a new copy.
  TreeBlock* StoreBlock(const Stored& stored, std::size_t index, TreeBlock* parent);
  [[nodiscard]] std::optional<LeftOut> ReasonOf(const Stored& stored, std::size_t index, const TreeBlock* parent) const;
  // The roots of a prompt that begins with the first of these blocks.
  [[nodiscard]] SaltedRoots RootsOf(const Stored& stored) const;
  // The identity of a block that no reason leaves out.
  [[nodiscard]] BlockIdentity IdentityOf(const Stored& stored, std::size_t index, const TreeBlock* parent) const;
  void Count(LeftOut reason, std::size_t blocks = 1) { left_out_[IndexOf(reason)] += blocks; }

  Options options_;
  BlockTree tree_;
  std::optional<std::uint32_t> rank_;   // that is followed
  std::optional<std::uint32_t> group_;  // the same
  LeftOutCounts left_out_{};
};

}  // namespace roost::worker::foreign
