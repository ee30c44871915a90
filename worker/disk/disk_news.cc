#include "worker/disk/disk_news.h"

#include <algorithm>

namespace roost::worker {

// A run goes on while each block continues the one before it.
void UntoldChanges::Tell(DiskNews& news) {
  using Kind = wire::CacheEvent::Kind;
  const Change* last = nullptr;
  const std::size_t count = std::min(changes_.size(), kToldAtOnce);
  for (std::size_t i = 0; i < count; ++i) {
    const Change& change = changes_[i];
    const Kind kind = change.is_stored ? Kind::kDiskStored : Kind::kDiskRemoved;
    const bool is_same = last != nullptr && last->is_stored == change.is_stored;
    const bool joins = is_same && (!change.is_stored || (change.block.position == last->block.position + 1 &&
                                                         change.block.before == last->block.hash));
    if (!joins) {
      news.events.emplace_back().kind = kind;
      news.events.back().disk_stored.first_position = change.is_stored ? change.block.position : 0;
    }
    wire::CacheEvent& event = news.events.back();
    (change.is_stored ? event.disk_stored.hashes : event.disk_removed).push_back(change.block.hash);
    told_digest_ = told_digest_ ^ change.block.hash;
    told_count_ += change.is_stored ? 1 : -1U;
    last = &change;
  }
  changes_.erase(changes_.begin(), changes_.begin() + static_cast<std::ptrdiff_t>(count));
  news.block_count = told_count_;
  news.digest = told_digest_;
}

void UntoldChanges::TellAll(const DiskIndex& index) {
  changes_.clear();
  told_count_ = index.size();
  told_digest_ = index.digest();
}

}  // namespace roost::worker
