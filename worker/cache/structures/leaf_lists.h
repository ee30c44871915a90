// Lists of idle blocks in eviction order, which hand out only leaves of the block tree.
//
// A block is in one list at most. FrontLeaf(l) is the first leaf of list l in the order of the pushes, no matter when
// each became a leaf. So a block never goes before its children, whichever lists they are in. Inner blocks before that
// leaf are set aside, and each comes back when its last child is gone. Nothing is searched twice, because a block is
// set aside at most once per push.
//
//     list:   [a inner] [b inner] [c leaf] [d leaf]        FrontLeaf → c;  a and b are set aside
//     c goes, and it was b's last child:  BecomeLeaf(b)    list: [b leaf] [d leaf]
//     a's last child goes from another list                list: [a leaf] [b leaf] [d leaf]
//
// A block that comes back is older than all blocks that were not set aside. So it returns to the front, after older
// blocks that came back earlier and are still there. Blocks that came back are kept separately, in a trie over the push
// numbers whose paths have at most 40 steps. Blocks that are inserted out of order are in the trie too.
//
// Not thread-safe. Every operation is O(1) at any size, FrontLeaf amortised over the pushes. No operation allocates.
// 16 bytes per block and list.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/big_vector.h"
#include "common/base/ids.h"
#include "common/base/prefetch.h"
#include "worker/cache/structures/number_trie.h"

namespace roost::worker {

// The place of a ready block in the block tree.
enum class TreePlace : std::uint8_t { kLeaf, kInner };

class LeafLists {
 public:
  static constexpr std::uint32_t kMaxLists = 1U << 15U;

  LeafLists(std::uint32_t block_count, std::uint32_t list_count);

  // `block` is in no list.
  void PushBack(std::uint32_t list, BlockId block, TreePlace place);

  // `block`, which is in no list, takes its place by a number that the caller chooses: below 2^40 and unique in the
  // list. The blocks of a list all come by Insert or all by PushBack.
  void Insert(std::uint32_t list, BlockId block, TreePlace place, std::uint64_t number);

  // The last child of `block`, which is in a list or set aside, has gone.
  void BecomeLeaf(BlockId block);

  // Takes a block out of the list that it is in or was set aside from.
  void Erase(BlockId block);

  [[nodiscard]] std::optional<BlockId> FrontLeaf(std::uint32_t list);

  // The last block of a list, a leaf or not.
  [[nodiscard]] std::optional<BlockId> Back(std::uint32_t list) const;
  // Is a block that is contained a leaf?
  [[nodiscard]] bool IsLeaf(BlockId block) const { return entries_[block.value()].state == State::kLeaf; }
  // The block after one that is contained; nothing for the last of a list and for one that is set aside.
  [[nodiscard]] std::optional<BlockId> After(BlockId block) const;

  void Prefetch(BlockId block) const { roost::Prefetch(&entries_[block.value()]); }
  [[nodiscard]] bool Contains(BlockId block) const { return entries_[block.value()].state != State::kOutside; }
  // The list of a block that is contained.
  [[nodiscard]] std::uint32_t ListOf(BlockId block) const { return entries_[block.value()].list; }

 private:
  // kLeaf and kInner are in a ring, kReturned in the trie, the others in neither.
  enum class State : std::uint8_t { kOutside, kLeaf, kInner, kSetAside, kReturned };
  // 16 bytes: a cache line holds four. The numbers last for 10^12 pushes, years of heavy use; then they start again at
  // zero, and for a while blocks may go in a different order. (A block that is set aside for exactly that many pushes
  // would meet its own number; this case is ignored.)
  struct Entry {
    std::uint32_t previous = 0;  // in the ring; in the trie, the links
    std::uint32_t next = 0;
    std::uint32_t number_low = 0;
    std::uint8_t number_high = 0;
    State state : 3;
    std::uint32_t list : 15;
    std::uint32_t trie_bit : 6;

    Entry() : state(State::kOutside), list(0), trie_bit(0) {}

    // The number of the push. Numbers ascend along the ring of a list.
    [[nodiscard]] std::uint64_t number() const { return std::uint64_t{number_high} << 32U | number_low; }
    void SetNumber(std::uint64_t number) {
      number_low = static_cast<std::uint32_t>(number);
      number_high = static_cast<std::uint8_t>(number >> 32U);
    }
  };

  // The entries in the form that NumberTrie needs.
  class TrieNodes {
   public:
    explicit TrieNodes(BigVector<Entry>& entries) : entries_(entries) {}
    [[nodiscard]] std::uint64_t NumberOf(std::uint32_t id) const { return entries_[id].number(); }
    [[nodiscard]] std::uint32_t& LinkOf(std::uint32_t id, std::uint32_t side) const {
      return side == 0 ? entries_[id].previous : entries_[id].next;
    }
    [[nodiscard]] std::uint32_t BitOf(std::uint32_t id) const { return entries_[id].trie_bit; }
    void SetBit(std::uint32_t id, std::uint32_t bit) const { entries_[id].trie_bit = bit & 63U; }

   private:
    BigVector<Entry>& entries_;
  };
  using Returned = NumberTrie<TrieNodes>;

  // A list is a ring through its blocks and an entry of its own, which lies after the blocks' entries.
  [[nodiscard]] std::uint32_t RingOf(std::uint32_t list) const { return block_count_ + list; }
  [[nodiscard]] static bool IsInRing(const Entry& entry) {
    return entry.state == State::kLeaf || entry.state == State::kInner;
  }
  Entry& Enter(std::uint32_t list, BlockId block, TreePlace place);
  void Link(std::uint32_t after, std::uint32_t id);
  void Unlink(std::uint32_t id);
  void Return(std::uint32_t id);
  [[nodiscard]] std::optional<std::uint32_t> FrontOfRing(std::uint32_t list);
  [[nodiscard]] std::optional<std::uint32_t> FirstReturned(std::uint32_t list);

  std::uint32_t block_count_;
  BigVector<Entry> entries_;
  std::vector<std::uint32_t> returned_to_;  // by list: the root of its trie
  std::uint64_t last_number_ = 0;           // of 40 bits
};

}  // namespace roost::worker
