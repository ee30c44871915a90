#include "router/route/log/decision_log.h"

#include <algorithm>
#include <utility>

namespace roost::router {

std::uint64_t DecisionLog::Add(DecisionRecord record) {
  if (ring_.size() < kCapacity) {
    ring_.push_back(std::move(record));
  } else {
    ring_[next_ % kCapacity] = std::move(record);
  }
  return next_++;
}

void DecisionLog::SetOutcome(std::uint64_t number, const DecisionRecord::Outcome& outcome) {
  if (number >= first() && number < next_) ring_[number % kCapacity].outcome = outcome;
}

void DecisionLog::SetAnswer(std::uint64_t number, const DecisionRecord::Outcome::Answer& answer) {
  if (number < first() || number >= next_) return;
  std::optional<DecisionRecord::Outcome>& outcome = ring_[number % kCapacity].outcome;
  if (outcome.has_value()) outcome->answer = answer;
}

void DecisionLog::SetPulled(std::uint64_t number, const DecisionRecord::Pulled& pulled) {
  if (number >= first() && number < next_) ring_[number % kCapacity].pulled = pulled;
}

std::vector<DecisionRecord> DecisionLog::Latest(std::size_t limit) const {
  std::vector<DecisionRecord> records;
  const std::size_t count = std::min(limit, ring_.size());
  records.reserve(count);
  for (std::uint64_t i = 1; i <= count; ++i) records.push_back(At(next_ - i));
  return records;
}

std::vector<DecisionRecord> DecisionLog::Find(std::string_view id) const {
  std::vector<DecisionRecord> records;
  for (std::uint64_t number = first(); number < next_; ++number) {
    const DecisionRecord& record = At(number);
    if (record.answer_id == id || record.request_id == id) records.push_back(record);
  }
  return records;
}

}  // namespace roost::router
