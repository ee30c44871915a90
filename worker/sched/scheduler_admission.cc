// The part of the scheduler that deals with waiting sequences: what is cached for them, who computes it, who is next.
#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "worker/sched/scheduler.h"

namespace roost::worker {

void Scheduler::Admit(std::uint32_t budget) {
  const std::uint32_t max_running = std::min(options_.max_running, options_.max_batch_tokens);
  std::uint32_t passed_over = 0;
  Sequence* next = waiting_.First();
  while (next != nullptr && budget > 0 && passed_over < kMaxPassedOver) {
    Sequence& sequence = *next;
    if (running_.size() + coming_forks_ + sequence.fork_count >= max_running) return;
    const WaitingRank rank = sequence.rank;
    if (!IsAwaitingPrefix(sequence)) LookUp(sequence);
    // Who turns out to have more to compute than was expected may have moved back, and is met again there.
    if (sequence.awaited || rank < sequence.rank) {
      ++passed_over;
      next = waiting_.After(rank);
      continue;
    }
    if (!HasRoomFor(sequence) || !MayStartPrefill(sequence, budget)) return;
    Start(sequence);
    const std::uint32_t chunk = std::min(budget, sequence.remaining_count());
    ROOST_CHECK(SecureBlocks(sequence, chunk), "sequence {} was admitted without room", sequence.id.value());
    PlanSlice(sequence, chunk);
    budget -= chunk;
    next = waiting_.After(rank);
  }
}

// A prefill that does not end in this step is one more that is under way.
bool Scheduler::MayStartPrefill(const Sequence& sequence, std::uint32_t budget) const {
  if (options_.max_partial_prefills == 0) return true;
  const auto uncached = sequence.token_count() - static_cast<std::uint32_t>(matched_.size()) * block_tokens_;
  if (uncached <= budget) return true;
  const auto partial = std::count_if(slices_.begin(), slices_.end(), [](const ScheduledSlice& slice) {
    return !slice.is_decode && !slice.wants_logits;
  });
  return partial < std::int64_t{options_.max_partial_prefills};
}

// Sets `matched_`, and what the sequence awaits.
void Scheduler::LookUp(Sequence& sequence) {
  matched_.clear();
  if (sequence.uses_cache()) cache_.Match(sequence.chain(), MatchableBlocks(sequence), matched_);
  const auto matched_count = static_cast<std::uint32_t>(matched_.size());
  Expect(sequence, matched_count);
  AwaitIfBeingComputed(sequence, matched_count);
}

// As far as the pool allows: what is wanted is at most half of it.
void Scheduler::WantMatched(Sequence& sequence) {
  if (wanted_count_ + matched_.size() > cache_.pool().block_count() / 2) return;
  sequence.wanted = matched_;
  wanted_count_ += static_cast<std::uint32_t>(sequence.wanted.size());
  for (const BlockRef ref : sequence.wanted) cache_.Want(ref);
}

void Scheduler::UnwantAll(Sequence& sequence) {
  for (const BlockRef ref : sequence.wanted) cache_.Unwant(ref);
  wanted_count_ -= static_cast<std::uint32_t>(sequence.wanted.size());
  sequence.wanted.clear();
}

bool Scheduler::IsAwaitingPrefix(const Sequence& sequence) const {
  return sequence.awaited && step_ <= sequence.awaited->last_step && IsBeingComputed(*sequence.awaited);
}

bool Scheduler::IsBeingComputed(const Sequence::AwaitedPrefix& prefix) const {
  const auto found = sequences_.find(prefix.sequence);
  if (found == sequences_.end()) return false;
  const Sequence& other = *found->second;
  return other.state == Sequence::State::kRunning && other.can_commit &&
         other.committed_block_count < prefix.block_count;
}

// Does a running sequence compute the block after the match? Then it is awaited, with all that the two have in common
// behind it. The one awaited runs and awaits nobody, so nobody waits in a circle. Who has given up once does not wait
// again.
void Scheduler::AwaitIfBeingComputed(Sequence& sequence, std::uint32_t matched_count) {
  const auto before = std::exchange(sequence.awaited, std::nullopt);
  if (before && step_ > before->last_step && IsBeingComputed(*before)) {
    sequence.given_up_block_count = before->block_count;
  }
  const auto wanted =
      static_cast<std::uint32_t>(std::min<std::size_t>(MatchableBlocks(sequence), sequence.hashes.size()));
  if (!sequence.uses_cache() || sequence.given_up_block_count > 0 || matched_count >= wanted) return;
  for (const Sequence* other : running_) {
    const std::uint32_t computing = other->committed_block_count;
    const auto fills = static_cast<std::uint32_t>(
        std::min<std::size_t>({other->token_count() / block_tokens_, other->hashes.size(), wanted}));
    if (!other->can_commit || computing != matched_count || computing >= fills) continue;
    std::uint32_t common = matched_count;
    while (common < fills && other->hashes[common] == sequence.hashes[common]) ++common;
    if (common == matched_count) continue;
    sequence.awaited = {other->id, common, LastStepWorthWaiting(common - matched_count)};
    Expect(sequence, common);
    return;
  }
}

// To compute these blocks itself the sequence would need as many steps, at the latest step's budget.
std::uint64_t Scheduler::LastStepWorthWaiting(std::uint32_t block_count) const {
  const std::uint64_t tokens = std::uint64_t{block_count} * block_tokens_;
  return step_ + (tokens + prefill_budget_ - 1) / prefill_budget_;
}

// Room for all known tokens and the first one sampled by the sequence and each fork. `matched_` is its match; of these
// blocks the idle ones stop being evictable. Prompts admitted before need no more room: the budget reaches a new
// sequence only when they have been planned to their end. A sequence that runs alone always has room (see Submit).
bool Scheduler::HasRoomFor(const Sequence& sequence) const {
  if (running_.empty()) return true;
  const auto available_matched =
      std::count_if(matched_.begin(), matched_.end(), [this](BlockRef ref) { return cache_.IsAvailable(ref); });
  const std::size_t needed = BlocksFor(sequence.token_count() + 1) - matched_.size() + sequence.fork_count;
  return needed + static_cast<std::size_t>(available_matched) <= cache_.available_count();
}

// With its match, which is in `matched_`.
void Scheduler::Start(Sequence& sequence) {
  waiting_.Erase(sequence);
  sequence.state = Sequence::State::kRunning;
  running_.push_back(&sequence);
  coming_forks_ += sequence.fork_count;
  for (const BlockRef ref : matched_) TakeMatched(sequence, ref);
  UnwantAll(sequence);
  TakeTail(sequence);
}

void Scheduler::Expect(Sequence& sequence, std::uint32_t matched_count) {
  waiting_.ExpectUncached(sequence, sequence.token_count() - matched_count * block_tokens_);
}

}  // namespace roost::worker
