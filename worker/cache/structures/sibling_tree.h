// The children of every block, each set in the order of its blocks' tokens: a treap per parent (Seidel, Aragon:
// Randomized Search Trees, 1996), whose priorities are the mixed block numbers. The child that shares the longest
// prefix with some tokens is next to the place where those tokens would be. So the best child is found without looking
// at all of them, and a parent may have thousands of children.
//
// The tree holds only the links; its user knows the order (see Order).
//
// Not thread-safe. Insert, Erase and Neighbours are O(log children) expected. 8 bytes per block; nothing is allocated
// after construction.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/big_vector.h"

namespace roost::worker {

class SiblingTree {
 public:
  static constexpr std::uint32_t kNone = 0xFFFFFFFFU;

  // A place in the order, told by comparing it with blocks.
  class Order {
   public:
    virtual ~Order() = default;
    // Does the place come before `block`?
    [[nodiscard]] virtual bool IsBefore(std::uint32_t block) const = 0;
  };

  explicit SiblingTree(std::uint32_t block_count) : links_(block_count) {}

  // Puts `block`, which is in no tree, at its place `order` in the tree `root`. Equal blocks may be in any order.
  void Insert(std::uint32_t& root, std::uint32_t block, const Order& order);

  // Takes `block`, whose place is `order`, out of the tree `root`. Among equal blocks `order` must lead to it: it must
  // be before none of the blocks ahead of `block`, and after none of the blocks behind it.
  void Erase(std::uint32_t& root, std::uint32_t block, const Order& order);

  // The blocks right before and right after a place.
  struct Pair {
    std::uint32_t before = kNone;
    std::uint32_t after = kNone;
  };
  [[nodiscard]] Pair Neighbours(std::uint32_t root, const Order& order) const;

  // Appends all blocks of the tree, in order. O(children).
  void Append(std::uint32_t root, std::vector<std::uint32_t>& blocks) const;

 private:
  struct Links {
    std::uint32_t left = kNone;
    std::uint32_t right = kNone;
  };

  [[nodiscard]] static bool IsAbove(std::uint32_t block, std::uint32_t other);
  void Split(std::uint32_t root, const Order& order, std::uint32_t& before, std::uint32_t& after);
  [[nodiscard]] std::uint32_t Join(std::uint32_t before, std::uint32_t after);

  BigVector<Links> links_;
};

}  // namespace roost::worker
