// The table of pins, by hash and by end.
#include <algorithm>

#include "worker/cache/claims.h"

namespace roost::worker {

void PinTable::Add(BlockHash hash, std::optional<Instant> end) {
  Remove(hash);
  pins_.emplace(hash, end ? std::optional(ends_.emplace(*end, hash)) : std::nullopt);
}

void PinTable::Remove(BlockHash hash) {
  const auto pin = pins_.find(hash);
  if (pin == pins_.end()) return;
  if (pin->second) ends_.erase(*pin->second);
  pins_.erase(pin);
}

void PinTable::TakeExpired(Instant now, std::vector<BlockHash>& expired) {
  const auto first = static_cast<std::ptrdiff_t>(expired.size());
  while (!ends_.empty() && ends_.begin()->first <= now) {
    const BlockHash hash = ends_.begin()->second;
    expired.push_back(hash);
    Remove(hash);
  }
  // Pins with equal ends are in the order in which they were added.
  std::reverse(expired.begin() + first, expired.end());
}

void PinTable::TakeAll(std::vector<BlockHash>& hashes) {
  for (const auto& [hash, end] : pins_) hashes.push_back(hash);
  pins_.clear();
  ends_.clear();
}

}  // namespace roost::worker
