#include "worker/sched/scheduler.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/check.h"

namespace roost::worker {

Scheduler::Scheduler(PrefixCache& cache, SchedulerOptions options)
    : cache_(cache), options_(options), block_tokens_(cache.block_tokens()) {
  ROOST_CHECK(options.max_batch_tokens > 0 && options.max_running > 0 && options.max_waiting > 0);
  ROOST_CHECK(BlocksFor(options.max_context_tokens) <= cache.pool().block_count(),
              "{} tokens of context do not fit {} blocks", options.max_context_tokens, cache.pool().block_count());
}

Result<SequenceId> Scheduler::Submit(SequenceSpec spec) {
  if (spec.prompt.empty()) return InvalidArgument("prompt", "has no tokens");
  if (spec.prompt.size() >= options_.max_context_tokens) {
    return Error{ErrorCode::kContextTooLong,
                 fmt::format("has {} tokens; with at least one token of output, the context of {} is too short",
                             spec.prompt.size(), options_.max_context_tokens),
                 "prompt"};
  }
  if (waiting_.size() >= options_.max_waiting) {
    return Error{ErrorCode::kOverloaded, fmt::format("{} requests are waiting", waiting_.size()), ""};
  }
  auto sequence = std::make_unique<Sequence>();
  sequence->id = SequenceId(next_id_++);
  sequence->root = spec.root;
  sequence->tokens = std::move(spec.prompt);
  sequence->prompt_token_count = sequence->token_count();
  sequence->hashes = std::move(spec.block_hashes);
  if (sequence->hashes.size() != sequence->tokens.size() / block_tokens_) {
    sequence->hashes = HashBlocks(spec.root, sequence->tokens, block_tokens_);
  }
  sequence->deadline = spec.deadline;
  matched_.clear();
  cache_.Match(sequence->chain(), MatchableBlocks(*sequence), matched_);
  Enqueue(*sequence, QueueEnd::kBack);
  ExpectUncached(*sequence, static_cast<std::uint32_t>(matched_.size()));
  const SequenceId id = sequence->id;
  sequences_.emplace(id, std::move(sequence));
  return id;
}

void Scheduler::Remove(SequenceId id) {
  const auto found = sequences_.find(id);
  ROOST_CHECK(found != sequences_.end(), "sequence {} is gone", id.value());
  Sequence& sequence = *found->second;
  if (sequence.state == Sequence::State::kWaiting) {
    Dequeue(sequence);
  } else {
    running_.erase(std::find(running_.begin(), running_.end(), &sequence));
    ReleaseBlocks(sequence);
  }
  sequences_.erase(found);
}

std::vector<SequenceId> Scheduler::Expired(Instant now) const {
  std::vector<SequenceId> expired;
  for (const auto& [deadline, id] : deadlines_) {
    if (deadline > now) break;
    expired.push_back(id);
  }
  return expired;
}

const std::vector<ScheduledSlice>& Scheduler::Schedule() {
  slices_.clear();
  const std::uint32_t budget = ScheduleRunning();
  Admit(budget);
  return slices_;
}

void Scheduler::Commit() {
  for (const ScheduledSlice& slice : slices_) {
    Sequence& sequence = *sequences_.at(slice.sequence->id);
    sequence.computed_token_count += slice.token_count;
    sequence.counted_token_count =
        std::max(sequence.counted_token_count, std::min(sequence.computed_token_count, sequence.prompt_token_count));
    CommitFullBlocks(sequence);
  }
}

void Scheduler::Append(SequenceId id, TokenId token) {
  Sequence& sequence = *sequences_.at(id);
  ROOST_CHECK(sequence.remaining_count() == 0 && sequence.token_count() < options_.max_context_tokens);
  sequence.tokens.push_back(token);
}

// ---- the running sequences ----

// Sequences are served in order of admission and only later ones are preempted, so a slice once planned stays.
std::uint32_t Scheduler::ScheduleRunning() {
  const auto decode_count = static_cast<std::uint32_t>(
      std::count_if(running_.begin(), running_.end(), [](const Sequence* sequence) { return sequence->decoding(); }));
  std::uint32_t budget = options_.max_batch_tokens - decode_count;
  for (std::size_t i = 0; i < running_.size(); ++i) {
    Sequence& sequence = *running_[i];
    if (sequence.decoding()) {
      if (SecureBlocks(sequence, 1)) PlanSlice(sequence, 1);
      continue;
    }
    MatchAgain(sequence);
    const std::uint32_t chunk = std::min(budget, sequence.remaining_count());
    if (chunk == 0 || !SecureBlocks(sequence, chunk)) continue;
    PlanSlice(sequence, chunk);
    budget -= chunk;
  }
  return budget;
}

void Scheduler::PlanSlice(const Sequence& sequence, std::uint32_t token_count) {
  slices_.push_back({.sequence = &sequence,
                     .first_position = sequence.computed_token_count,
                     .token_count = token_count,
                     .wants_logits = token_count == sequence.remaining_count(),
                     .is_decode = sequence.decoding()});
}

bool Scheduler::SecureBlocks(Sequence& sequence, std::uint32_t token_count) {
  const std::uint32_t needed = BlocksFor(sequence.computed_token_count + token_count);
  while (sequence.blocks.size() < needed) {
    if (const std::optional<BlockId> block = cache_.Allocate()) {
      sequence.blocks.push_back(*block);
      continue;
    }
    const bool is_last = running_.back() == &sequence;
    PreemptLast();
    if (is_last) return false;
  }
  return true;
}

void Scheduler::PreemptLast() {
  Sequence& sequence = *running_.back();
  running_.pop_back();
  ReleaseBlocks(sequence);
  Enqueue(sequence, QueueEnd::kFront);
  ExpectUncached(sequence, 0);
  ++preemption_count_;
}

// Back to front, as the cache asks for.
void Scheduler::ReleaseBlocks(Sequence& sequence) {
  const RequestUse use{.number = release_count_++,
                       .prompt_token_count = sequence.prompt_token_count,
                       .cached_token_count = sequence.cached_token_count,
                       .output_token_count = sequence.token_count() - sequence.prompt_token_count};
  for (auto block = sequence.blocks.rbegin(); block != sequence.blocks.rend(); ++block) cache_.Release(*block, use);
  sequence.blocks.clear();
  sequence.computed_token_count = 0;
  sequence.committed_block_count = 0;
  sequence.can_commit = true;
}

// Blocks that became ready since the last chunk replace what was still to be computed, a part-filled own block
// included.
void Scheduler::MatchAgain(Sequence& sequence) {
  while (sequence.can_commit && sequence.committed_block_count < MatchableBlocks(sequence)) {
    const std::uint32_t index = sequence.committed_block_count;
    if (index >= sequence.hashes.size()) return;
    const std::optional<BlockRef> ref = cache_.Find(sequence.chain(), index, sequence.blocks);
    if (!ref) return;
    if (sequence.blocks.size() > index) {
      cache_.Release(sequence.blocks.back(), {});
      sequence.blocks.pop_back();
    }
    TakeMatched(sequence, *ref);
  }
}

void Scheduler::TakeMatched(Sequence& sequence, BlockRef ref) {
  cache_.Acquire(ref);
  sequence.blocks.push_back(ref.block);
  ++sequence.committed_block_count;
  sequence.computed_token_count = sequence.committed_block_count * block_tokens_;
  const std::uint32_t covered = std::min(sequence.computed_token_count, sequence.prompt_token_count);
  if (covered > sequence.counted_token_count) {
    sequence.cached_token_count += covered - sequence.counted_token_count;
    sequence.counted_token_count = covered;
  }
}

void Scheduler::CommitFullBlocks(Sequence& sequence) {
  while (sequence.can_commit && (sequence.committed_block_count + 1) * block_tokens_ <= sequence.computed_token_count) {
    const std::uint32_t index = sequence.committed_block_count;
    if (sequence.hashes.size() == index) {
      const BlockHash parent = index == 0 ? sequence.root : sequence.hashes.back();
      const std::span<const TokenId> tokens(sequence.tokens);
      sequence.hashes.push_back(ChainHash(parent, tokens.subspan(std::size_t{index} * block_tokens_, block_tokens_)));
    }
    const CommitResult result = cache_.Commit(sequence.chain(), index, sequence.blocks);
    if (result.kind == CommitResult::Kind::kCollided) {
      sequence.can_commit = false;
    } else {
      sequence.blocks[index] = result.block;
      ++sequence.committed_block_count;
    }
  }
}

// ---- the waiting sequences ----

void Scheduler::Admit(std::uint32_t budget) {
  const std::uint32_t max_running = std::min(options_.max_running, options_.max_batch_tokens);
  std::uint32_t passed_over = 0;
  auto place = waiting_.begin();
  while (place != waiting_.end() && budget > 0 && running_.size() < max_running && passed_over < kMaxPassedOver) {
    Sequence& sequence = **place;
    if (!IsAwaitingPrefix(sequence)) {
      matched_.clear();
      cache_.Match(sequence.chain(), MatchableBlocks(sequence), matched_);
      ExpectUncached(sequence, static_cast<std::uint32_t>(matched_.size()));
      AwaitIfBeingComputed(sequence, static_cast<std::uint32_t>(matched_.size()));
    }
    if (sequence.awaited) {
      ++passed_over;
      ++place;
      continue;
    }
    if (!HasRoomFor(sequence)) return;
    place = Dequeue(sequence);
    Start(sequence);
    const std::uint32_t chunk = std::min(budget, sequence.remaining_count());
    ROOST_CHECK(SecureBlocks(sequence, chunk), "sequence {} was admitted without room", sequence.id.value());
    PlanSlice(sequence, chunk);
    budget -= chunk;
  }
}

bool Scheduler::IsAwaitingPrefix(const Sequence& sequence) const {
  if (!sequence.awaited) return false;
  const auto found = sequences_.find(sequence.awaited->sequence);
  if (found == sequences_.end()) return false;
  const Sequence& other = *found->second;
  return other.state == Sequence::State::kRunning && other.can_commit &&
         other.committed_block_count < sequence.awaited->block_count;
}

// Does a running sequence compute the block after the match? Then it is awaited, with all that the two have in common
// behind it. The one awaited runs and awaits nobody, so nobody waits in a circle.
void Scheduler::AwaitIfBeingComputed(Sequence& sequence, std::uint32_t matched_count) {
  sequence.awaited.reset();
  const auto wanted =
      static_cast<std::uint32_t>(std::min<std::size_t>(MatchableBlocks(sequence), sequence.hashes.size()));
  if (matched_count >= wanted) return;
  for (const Sequence* other : running_) {
    const std::uint32_t computing = other->committed_block_count;
    const auto fills = static_cast<std::uint32_t>(
        std::min<std::size_t>({other->token_count() / block_tokens_, other->hashes.size(), wanted}));
    if (!other->can_commit || computing != matched_count || computing >= fills) continue;
    std::uint32_t common = matched_count;
    while (common < fills && other->hashes[common] == sequence.hashes[common]) ++common;
    if (common == matched_count) continue;
    sequence.awaited = {other->id, common};
    ExpectUncached(sequence, common);
    return;
  }
}

// Room for all known tokens and the first one sampled. `matched_` is its match; of these blocks the idle ones stop
// being evictable. Prompts admitted before need no more room: the budget reaches a new sequence only when they have
// been planned to their end. A sequence that runs alone always has room (see Submit).
bool Scheduler::HasRoomFor(const Sequence& sequence) const {
  if (running_.empty()) return true;
  const BlockPool& pool = cache_.pool();
  const auto idle_matched = std::count_if(matched_.begin(), matched_.end(),
                                          [&pool](BlockRef ref) { return pool.references(ref.block) == 0; });
  const std::size_t needed = BlocksFor(sequence.token_count() + 1) - matched_.size();
  const std::size_t available = pool.free_count() + pool.idle_count() - static_cast<std::size_t>(idle_matched);
  return needed <= available;
}

// With its match, which is in `matched_`.
void Scheduler::Start(Sequence& sequence) {
  sequence.state = Sequence::State::kRunning;
  running_.push_back(&sequence);
  for (const BlockRef ref : matched_) TakeMatched(sequence, ref);
}

void Scheduler::Enqueue(Sequence& sequence, QueueEnd end) {
  sequence.state = Sequence::State::kWaiting;
  sequence.place = waiting_.insert(end == QueueEnd::kFront ? waiting_.begin() : waiting_.end(), &sequence);
  sequence.expected_uncached_count = 0;
  sequence.awaited.reset();
  const bool has_output = sequence.token_count() > sequence.prompt_token_count;
  if (sequence.deadline && !has_output) deadlines_.emplace(*sequence.deadline, sequence.id);
}

std::list<Sequence*>::iterator Scheduler::Dequeue(Sequence& sequence) {
  waiting_uncached_count_ -= sequence.expected_uncached_count;
  if (sequence.deadline) deadlines_.erase({*sequence.deadline, sequence.id});
  return waiting_.erase(sequence.place);
}

void Scheduler::ExpectUncached(Sequence& sequence, std::uint32_t matched_count) {
  const std::uint32_t uncached = sequence.token_count() - matched_count * block_tokens_;
  waiting_uncached_count_ += uncached;
  waiting_uncached_count_ -= sequence.expected_uncached_count;
  sequence.expected_uncached_count = uncached;
}

// ---- sums and checks ----

std::uint64_t Scheduler::queued_prefill_tokens() const {
  std::uint64_t count = waiting_uncached_count_;
  for (const Sequence* sequence : running_) {
    if (!sequence->decoding()) count += sequence->remaining_count();
  }
  return count;
}

std::uint64_t Scheduler::running_context_tokens() const {
  std::uint64_t count = 0;
  for (const Sequence* sequence : running_) count += sequence->computed_token_count;
  return count;
}

Result<void> Scheduler::CheckInvariants() const {
  std::vector<std::uint32_t> references(cache_.pool().block_count());
  std::uint64_t waiting_uncached = 0;
  for (const auto& [id, sequence] : sequences_) {
    for (const BlockId block : sequence->blocks) ++references[block.value()];
    const bool waiting = sequence->state == Sequence::State::kWaiting;
    waiting_uncached += waiting ? sequence->expected_uncached_count : 0;
    const bool has_table = sequence->blocks.size() == BlocksFor(sequence->computed_token_count);
    if (!has_table || (waiting && !sequence->blocks.empty()) ||
        sequence->computed_token_count > sequence->token_count()) {
      return Error{ErrorCode::kInternal,
                   fmt::format("sequence {} has {} blocks for {} of {} tokens", id.value(), sequence->blocks.size(),
                               sequence->computed_token_count, sequence->token_count()),
                   "scheduler"};
    }
  }
  if (waiting_.size() + running_.size() != sequences_.size() || waiting_uncached != waiting_uncached_count_) {
    return Error{ErrorCode::kInternal, "the queues and the sequences disagree", "scheduler"};
  }
  return cache_.CheckInvariants(references);
}

std::uint32_t Scheduler::BlocksFor(std::uint32_t token_count) const {
  return (token_count + block_tokens_ - 1) / block_tokens_;
}

// The last known token is computed in any case.
std::uint32_t Scheduler::MatchableBlocks(const Sequence& sequence) const {
  return (sequence.token_count() - 1) / block_tokens_;
}

}  // namespace roost::worker
