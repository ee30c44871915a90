// The blocks behind which a request can go on, where an engine's layers are in several groups. Each group has blocks of
// its own, and the engine goes on at a boundary only if every group can:
//
//   main group        ■■■■■■■■■■■■    full attention: all blocks before the boundary (BlockTree)
//   recurrent group   ····●······●    the state at the boundary
//   window group      ··■■■····■■■    the last blocks before it, ceil((window - 1) / block) of them; of a shorter
//   prefix all can go on               ▲        ▲
//
// All groups name the block that ends at a boundary by the same hash, whatever the sizes of their blocks. So a hash of
// another group means the place at which the main group has it. It need not have it yet: groups come in any order, and
// hashes wait here for it until the engine removes them. After each message Settle compares.
//
// An engine may announce blocks that a request found, unmarked, and among them some that a sparse group does not have:
// a run from the first block on, each named, behind which a request could go on already. Of such a run only what a hit
// needs is believed, its end. If it was computed instead, as much is promised as that leaves.
//
// Not thread-safe. Store and Remove are O(1) expected per hash, Settle is O(blocks that changed · blocks of a window),
// and more only where several prefixes go on behind one of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/prefix/block_hash.h"
#include "worker/adapters/events/block_tree.h"
#include "worker/adapters/events/cache_change.h"

namespace roost::worker::adapters {

class ResumePoints {
 public:
  // `tree` is the main group's; it outlives this.
  explicit ResumePoints(BlockTree& tree) : tree_(tree) {}

  // Events of a group that is not the main one.
  void Store(const Stored& stored);
  void Remove(const Removed& removed);
  // See BlockBook.
  void ExpectFoundRuns(bool expects) { expects_found_runs_ = expects; }
  // The tree has just added the last part of the main group's block of this name.
  void OnAdded(TreeBlock& block);

  // The main group's blocks.
  struct MainBlocks {
    std::uint32_t tokens = 0;  // 0: not known yet
    std::uint32_t parts = 1;   // of the tree, for one of them
  };
  // Call it after the events of a message.
  void Settle(MainBlocks main);
  // The groups hold no blocks any more; they stay known. The tree was cleared, too.
  void Empty();
  // The same, and the groups are not known.
  void Forget();

  // The changes since the last call, but for blocks that were removed since.
  struct Changes {
    std::vector<BlockHash> resumable;
    std::vector<BlockHash> unresumable;
  };
  [[nodiscard]] Changes TakeChanges();
  // All blocks behind which a request can go on.
  [[nodiscard]] std::vector<BlockHash> All() const;
  // How many of the first `most` blocks of `hashes` a hit covers, at most. O(most).
  [[nodiscard]] std::uint32_t LastBefore(std::span<const BlockHash> hashes, std::uint32_t most) const;
  [[nodiscard]] BlockHash digest() const { return digest_; }  // xor of their hashes

  [[nodiscard]] bool has_groups() const { return !groups_.empty(); }
  // Can what is resumable be told? Not with groups of an unknown kind, or without a main group.
  [[nodiscard]] bool can_follow(MainBlocks main) const;
  // Could a request go on behind the block of this name, as of the last Settle?
  [[nodiscard]] bool IsResumable(const std::string& name) const { return open_.contains(name); }
  // Hashes that are held; for a bound.
  [[nodiscard]] std::size_t size() const { return held_.size(); }

 private:
  static constexpr std::size_t kMaxGroups = 32;

  // Its place in groups_ is its bit.
  struct Group {
    std::uint32_t number = 0;
    Attention attention = Attention::kFull;
    std::uint32_t block_tokens = 0;
    std::uint32_t window_tokens = 0;

    // Its blocks before a boundary that going on there needs; at least 1.
    [[nodiscard]] std::uint32_t needed_blocks() const;
  };
  // The groups that hold the block of a hash.
  struct Holders {
    std::uint32_t groups = 0;                          // by bit
    std::array<std::uint8_t, kMaxGroups> copies = {};  // also of groups that have lost one of several; see BlockTree
  };
  // A block of ours.
  struct Point {
    std::uint32_t names = 0;  // of the engine's blocks that are it, those behind which a request can go on
    bool is_told = false;
  };
  struct Change {
    std::string name;
    std::uint32_t groups = 0;
  };
  using Names = std::vector<std::string>;

  // Nothing: there are too many groups.
  [[nodiscard]] Group* Learn(const Stored& stored);
  [[nodiscard]] std::uint32_t BitOf(const Group& group) const;
  // `before`: the groups that held it.
  void SetHolders(const std::string& name, std::uint32_t before, const Holders& after);
  // Adds the blocks below that need one of those that the group has stored or lost.
  void AddDependents(const std::vector<Change>& changed, const Group& group, MainBlocks main, Names& names) const;
  void TrustCounts();
  // How many blocks of the tree one of the group's is.
  [[nodiscard]] static std::uint64_t LevelsOf(const Group& group, MainBlocks main);
  [[nodiscard]] bool CanGoOn(const TreeBlock& block, MainBlocks main) const;
  [[nodiscard]] bool HoldsEnough(const TreeBlock& block, const Group& group, MainBlocks main) const;
  void Judge(const std::string& name, MainBlocks main);
  void Open(const std::string& name, BlockHash hash);
  void Close(const std::string& name);
  void Touch(BlockHash hash) { touched_.push_back(hash); }

  BlockTree& tree_;
  std::vector<Group> groups_;
  bool has_unknown_group_ = false;
  bool has_new_group_ = false;
  bool trusts_counts_ = false;  // see BlockTree::counts_copies
  bool expects_found_runs_ = false;
  std::unordered_map<std::string, Holders, BlockTree::NameHasher> held_;
  std::vector<Change> changed_;                                             // since the last Settle
  std::unordered_map<std::string, BlockHash, BlockTree::NameHasher> open_;  // names behind which a request can go on
  std::unordered_map<BlockHash, Point, BlockHashHasher> points_;
  std::vector<BlockHash> touched_;  // since the last TakeChanges
  BlockHash digest_;
};

}  // namespace roost::worker::adapters
