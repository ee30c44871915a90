#include "worker/cache/structures/sibling_tree.h"

#include "common/base/check.h"
#include "common/base/rng.h"
#include "common/prefix/block_hash.h"

namespace roost::worker {

// A total order that can not be predicted outside of the process.
bool SiblingTree::IsAbove(std::uint32_t block, std::uint32_t other) {
  static const std::uint64_t seed = BlockHashHasher::ProcessSeed();
  return Mix64(block ^ seed) > Mix64(other ^ seed);
}

void SiblingTree::Insert(std::uint32_t& root, std::uint32_t block, const Order& order) {
  std::uint32_t* place = &root;
  while (*place != kNone && IsAbove(*place, block)) {
    place = order.IsBefore(*place) ? &links_[*place].left : &links_[*place].right;
  }
  Links& links = links_[block];
  Split(*place, order, links.left, links.right);
  *place = block;
}

void SiblingTree::Erase(std::uint32_t& root, std::uint32_t block, const Order& order) {
  std::uint32_t* place = &root;
  while (*place != block) {
    ROOST_CHECK(*place != kNone, "block {} is not among its siblings", block);
    place = order.IsBefore(*place) ? &links_[*place].left : &links_[*place].right;
  }
  *place = Join(links_[block].left, links_[block].right);
  links_[block] = Links{};
}

SiblingTree::Pair SiblingTree::Neighbours(std::uint32_t root, const Order& order) const {
  Pair pair;
  for (std::uint32_t block = root; block != kNone;) {
    if (order.IsBefore(block)) {
      pair.after = block;
      block = links_[block].left;
    } else {
      pair.before = block;
      block = links_[block].right;
    }
  }
  return pair;
}

void SiblingTree::Append(std::uint32_t root, std::vector<std::uint32_t>& blocks) const {
  std::vector<std::uint32_t> path;
  for (std::uint32_t block = root; block != kNone || !path.empty();) {
    for (; block != kNone; block = links_[block].left) path.push_back(block);
    block = path.back();
    path.pop_back();
    blocks.push_back(block);
    block = links_[block].right;
  }
}

// Splits the tree `root` at the place `order`, along one path: subtrees to the left go to `before`, those to the right
// to `after`.
void SiblingTree::Split(std::uint32_t root, const Order& order, std::uint32_t& before, std::uint32_t& after) {
  std::uint32_t* before_end = &before;
  std::uint32_t* after_end = &after;
  while (root != kNone) {
    if (order.IsBefore(root)) {
      *after_end = root;
      after_end = &links_[root].left;
      root = *after_end;
    } else {
      *before_end = root;
      before_end = &links_[root].right;
      root = *before_end;
    }
  }
  *before_end = kNone;
  *after_end = kNone;
}

// Joins two trees; all blocks of `before` come before those of `after`.
std::uint32_t SiblingTree::Join(std::uint32_t before, std::uint32_t after) {
  std::uint32_t root = kNone;
  std::uint32_t* place = &root;
  while (before != kNone && after != kNone) {
    if (IsAbove(before, after)) {
      *place = before;
      place = &links_[before].right;
      before = *place;
    } else {
      *place = after;
      place = &links_[after].left;
      after = *place;
    }
  }
  *place = before != kNone ? before : after;
  return root;
}

}  // namespace roost::worker
