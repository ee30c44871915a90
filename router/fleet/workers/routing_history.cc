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

void RoutingHistory::Trim(std::size_t block_count, Instant now) {
  std::vector<BlockHash> gone;
  while (!blocks_.empty() && (blocks_.size() > block_count || now - blocks_.back().used_at > kLife)) {
    gone.push_back(blocks_.back().hash);
    places_.erase(gone.back());
    blocks_.pop_back();
  }
  if (!gone.empty()) index_.Remove(worker_, gone);
}

}  // namespace roost::router
