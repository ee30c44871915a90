// A set of ids, ordered by a 40-bit number that each id has, in a binary trie that keeps only the bits in which the
// numbers differ (Morrison, PATRICIA, JACM 1968). No path is longer than the 40 bits of a number, so every operation is
// O(1) for any size of the set: at most 40 steps to find a place and 40 to repair it.
//
//     5 = 101, 4 = 100, 1 = 001          bit 2 ─ 0 ─▶ 1
//                                              └ 1 ─▶ bit 0 ─ 0 ─▶ 4
//                                                           └ 1 ─▶ 5
//
// n ids have n - 1 branches. Each branch is stored in the node of some id of the set, so the trie has no memory of its
// own. Nodes gives it 70 bits for each id, which only the trie uses while the id is in the set.
//
//   std::uint64_t NumberOf(id)                  below 2^40; differs from all others' in the set
//   std::uint32_t& LinkOf(id, side)             side 0 and 1
//   BitOf(id), SetBit(id, bit)                  below 64
//
// Ids are below 2^31. Not thread-safe; nothing allocates.
#pragma once

#include <bit>
#include <cstdint>

#include "common/base/check.h"

namespace roost::worker {

template <typename Nodes>
class NumberTrie {
 public:
  static constexpr std::uint32_t kNumberBits = 40;
  // The root of an empty set. If several sets share the nodes, each has a root.
  static constexpr std::uint32_t kEmpty = ~std::uint32_t{0};

  explicit NumberTrie(Nodes& nodes) : nodes_(nodes) {}

  void Insert(std::uint32_t& root, std::uint32_t id) {
    nodes_.SetBit(id, kNoBranch);
    if (root == kEmpty) {
      root = LeafLink(id);
      return;
    }
    const std::uint64_t number = nodes_.NumberOf(id);
    const std::uint64_t difference = number ^ nodes_.NumberOf(IdOf(NearestLeaf(root, number)));
    ROOST_CHECK(difference != 0 && difference >> kNumberBits == 0, "number {} of {} is taken", number, id);
    const auto bit = static_cast<std::uint32_t>(std::bit_width(difference)) - 1;
    std::uint32_t* link = &root;
    while (!IsLeaf(*link) && nodes_.BitOf(IdOf(*link)) > bit) link = &Next(*link, number);
    const std::uint32_t side = SideOf(number, bit);
    nodes_.SetBit(id, bit);
    nodes_.LinkOf(id, side) = LeafLink(id);
    nodes_.LinkOf(id, 1 - side) = *link;
    *link = BranchLink(id);
  }

  // `id` is in the set.
  void Erase(std::uint32_t& root, std::uint32_t id) {
    const std::uint64_t number = nodes_.NumberOf(id);
    std::uint32_t* to_parent = nullptr;
    std::uint32_t* link = &root;
    while (!IsLeaf(*link)) {
      to_parent = link;
      link = &Next(*link, number);
    }
    ROOST_CHECK(*link == LeafLink(id), "{} is not in the set", id);
    if (to_parent == nullptr) {
      root = kEmpty;
      return;
    }
    const std::uint32_t parent = IdOf(*to_parent);
    *to_parent = nodes_.LinkOf(parent, 1 - SideOf(number, nodes_.BitOf(parent)));
    if (parent == id) return;
    // The removed branch lay in the parent's node. If the id's own node holds a branch, it moves there.
    if (nodes_.BitOf(id) == kNoBranch) {
      nodes_.SetBit(parent, kNoBranch);
    } else {
      MoveBranch(root, id, parent);
    }
  }

  // The id with the least number. The set must not be empty.
  [[nodiscard]] std::uint32_t First(std::uint32_t root) const { return IdOf(NearestLeaf(root, 0)); }

 private:
  static constexpr std::uint32_t kNoBranch = 63;

  // A link is an id and a bit: the link means either the id itself or the branch in its node.
  static std::uint32_t LeafLink(std::uint32_t id) { return id << 1U | 1U; }
  static std::uint32_t BranchLink(std::uint32_t id) { return id << 1U; }
  static bool IsLeaf(std::uint32_t link) { return (link & 1U) != 0; }
  static std::uint32_t IdOf(std::uint32_t link) { return link >> 1U; }
  static std::uint32_t SideOf(std::uint64_t number, std::uint32_t bit) {
    return static_cast<std::uint32_t>(number >> bit) & 1U;
  }

  // The link below a branch on the way to a number.
  [[nodiscard]] std::uint32_t& Next(std::uint32_t branch, std::uint64_t number) const {
    const std::uint32_t id = IdOf(branch);
    return nodes_.LinkOf(id, SideOf(number, nodes_.BitOf(id)));
  }

  [[nodiscard]] std::uint32_t NearestLeaf(std::uint32_t link, std::uint64_t number) const {
    while (!IsLeaf(link)) link = Next(link, number);
    return link;
  }

  void MoveBranch(std::uint32_t& root, std::uint32_t from, std::uint32_t to) {
    // Any number below the branch leads to it.
    const std::uint64_t below = nodes_.NumberOf(IdOf(NearestLeaf(BranchLink(from), 0)));
    std::uint32_t* link = &root;
    while (*link != BranchLink(from)) link = &Next(*link, below);
    *link = BranchLink(to);
    nodes_.SetBit(to, nodes_.BitOf(from));
    for (const std::uint32_t side : {0U, 1U}) nodes_.LinkOf(to, side) = nodes_.LinkOf(from, side);
  }

  Nodes& nodes_;
};

}  // namespace roost::worker
