#include "worker/sched/waiting_queue.h"

#include <algorithm>

#include "common/base/check.h"

namespace roost::worker {

Result<SchedulePolicy> ParseSchedulePolicy(std::string_view name) {
  for (const auto& [known, policy] : kSchedulePolicies) {
    if (known == name) return policy;
  }
  return InvalidArgument("schedule", "'{}' is not known", name);
}

void WaitingQueue::LosePatience(Sequence& sequence) const {
  if (now_ - sequence.arrival >= kPriorityPatience) sequence.priority = std::max(sequence.priority, highest_);
}

void WaitingQueue::AdvanceTo(Instant now) {
  const Instant raised_until = now_ - kPriorityPatience;
  now_ = now;
  RaiseImpatient(raised_until);
}

void WaitingQueue::RaiseImpatient(Instant from) {
  const Instant until = now_ - kPriorityPatience;
  for (auto next = by_arrival_.lower_bound({from, SequenceId()}); next != by_arrival_.end(); ++next) {
    if (next->first.first > until) return;
    Sequence& sequence = *next->second;
    if (sequence.priority >= highest_) continue;
    by_age_.erase(sequence.age());
    auto node = sequences_.extract(sequence.rank);
    LosePatience(sequence);
    if (sequence.rank.standing == WaitingRank::Class::kNew) {
      sequence.rank = RankOf(sequence, sequence.expected_uncached_count);
    }
    node.key() = sequence.rank;
    sequences_.insert(std::move(node));
    by_age_.emplace(sequence.age(), &sequence);
  }
}

void WaitingQueue::Push(Sequence& sequence, WaitingRank::Class standing) {
  if (sequences_.empty()) highest_ = 0;
  LosePatience(sequence);
  if (sequence.priority > highest_) {
    highest_ = sequence.priority;
    RaiseImpatient(Instant::min());
  }
  sequence.state = Sequence::State::kWaiting;
  sequence.expected_uncached_count = sequence.token_count();
  uncached_count_ += sequence.expected_uncached_count;
  sequence.rank = standing == WaitingRank::Class::kPreempted
                      ? WaitingRank{.standing = standing, .order = --preempted_order_}
                      : RankOf(sequence, sequence.expected_uncached_count);
  sequences_.emplace(sequence.rank, &sequence);
  by_age_.emplace(sequence.age(), &sequence);
  by_arrival_.emplace(std::pair(sequence.arrival, sequence.id), &sequence);
  const bool has_output = sequence.token_count() > sequence.prompt_token_count;
  if (sequence.deadline && !has_output) deadlines_.emplace(*sequence.deadline, sequence.id);
}

void WaitingQueue::Erase(Sequence& sequence) {
  ROOST_CHECK(sequences_.erase(sequence.rank) == 1, "sequence {} does not wait", sequence.id.value());
  by_age_.erase(sequence.age());
  by_arrival_.erase({sequence.arrival, sequence.id});
  uncached_count_ -= sequence.expected_uncached_count;
  if (sequence.deadline) deadlines_.erase({*sequence.deadline, sequence.id});
}

void WaitingQueue::ExpectUncached(Sequence& sequence, std::uint32_t token_count) {
  uncached_count_ += token_count;
  uncached_count_ -= sequence.expected_uncached_count;
  sequence.expected_uncached_count = token_count;
  if (sequence.rank.standing == WaitingRank::Class::kPreempted) return;
  const std::int64_t key = KeyOf(sequence, token_count);
  if (key == sequence.rank.key) return;
  auto node = sequences_.extract(sequence.rank);
  sequence.rank.key = key;
  node.key() = sequence.rank;
  sequences_.insert(std::move(node));
}

WaitingRank WaitingQueue::RankOf(const Sequence& sequence, std::uint32_t uncached_count) const {
  return {.standing = WaitingRank::Class::kNew,
          .lateness = -std::int64_t{sequence.priority},
          .key = KeyOf(sequence, uncached_count),
          .order = static_cast<std::int64_t>(sequence.id.value())};
}

Sequence* WaitingQueue::After(const WaitingRank& rank) const {
  const auto next = sequences_.upper_bound(rank);
  return next == sequences_.end() ? nullptr : next->second;
}

Sequence* WaitingQueue::YoungerThan(const Sequence& sequence) const {
  const auto next = by_age_.upper_bound(sequence.age());
  return next == by_age_.end() ? nullptr : next->second;
}

std::vector<SequenceId> WaitingQueue::Expired(Instant now) const {
  std::vector<SequenceId> expired;
  for (const auto& [deadline, id] : deadlines_) {
    if (deadline > now) break;
    expired.push_back(id);
  }
  return expired;
}

std::int64_t WaitingQueue::KeyOf(const Sequence& sequence, std::uint32_t uncached_count) const {
  const std::int64_t came =
      std::chrono::duration_cast<std::chrono::milliseconds>(sequence.arrival.time_since_epoch()).count() *
      kAgeingTokens / 1000;
  switch (policy_) {
    case SchedulePolicy::kFcfs: return 0;
    case SchedulePolicy::kLongestPrefix: return came - std::int64_t{sequence.token_count() - uncached_count};
    case SchedulePolicy::kShortestUncached: return came + uncached_count;
  }
  return 0;
}

}  // namespace roost::worker
