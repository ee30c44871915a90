#include "router/policies/approximate_tree.h"

#include <algorithm>

namespace roost::router {

std::optional<ApproximateTree::Match> ApproximateTree::Find(std::span<const BlockHash> block_hashes) const {
  std::optional<Match> match;
  for (std::size_t i = 0; i < block_hashes.size(); ++i) {
    const auto found = holders_.find(block_hashes[i].low);
    if (found == holders_.end()) break;
    match = {found->second.back(), i + 1};
  }
  return match;
}

void ApproximateTree::Add(const WorkerView& worker, std::span<const BlockHash> block_hashes) {
  Share& share = shares_[worker.slot];
  if (share.epoch != worker.epoch) {
    while (!share.recency.empty()) ForgetOldest(worker.slot, share);
    share.epoch = worker.epoch;
  }
  // Back to front, so that the end of a chain is forgotten before its beginning.
  for (std::size_t i = block_hashes.size(); i-- > 0;) Touch(worker.slot, share, block_hashes[i].low);
  while (share.recency.size() > max_blocks_) ForgetOldest(worker.slot, share);
}

void ApproximateTree::Touch(WorkerSlot slot, Share& share, std::uint64_t key) {
  const auto known = share.place.find(key);
  if (known != share.place.end()) {
    share.recency.splice(share.recency.begin(), share.recency, known->second);
  } else {
    share.recency.push_front(key);
    share.place.emplace(key, share.recency.begin());
  }
  std::vector<WorkerSlot>& holders = holders_[key];
  std::erase(holders, slot);
  holders.push_back(slot);
}

void ApproximateTree::ForgetOldest(WorkerSlot slot, Share& share) {
  const std::uint64_t key = share.recency.back();
  share.recency.pop_back();
  share.place.erase(key);
  const auto found = holders_.find(key);
  std::erase(found->second, slot);
  if (found->second.empty()) holders_.erase(found);
}

std::size_t ApproximateTree::block_count(WorkerSlot slot) const {
  const auto found = shares_.find(slot);
  return found == shares_.end() ? 0 : found->second.recency.size();
}

}  // namespace roost::router
