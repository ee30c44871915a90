#include "router/route/prompt_queue.h"

#include <algorithm>

#include "common/base/check.h"

namespace roost::router {

void PromptQueue::Add(std::uint64_t number, std::uint32_t uncached_tokens, Instant sent_at) {
  ROOST_CHECK(prompts_.empty() || prompts_.back().number < number, "{} is not new", number);
  prompts_.push_back({number, static_cast<double>(uncached_tokens), sent_at, ToSeconds(sent_at.time_since_epoch())});
}

void PromptQueue::AddOther(std::uint32_t uncached_tokens, Instant sent_at) {
  others_.push_back({0, static_cast<double>(uncached_tokens), sent_at, ToSeconds(sent_at.time_since_epoch())});
}

void PromptQueue::Remove(std::uint64_t number) {
  const auto found =
      std::lower_bound(prompts_.begin(), prompts_.end(), number,
                       [](const Prompt& prompt, std::uint64_t wanted) { return prompt.number < wanted; });
  if (found != prompts_.end() && found->number == number) prompts_.erase(found);
}

void PromptQueue::OnComputed(std::uint32_t token_count, Instant sent_until, std::uint32_t ageing) {
  double to_take = token_count;
  while (to_take > 0) {
    Prompt* first = nullptr;
    const auto look_at = [&](Prompt& prompt) {
      if (prompt.tokens_left <= 0 || prompt.sent_at > sent_until) return;
      if (first == nullptr || prompt.Rank(ageing) < first->Rank(ageing)) first = &prompt;
    };
    std::for_each(prompts_.begin(), prompts_.end(), look_at);
    std::for_each(others_.begin(), others_.end(), look_at);
    if (first == nullptr) return;
    const double taken = std::min(to_take, first->tokens_left);
    first->tokens_left -= taken;
    to_take -= taken;
  }
}

PromptQueue::Place PromptQueue::PlaceOf(double uncached_tokens, Instant now, std::uint32_t ageing,
                                        double seconds_per_token) const {
  const Newcomer newcomer{uncached_tokens + ageing * ToSeconds(now.time_since_epoch()), now, ageing, seconds_per_token};
  Place place;
  for (const Prompt& prompt : prompts_) AddTo(place, prompt, newcomer);
  for (const Prompt& prompt : others_) AddTo(place, prompt, newcomer);
  return place;
}

void PromptQueue::AddTo(Place& place, const Prompt& prompt, const Newcomer& newcomer) {
  place.all_tokens += prompt.tokens_left;
  if (prompt.Rank(newcomer.ageing) <= newcomer.rank) {
    place.before_tokens += prompt.tokens_left;
    return;
  }
  const double seconds = ToSeconds(newcomer.now - prompt.sent_at) + prompt.tokens_left * newcomer.seconds_per_token;
  place.overtaken += 1 + std::min(kMostImpatience, seconds / kPatienceSeconds);
}

}  // namespace roost::router
