#include "router/route/prompt_queue.h"

#include <algorithm>

#include "common/base/check.h"

namespace roost::router {

void PromptQueue::Add(std::uint64_t number, std::uint32_t uncached_tokens, Instant sent_at, RequestId request) {
  ROOST_CHECK(size() == 0 || prompts_.back().number < number, "number {} is not new", number);
  prompts_.push_back(
      {number, static_cast<double>(uncached_tokens), sent_at, ToSeconds(sent_at.time_since_epoch()), request});
}

void PromptQueue::SetOthers(std::span<const Other> others) {
  prompts_.erase(prompts_.begin(), FirstOwn());
  prompts_.insert(prompts_.begin(), others.size(), Prompt());
  other_count_ = others.size();
  std::transform(others.begin(), others.end(), prompts_.begin(), [](const Other& other) {
    return Prompt{0, static_cast<double>(other.uncached_tokens), other.sent_at,
                  ToSeconds(other.sent_at.time_since_epoch())};
  });
}

void PromptQueue::SetOwn(std::vector<Own> reported) {
  if (reported.empty()) return;
  std::sort(reported.begin(), reported.end(), [](const Own& a, const Own& b) {
    return a.request != b.request ? a.request < b.request : a.uncached_tokens > b.uncached_tokens;
  });
  for (auto prompt = FirstOwn(); prompt != prompts_.end(); ++prompt) {
    const auto found = std::lower_bound(reported.begin(), reported.end(), prompt->request,
                                        [](const Own& own, RequestId wanted) { return own.request < wanted; });
    if (found != reported.end() && found->request == prompt->request) prompt->tokens_left = found->uncached_tokens;
  }
}

void PromptQueue::Remove(std::uint64_t number) {
  const auto found =
      std::lower_bound(FirstOwn(), prompts_.end(), number,
                       [](const Prompt& prompt, std::uint64_t wanted) { return prompt.number < wanted; });
  if (found != prompts_.end() && found->number == number) prompts_.erase(found);
}

void PromptQueue::OnComputed(std::uint32_t token_count, Instant sent_until, std::uint32_t ageing) {
  double to_take = token_count;
  while (to_take > 0) {
    Prompt* first = nullptr;
    for (Prompt& prompt : prompts_) {
      if (prompt.tokens_left <= 0 || prompt.sent_at > sent_until) continue;
      if (first == nullptr || prompt.Rank(ageing) < first->Rank(ageing)) first = &prompt;
    }
    if (first == nullptr) return;
    const double taken = std::min(to_take, first->tokens_left);
    first->tokens_left -= taken;
    to_take -= taken;
  }
}

PromptQueue::Place PromptQueue::PlaceOf(double uncached_tokens, Instant now, std::uint32_t ageing,
                                        double seconds_per_token) const {
  const double rank = uncached_tokens + ageing * ToSeconds(now.time_since_epoch());
  Place place;
  for (const Prompt& prompt : prompts_) {
    place.all_tokens += prompt.tokens_left;
    if (prompt.Rank(ageing) <= rank) {
      place.before_tokens += prompt.tokens_left;
      continue;
    }
    const double seconds = ToSeconds(now - prompt.sent_at) + prompt.tokens_left * seconds_per_token;
    place.overtaken += 1 + std::min(kMaxImpatience, seconds / kPatienceSeconds);
  }
  return place;
}

}  // namespace roost::router
