#include "worker/link/peer_prompt_board.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace roost::worker {

OwnedPrompt PromptOf(const wire::Generate& generate, std::uint32_t link, std::uint64_t id, Instant now) {
  const auto token_count = static_cast<std::uint32_t>(generate.prompt.size());
  OwnedPrompt owned;
  owned.link = link;
  owned.request = generate.request_id;
  owned.prompt.id = id;
  owned.prompt.uncached_tokens = token_count - std::min(token_count, generate.expected_cached_tokens);
  owned.prompt.submitted = now;
  if (generate.cache_mode == wire::CacheMode::kOff || generate.block_hashes.empty()) return owned;
  owned.hashes = std::make_shared<const std::vector<BlockHash>>(generate.block_hashes);
  owned.prompt.hashes = *owned.hashes;
  return owned;
}

void PeerPromptBoard::Arrive(OwnedPrompt prompt) {
  ROOST_CHECK(prompt.prompt.id != 0);
  const std::uint64_t id = prompt.prompt.id;
  arrived_.insert_or_assign(id, std::move(prompt));
}

void PeerPromptBoard::Assign(std::vector<OwnedPrompt> queue, std::uint64_t last_taken_id) {
  queue_ = std::move(queue);
  arrived_.erase(arrived_.begin(), arrived_.upper_bound(last_taken_id));
}

void PeerPromptBoard::TellTo(std::uint32_t link, PeerPromptSender& teller, Instant now, wire::Load& load) const {
  std::vector<QueuedPrompt> others;
  for (const OwnedPrompt& each : queue_) {
    if (each.link == link) {
      load.own_prompts.push_back({each.request, each.prompt.uncached_tokens});
    } else {
      others.push_back(each.prompt);
    }
  }
  for (const auto& [id, each] : arrived_) {
    if (each.link == link) continue;
    others.push_back(each.prompt);
    load.queued_prefill_tokens += each.prompt.uncached_tokens;
    ++load.waiting_requests;
  }
  load.other_prompts = teller.Tell(others, now);
}

}  // namespace roost::worker
