// The waiting sequences, in the order in which they are taken:
//
//   1  preempted sequences, the last preempted one first: it was admitted before the others
//   2  then by priority, the highest first; a sequence that has waited for kPriorityPatience has the highest that any
//      has had since the queue was last empty. So where all are equal, it stays where it is
//   3  among equals by the policy:
//        kFcfs              the one that came first
//        kLongestPrefix     the one with the most cached tokens
//        kShortestUncached  the one with the fewest tokens to compute
//      With the last two policies waiting counts: one second is worth kAgeingTokens tokens, so no sequence waits
//      forever. All sequences age at the same pace, so the order of two sequences never changes.
//
// So no sequence starves. With kFcfs, a sequence that comes more than kPriorityPatience later does not go first,
// whatever the priorities. With the other policies, the same holds for one that comes later than that by a further
// (tokens of the sequence) / kAgeingTokens seconds.
//
// Not thread-safe. Every operation is O(log waiting); AdvanceTo is O(log waiting) once for each sequence, when its
// patience ends, and Push once more for each of these when a higher priority than any comes.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "worker/sched/sequence.h"

namespace roost::worker {

// The order in which waiting requests of equal priority are taken.
enum class SchedulePolicy : std::uint8_t {
  kFcfs,              // first come, first served
  kLongestPrefix,     // the most cached tokens first
  kShortestUncached,  // the fewest tokens to compute first
};

// Policies by their names in configurations.
inline constexpr std::array kSchedulePolicies{
    std::pair<std::string_view, SchedulePolicy>{"fcfs", SchedulePolicy::kFcfs},
    std::pair<std::string_view, SchedulePolicy>{"longest-prefix", SchedulePolicy::kLongestPrefix},
    std::pair<std::string_view, SchedulePolicy>{"shortest-uncached", SchedulePolicy::kShortestUncached},
};
// The defaults of workers; see SchedulerOptions::first_token_target and short_step_tokens.
inline constexpr std::string_view kDefaultSchedulePolicy = "shortest-uncached";
inline constexpr std::uint64_t kDefaultFirstTokenTargetMs = 110'000;
inline constexpr std::uint32_t kDefaultShortStepTokens = 256;
[[nodiscard]] Result<SchedulePolicy> ParseSchedulePolicy(std::string_view name);

inline constexpr std::int64_t kAgeingTokens = 100;  // per second
// A higher priority goes before an earlier request with a lower one for at most this time.
inline constexpr Duration kPriorityPatience = std::chrono::seconds(60);

// The worker's order as told to routers: see wire::Hello.
[[nodiscard]] constexpr std::uint32_t AgeingTokens(SchedulePolicy policy) {
  return policy == SchedulePolicy::kShortestUncached ? std::uint32_t{kAgeingTokens} : 0;
}

class WaitingQueue {
 public:
  explicit WaitingQueue(SchedulePolicy policy) : policy_(policy) {}

  // Sets the time, which never goes back.
  void AdvanceTo(Instant now);

  // Gives a running or waiting sequence the highest priority of the others if it has waited for kPriorityPatience.
  void LosePatience(Sequence& sequence) const;

  // `sequence` waits from now on; what is cached for it is not known yet.
  void Push(Sequence& sequence, WaitingRank::Class standing);
  // `sequence` does not wait any more.
  void Erase(Sequence& sequence);

  // `token_count` of the sequence's tokens will have to be computed. May change its place.
  void ExpectUncached(Sequence& sequence, std::uint32_t token_count);

  // The rank of a running or waiting sequence, if it waited with this many tokens to compute.
  [[nodiscard]] WaitingRank RankOf(const Sequence& sequence, std::uint32_t uncached_count) const;

  // In order. Valid until the queue changes.
  [[nodiscard]] Sequence* First() const { return sequences_.empty() ? nullptr : sequences_.begin()->second; }
  // The sequence after a rank; the rank need not be in the queue any more.
  [[nodiscard]] Sequence* After(const WaitingRank& rank) const;

  // The sequence that came first among those with the highest priority, under any policy; preempted ones count like
  // others.
  [[nodiscard]] Sequence* Oldest() const { return by_age_.empty() ? nullptr : by_age_.begin()->second; }
  // The next sequence in that order.
  [[nodiscard]] Sequence* YoungerThan(const Sequence& sequence) const;

  // Sequences without output that wait beyond their deadline.
  [[nodiscard]] std::vector<SequenceId> Expired(Instant now) const;

  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(sequences_.size()); }
  // The sum of the tokens that the sequences expect to compute.
  [[nodiscard]] std::uint64_t uncached_count() const { return uncached_count_; }

 private:
  [[nodiscard]] std::int64_t KeyOf(const Sequence& sequence, std::uint32_t uncached_count) const;
  // The waiting sequences that arrived after `from` and have waited for kPriorityPatience lose their patience.
  void RaiseImpatient(Instant from);

  const SchedulePolicy policy_;
  std::map<WaitingRank, Sequence*> sequences_;  // ranks are unique: at least the order differs
  std::map<SequenceAge, Sequence*> by_age_;
  std::set<std::pair<Instant, SequenceId>> deadlines_;  // for sequences without output
  std::map<std::pair<Instant, SequenceId>, Sequence*> by_arrival_;
  std::uint32_t highest_ = 0;  // of the sequences that have come since the queue was last empty
  Instant now_;
  std::uint64_t uncached_count_ = 0;
  std::int64_t preempted_order_ = 0;
};

}  // namespace roost::worker
