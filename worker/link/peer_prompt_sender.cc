#include "worker/link/peer_prompt_sender.h"

#include <algorithm>
#include <chrono>
#include <limits>

namespace roost::worker {

namespace {

std::uint32_t MillisecondsBetween(Instant from, Instant to) {
  constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max();
  const std::int64_t count = std::chrono::duration_cast<std::chrono::milliseconds>(to - from).count();
  return static_cast<std::uint32_t>(std::clamp(count, std::int64_t{0}, kMost));
}

}  // namespace

std::vector<wire::OtherPrompt> PeerPromptSender::Tell(std::span<const QueuedPrompt> prompts, Instant now) {
  prompts = prompts.first(std::min(prompts.size(), wire::kMaxOtherPrompts));
  ++list_;
  KeepThoseOf(prompts);
  std::vector<wire::OtherPrompt> list;
  list.reserve(prompts.size());
  for (const QueuedPrompt& prompt : prompts) {
    list.push_back({prompt.uncached_tokens, MillisecondsBetween(prompt.submitted, now), prompt.id});
    if (TakeHashes(prompt)) list.back().hashes.assign(prompt.hashes.begin(), prompt.hashes.end());
  }
  return list;
}

void PeerPromptSender::KeepThoseOf(std::span<const QueuedPrompt> prompts) {
  for (const QueuedPrompt& prompt : prompts) {
    const auto found = told_.find(prompt.id);
    if (found != told_.end()) found->second.list = list_;
  }
  std::erase_if(told_, [&](const auto& entry) {
    const bool is_gone = entry.second.list != list_;
    if (is_gone) hash_count_ -= entry.second.hash_count;
    return is_gone;
  });
}

// True if the prompt's hashes are to be sent now.
bool PeerPromptSender::TakeHashes(const QueuedPrompt& prompt) {
  if (prompt.hashes.empty() || prompt.hashes.size() > wire::kMaxOtherHashes - hash_count_) return false;
  const bool is_new = told_.try_emplace(prompt.id, Told{prompt.hashes.size(), list_}).second;
  if (is_new) hash_count_ += prompt.hashes.size();
  return is_new;
}

}  // namespace roost::worker
