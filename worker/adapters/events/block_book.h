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
// A part of a block has a name of its own and comes and goes beside the whole one; its event tells only of its last
// tokens, so it is followed where these begin behind a block or a part that is.
//
// It follows blocks on the device, of one rank (the first that stores one, if none is named) and of that rank's first
// group with full attention. What other groups hold says behind which of these a request can go on (resume_points.h).
// Other blocks, and all those behind them, are left out and counted (cache_view_counts.h).
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
#include "worker/adapters/events/block_tree.h"
#include "worker/adapters/events/cache_change.h"
#include "worker/adapters/events/cache_salt.h"
#include "worker/adapters/events/resume_points.h"
#include "worker/engine_api/cache_view_counts.h"

namespace roost::worker::adapters {

// The tokens of a prompt that its engine should find, by what is known of its cache.
struct HitGuess {
  std::uint32_t tokens = 0;
  std::uint32_t dropped = 0;  // the same of an engine that computes the last block of a hit again

  bool operator==(const HitGuess&) const = default;
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
    bool tells_each_copy = false;  // of a block that goes; false: until it has shown so, it may tell of all at once
  };
  enum class Outcome : std::uint8_t {
    kFollowed,
    kEmptied,   // by the engine: what the book holds from now on is all that there is
    kOverflow,  // see above
  };

  explicit BlockBook(const Options& options);

  [[nodiscard]] Outcome Apply(const CacheChange& change);
  // Call it after the changes of a message: only together do they say behind which blocks a request can go on.
  void Settle() { points_.Settle(main_blocks()); }
  // Removes all blocks, and follows the rank and the groups that come first from now on.
  void Clear();
  // The engine may tell again of blocks that requests find, also of those that are not known here. So a block that is
  // known has one copy, however often it is stored, and a run from the first block on of a group that keeps only some
  // blocks says no more than that a request can go on behind its end.
  void ExpectFoundRuns(bool expects) { points_.ExpectFoundRuns(expects_found_runs_ = expects); }

  // Moves the events since the last call to the end of `events`.
  void TakeEvents(std::vector<wire::CacheEvent>& events);
  // All visible blocks, parents before children, as after the events that were taken and those that were not.
  [[nodiscard]] std::vector<wire::StoredRun> Snapshot() const { return tree_.Snapshot(); }

  // For a prompt with these blocks. O(log blocks), and O(blocks) where a hit ends only behind some of them.
  [[nodiscard]] HitGuess Guess(std::span<const BlockHash> hashes, std::uint32_t prompt_tokens) const;
  // The size of the main group's blocks; 0: not known yet.
  [[nodiscard]] std::uint32_t engine_block_tokens() const { return engine_block_tokens_; }

  [[nodiscard]] BlockHash digest() const { return tree_.digest(); }
  [[nodiscard]] std::size_t block_count() const { return tree_.visible_count(); }
  // Can a request go on only behind blocks that a resumable event names? So it is where there are several groups.
  [[nodiscard]] bool has_checkpoints() const { return points_.has_groups(); }
  // So many blocks were stored without any of another group that there is none.
  [[nodiscard]] bool looks_plain() const { return !points_.has_groups() && plain_tokens_ >= kPlainTokens; }
  // False for layouts without full attention, or with layers of an unknown kind: routers then go by what they sent.
  [[nodiscard]] bool can_follow() const { return points_.can_follow(main_blocks()); }
  [[nodiscard]] const ResumePoints& resume_points() const { return points_; }
  [[nodiscard]] const LeftOutCounts& left_out() const { return left_out_; }

 private:
  // More than the largest block of a recurrent group, several times.
  static constexpr std::uint64_t kPlainTokens = 65'536;

  void Store(const Stored& stored);
  void Remove(const Removed& removed);
  // The run is of this rank's other groups: true if it was taken for the resume points.
  [[nodiscard]] bool StoreBeside(const Stored& stored);
  // The reason to leave out the whole run, without keeping it in the tree.
  [[nodiscard]] std::optional<LeftOut> Elsewhere(const Stored& stored);
  // The block at `index` of the run, behind `parent`, with a new copy: its last part.
  TreeBlock* StoreBlock(const Stored& stored, std::size_t index, TreeBlock* parent);
  // Does a run that names this block say that it has one more copy?
  [[nodiscard]] bool AddsCopy(const TreeBlock& block) const;
  [[nodiscard]] std::optional<LeftOut> ReasonOf(const Stored& stored, std::size_t index, const TreeBlock* parent) const;
  // The roots of a prompt that begins with the first of these blocks.
  [[nodiscard]] SaltedRoots RootsOf(const Stored& stored) const;
  // Where a run begins that no reason leaves out.
  [[nodiscard]] BlockIdentity BeginOf(const Stored& stored, const TreeBlock* parent) const;
  // The same after more tokens, at most one block of ours.
  [[nodiscard]] BlockIdentity After(const BlockIdentity& before, std::span<const TokenId> tokens) const;
  // The blocks of ours that an engine's block of so many tokens is a chain of; 1 where it is one, or a piece of one.
  [[nodiscard]] std::uint32_t PartsOf(std::uint32_t tokens) const;
  [[nodiscard]] std::uint32_t parts() const { return PartsOf(engine_block_tokens_); }
  // The beginning of a block that may be filled later, and is known by another name then.
  [[nodiscard]] bool IsPart(const Stored& stored) const;
  [[nodiscard]] ResumePoints::MainBlocks main_blocks() const { return {engine_block_tokens_, parts()}; }
  // A run that may only have been found: from the first block on, and one that a request could go on behind.
  [[nodiscard]] bool IsPerhapsFound(const Stored& stored);
  // The most blocks of ours, or pieces of them, that the engine can hold.
  [[nodiscard]] std::size_t max_copies() const;
  void Count(LeftOut reason, std::size_t blocks = 1) { left_out_[IndexOf(reason)] += blocks; }

  Options options_;
  BlockTree tree_;
  ResumePoints points_{tree_};
  std::optional<std::uint32_t> rank_;      // that is followed
  std::optional<std::uint32_t> group_;     // the same
  std::uint32_t engine_block_tokens_ = 0;  // of that group; 0: not known yet
  std::uint64_t plain_tokens_ = 0;         // that were stored while no other group was known
  bool expects_found_runs_ = false;
  LeftOutCounts left_out_{};
};

}  // namespace roost::worker::adapters
