#include "worker/cache/eviction.h"

#include "common/base/check.h"

namespace roost::worker {

LruEviction::LruEviction(std::uint32_t block_count) : links_(std::size_t{block_count} + 1) {
  for (std::uint32_t id = 0; id < links_.size(); ++id) links_[id] = {id, id};
}

void LruEviction::Insert(BlockId block) {
  const std::uint32_t id = block.value();
  ROOST_CHECK(id < ends() && links_[id].next == id, "block {} is in the list", id);
  const std::uint32_t newest = links_[ends()].previous;
  links_[id] = {newest, ends()};
  links_[newest].next = id;
  links_[ends()].previous = id;
}

void LruEviction::Erase(BlockId block) {
  const std::uint32_t id = block.value();
  ROOST_CHECK(id < ends() && links_[id].next != id, "block {} is not in the list", id);
  const Links links = links_[id];
  links_[links.previous].next = links.next;
  links_[links.next].previous = links.previous;
  links_[id] = {id, id};
}

std::optional<BlockId> LruEviction::Victim() const {
  const std::uint32_t oldest = links_[ends()].next;
  if (oldest == ends()) return std::nullopt;
  return BlockId(oldest);
}

}  // namespace roost::worker
