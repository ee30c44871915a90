#include "router/fleet/workers/routing_history.h"

#include <vector>

namespace roost::router {

void RoutingHistory::Use(std::span<const BlockHash> chain, Instant now) {
  std::size_t known = 0;
  while (known < chain.size() && places_.contains(chain[known])) ++known;
  index_.Store(worker_, static_cast<std::uint32_t>(known), chain.subspan(known));
  for (std::size_t i = chain.size(); i-- > 0;) {
    if (i < known) {
      const Blocks::iterator place = places_.at(chain[i]);
      blocks_.splice(blocks_.begin(), blocks_, place);
      place->used_at = now;
    } else {
      blocks_.push_front({chain[i], now});
      places_.emplace(chain[i], blocks_.begin());
    }
  }
}

template <typename IsOld>
void RoutingHistory::DropWhile(IsOld is_old) {
  std::vector<BlockHash> gone;
  while (!blocks_.empty() && is_old(blocks_.back())) {
    gone.push_back(blocks_.back().hash);
    places_.erase(gone.back());
    blocks_.pop_back();
  }
  if (!gone.empty()) index_.Remove(worker_, gone);
}

void RoutingHistory::Trim(std::size_t block_count, Instant now) {
  DropWhile([&](const Block& oldest) { return blocks_.size() > block_count || now - oldest.used_at > kLife; });
}

std::optional<Instant> RoutingHistory::UsedAt(BlockHash block) const {
  const auto found = places_.find(block);
  return found == places_.end() ? std::nullopt : std::optional(found->second->used_at);
}

void RoutingHistory::ForgetUnusedSince(Instant at) {
  DropWhile([at](const Block& oldest) { return oldest.used_at <= at; });
}

}  // namespace roost::router
