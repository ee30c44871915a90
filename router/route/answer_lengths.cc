#include "router/route/answer_lengths.h"

#include <algorithm>
#include <cmath>

namespace roost::router {

void AnswerLengths::FadingMean::Add(double value) {
  constexpr double kKept = 0.98;
  sum = kKept * sum + value;
  weight = kKept * weight + 1;
}

const AnswerLengths::Conversation* AnswerLengths::OfModel::Find(std::uint64_t hash) const {
  if (hash == 0 || conversations.empty()) return nullptr;
  const Conversation& there = conversations[hash % kConversations];
  return there.hash == hash ? &there : nullptr;
}

void AnswerLengths::Observe(std::string_view model, std::uint64_t session_hash, std::uint32_t tokens) {
  auto found = models_.find(model);
  if (found == models_.end()) found = models_.emplace(std::string(model), OfModel{}).first;
  OfModel& known = found->second;
  if (const Conversation* const before = known.Find(session_hash)) {
    known.error_of_conversation.Add(std::abs(before->last_tokens - tokens));
    known.error_of_mean.Add(std::abs(known.tokens.Or(kFirstGuess) - tokens));
  }
  known.tokens.Add(tokens);
  if (session_hash == 0) return;
  if (known.conversations.empty()) known.conversations.resize(kConversations);
  known.conversations[session_hash % kConversations] = {session_hash, static_cast<double>(tokens)};
}

double AnswerLengths::MeanOf(std::string_view model) const {
  const auto found = models_.find(model);
  return found == models_.end() ? kFirstGuess : found->second.tokens.Or(kFirstGuess);
}

double AnswerLengths::Expect(std::string_view model, std::uint64_t session_hash, std::uint32_t max_tokens) const {
  double expected = MeanOf(model);
  const auto found = models_.find(model);
  if (found != models_.end() && found->second.trusts_conversations()) {
    const Conversation* const conversation = found->second.Find(session_hash);
    if (conversation != nullptr) expected = conversation->last_tokens;
  }
  return std::min(expected, static_cast<double>(max_tokens));
}

}  // namespace roost::router
