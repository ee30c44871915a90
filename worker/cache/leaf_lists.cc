#include "worker/cache/leaf_lists.h"

#include <limits>

#include "common/base/check.h"

namespace roost::worker {

// Numbers differ: each push has its own.
class LeafLists::PushOrder final : public SiblingTree::Order {
 public:
  PushOrder(const LeafLists& lists, std::uint64_t number) : lists_(lists), number_(number) {}
  [[nodiscard]] bool IsBefore(std::uint32_t block) const override { return number_ < lists_.entries_[block].number(); }

 private:
  const LeafLists& lists_;
  const std::uint64_t number_;
};

LeafLists::LeafLists(std::uint32_t block_count, std::uint32_t list_count)
    : block_count_(block_count),
      entries_(std::size_t{block_count} + list_count),
      returned_(block_count),
      returned_to_(list_count, SiblingTree::kNone) {
  ROOST_CHECK(list_count <= std::numeric_limits<std::uint16_t>::max(), "{} lists", list_count);
  for (std::uint32_t id = block_count; id < entries_.size(); ++id) entries_[id].previous = entries_[id].next = id;
}

void LeafLists::PushBack(std::uint32_t list, BlockId block, TreePlace place) {
  Enter(list, block, place).SetNumber(++last_number_);
  Link(entries_[RingOf(list)].previous, block.value());
}

LeafLists::Entry& LeafLists::Enter(std::uint32_t list, BlockId block, TreePlace place) {
  Entry& entry = entries_[block.value()];
  ROOST_CHECK(entry.state == State::kOutside, "block {} is in a list", block.value());
  entry.list = static_cast<std::uint16_t>(list);
  entry.state = place == TreePlace::kLeaf ? State::kLeaf : State::kInner;
  return entry;
}

void LeafLists::BecomeLeaf(BlockId block) {
  Entry& entry = entries_[block.value()];
  ROOST_CHECK(entry.state == State::kInner || entry.state == State::kSetAside, "block {} is no inner block",
              block.value());
  if (entry.state == State::kSetAside) {
    Return(block.value());
  } else {
    entry.state = State::kLeaf;
  }
}

void LeafLists::Return(std::uint32_t id) {
  Entry& entry = entries_[id];
  const std::uint32_t ring = RingOf(entry.list);
  const std::uint32_t front = entries_[ring].next;
  if (front == ring || entry.number() < entries_[front].number()) {
    entry.state = State::kLeaf;
    Link(ring, id);
  } else {
    entry.state = State::kReturned;
    returned_.Insert(returned_to_[entry.list], id, PushOrder(*this, entry.number()));
  }
}

void LeafLists::Erase(BlockId block) {
  Entry& entry = entries_[block.value()];
  ROOST_CHECK(entry.state != State::kOutside, "block {} is in no list", block.value());
  if (entry.state == State::kReturned) {
    returned_.Erase(returned_to_[entry.list], block.value(), PushOrder(*this, entry.number()));
  } else if (entry.state != State::kSetAside) {
    Unlink(block.value());
  }
  entry.state = State::kOutside;
}

std::optional<BlockId> LeafLists::FrontLeaf(std::uint32_t list) {
  const std::optional<std::uint32_t> front = FrontOfRing(list);
  const std::optional<std::uint32_t> returned = FirstReturned(list);
  if (returned && (!front || entries_[*returned].number() < entries_[*front].number())) return BlockId(*returned);
  if (!front) return std::nullopt;
  return BlockId(*front);
}

std::optional<std::uint32_t> LeafLists::FirstReturned(std::uint32_t list) const {
  const std::uint32_t root = returned_to_[list];
  if (root == SiblingTree::kNone) return std::nullopt;
  return returned_.Neighbours(root, PushOrder(*this, 0)).after;
}

std::optional<std::uint32_t> LeafLists::FrontOfRing(std::uint32_t list) {
  const std::uint32_t ring = RingOf(list);
  for (std::uint32_t id = entries_[ring].next; id != ring; id = entries_[ring].next) {
    if (entries_[id].state == State::kLeaf) return id;
    Unlink(id);
    entries_[id].state = State::kSetAside;
  }
  return std::nullopt;
}

std::optional<BlockId> LeafLists::After(BlockId block) const {
  const Entry& entry = entries_[block.value()];
  if (entry.state == State::kSetAside || entry.next >= block_count_) return std::nullopt;
  return BlockId(entry.next);
}

std::optional<BlockId> LeafLists::Back(std::uint32_t list) const {
  const std::uint32_t id = entries_[RingOf(list)].previous;
  if (id >= block_count_) return std::nullopt;
  return BlockId(id);
}

void LeafLists::Link(std::uint32_t after, std::uint32_t id) {
  const std::uint32_t before = entries_[after].next;
  entries_[id].previous = after;
  entries_[id].next = before;
  entries_[after].next = id;
  entries_[before].previous = id;
}

void LeafLists::Unlink(std::uint32_t id) {
  entries_[entries_[id].previous].next = entries_[id].next;
  entries_[entries_[id].next].previous = entries_[id].previous;
}

}  // namespace roost::worker
