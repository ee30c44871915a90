#include "worker/cache/hash_index.h"

#include <bit>

#include "common/base/check.h"

namespace roost::worker {

HashIndex::HashIndex(std::uint32_t capacity)
    : capacity_(capacity), mask_(std::bit_ceil(std::size_t{capacity} * 4 / 3 + 1) - 1), slots_(mask_ + 1) {}

std::size_t HashIndex::Probe(BlockHash hash) const {
  std::size_t place = Home(hash);
  while (slots_[place].block != kEmpty && slots_[place].hash != hash) place = (place + 1) & mask_;
  return place;
}

std::optional<BlockId> HashIndex::Find(BlockHash hash) const {
  const Slot& slot = slots_[Probe(hash)];
  if (slot.block == kEmpty) return std::nullopt;
  return BlockId(slot.block);
}

void HashIndex::Insert(BlockHash hash, BlockId block) {
  ROOST_CHECK(size_ < capacity_, "{} entries", size_);
  Slot& slot = slots_[Probe(hash)];
  ROOST_CHECK(slot.block == kEmpty, "hash {} is there already", hash.ToHex());
  slot = {hash, block.value()};
  ++size_;
}

void HashIndex::Erase(BlockHash hash) {
  std::size_t hole = Probe(hash);
  ROOST_CHECK(slots_[hole].block != kEmpty, "hash {} is not there", hash.ToHex());
  // An entry after the hole moves into it unless its home lies behind the hole: (hole, next] in ring order.
  for (std::size_t next = (hole + 1) & mask_; slots_[next].block != kEmpty; next = (next + 1) & mask_) {
    const std::size_t distance_from_home = (next - Home(slots_[next].hash)) & mask_;
    const std::size_t distance_from_hole = (next - hole) & mask_;
    if (distance_from_home < distance_from_hole) continue;
    slots_[hole] = slots_[next];
    hole = next;
  }
  slots_[hole] = Slot{};
  --size_;
}

}  // namespace roost::worker
