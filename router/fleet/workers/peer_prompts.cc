#include "router/fleet/workers/peer_prompts.h"

#include <utility>

#include "common/base/clock.h"

namespace roost::router {

void PeerPrompts::Follow(std::vector<wire::OtherPrompt> prompts) {
  ++list_;
  KeepThoseOf(prompts);
  for (wire::OtherPrompt& prompt : prompts) {
    const bool fits = prompt.hashes.size() <= wire::kMaxOtherHashes - hash_count_;
    if (prompt.id == 0 || prompt.hashes.empty() || !fits) continue;
    const auto [entry, is_new] = told_.try_emplace(prompt.id);
    if (!is_new) continue;
    Told& told = entry->second;
    told.hashes = std::move(prompt.hashes);
    told.list = list_;
    hash_count_ += told.hashes.size();
    // No time limit: the worker's lists end it.
    told.pending = only_whole_ ? pending_.AddWhole(worker_, told.hashes, Instant::max())
                               : pending_.Add(worker_, told.hashes, Instant::max());
  }
}

void PeerPrompts::Forget(const std::function<bool(std::span<const BlockHash>)>& is_meant) {
  for (auto& [id, told] : told_) {
    if (is_meant(told.hashes)) told.pending = {};
  }
}

void PeerPrompts::KeepThoseOf(const std::vector<wire::OtherPrompt>& prompts) {
  for (const wire::OtherPrompt& prompt : prompts) {
    const auto found = told_.find(prompt.id);
    if (found != told_.end()) found->second.list = list_;
  }
  std::erase_if(told_, [&](const auto& entry) {
    const bool is_gone = entry.second.list != list_;
    if (is_gone) hash_count_ -= entry.second.hashes.size();
    return is_gone;
  });
}

}  // namespace roost::router
