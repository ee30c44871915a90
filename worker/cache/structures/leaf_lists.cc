#include "worker/cache/structures/leaf_lists.h"

#include "common/base/check.h"

namespace roost::worker {

LeafLists::LeafLists(std::uint32_t block_count, std::uint32_t list_count)
    : block_count_(block_count),
      entries_(std::size_t{block_count} + list_count),
      returned_to_(list_count, Returned::kEmpty) {
  ROOST_CHECK(list_count <= kMaxLists && block_count < 1U << 31U, "{} lists of {} blocks", list_count, block_count);
  for (std::uint32_t id = block_count; id < entries_.size(); ++id) entries_[id].previous = entries_[id].next = id;
}

void LeafLists::PushBack(std::uint32_t list, BlockId block, TreePlace place) {
  Enter(list, block, place).SetNumber(++last_number_);
  Link(entries_[RingOf(list)].previous, block.value());
}

// The block enters like one that was set aside and has become a leaf, or will.
void LeafLists::Insert(std::uint32_t list, BlockId block, TreePlace place, std::uint64_t number) {
  Entry& entry = Enter(list, block, place);
  entry.SetNumber(number);
  if (place == TreePlace::kLeaf) {
    Return(block.value());
  } else {
    entry.state = State::kSetAside;
  }
}

LeafLists::Entry& LeafLists::Enter(std::uint32_t list, BlockId block, TreePlace place) {
  Entry& entry = entries_[block.value()];
  ROOST_CHECK(entry.state == State::kOutside, "block {} is in a list", block.value());
  entry.list = list & (kMaxLists - 1);
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
    TrieNodes nodes(entries_);
    Returned(nodes).Insert(returned_to_[entry.list], id);
  }
}

void LeafLists::Erase(BlockId block) {
  Entry& entry = entries_[block.value()];
  ROOST_CHECK(entry.state != State::kOutside, "block {} is in no list", block.value());
  if (entry.state == State::kReturned) {
    TrieNodes nodes(entries_);
    Returned(nodes).Erase(returned_to_[entry.list], block.value());
  } else if (IsInRing(entry)) {
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

std::optional<std::uint32_t> LeafLists::FirstReturned(std::uint32_t list) {
  const std::uint32_t root = returned_to_[list];
  if (root == Returned::kEmpty) return std::nullopt;
  TrieNodes nodes(entries_);
  return Returned(nodes).First(root);
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
  if (!IsInRing(entry) || entry.next >= block_count_) return std::nullopt;
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
