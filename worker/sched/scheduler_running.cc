// The running sequences: their slices of a step, their blocks, and what they leave in the cache.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "common/base/check.h"
#include "worker/sched/scheduler.h"

namespace roost::worker {

// Sequences are served in order of admission, and only later ones are preempted, so a planned slice stays planned.
void Scheduler::PlanSlices() {
  for (std::size_t i = 0; i < running_.size();) {
    Sequence& sequence = *running_[i];
    const std::uint32_t dealt_token_count = std::exchange(sequence.dealt_token_count, 0);
    const std::uint32_t token_count = sequence.decoding() ? 1 : dealt_token_count;
    if (token_count > 0 && SecureBlocks(sequence, token_count)) PlanSlice(sequence, token_count);
    if (sequence.state == Sequence::State::kRunning) ++i;
  }
}

void Scheduler::PlanSlice(const Sequence& sequence, std::uint32_t token_count) {
  const std::uint32_t first = sequence.computed_token_count;
  const std::uint32_t first_scored = std::max(first, sequence.scored_so_far);
  const std::uint32_t scored_end = std::min(first + token_count, sequence.scored_token_count);
  slices_.push_back({.sequence = &sequence,
                     .first_position = first,
                     .token_count = token_count,
                     .wants_logits = token_count == sequence.remaining_count(),
                     .first_scored = first_scored,
                     .scored_token_count = scored_end - std::min(first_scored, scored_end),
                     .is_decode = sequence.decoding()});
}

bool Scheduler::SecureBlocks(Sequence& sequence, std::uint32_t token_count) {
  if (!OwnLastBlock(sequence)) return false;
  const std::uint32_t needed = BlocksFor(sequence.computed_token_count + token_count);
  while (sequence.blocks.size() < needed) {
    if (!SecureBlock(sequence)) return false;
  }
  return true;
}

// Allocates one more block for the sequence. False: the sequence itself was preempted.
bool Scheduler::SecureBlock(Sequence& sequence) {
  while (true) {
    if (const std::optional<BlockId> block = cache_.Allocate(sequence.group)) {
      sequence.blocks.push_back(*block);
      return true;
    }
    if (!MakeRoom(sequence)) return false;
  }
}

// Ends an arrival, takes a held block, ends the pins, or preempts a sequence. False: that was `sequence` itself.
bool Scheduler::MakeRoom(const Sequence& sequence) {
  if (arrivals_.GiveWay()) return true;
  if (cache_.EvictHeld(sequence.group)) return true;
  if (running_.size() == 1 && cache_.claims().pinned_count() > 0) {
    cache_.claims().UnpinAll();
    ++counters_.dropped_pins;
    return true;
  }
  Sequence& victim = VictimFor(sequence);
  Preempt(victim);
  return &victim != &sequence;
}

// If the next token goes to a partly filled block that forks share, replaces that block by a copy. The shared block
// stays unchanged until the copy is made, because copies are made before anything is computed. If space can only be
// made by preempting the other sharers, perhaps the block is no longer shared, and no copy is needed.
bool Scheduler::OwnLastBlock(Sequence& sequence) {
  if (!WritesToSharedBlock(sequence)) return true;
  const std::uint32_t rows = sequence.computed_token_count % block_tokens_;
  const BlockId shared = sequence.blocks.back();
  while (cache_.pool().references(shared) > 1) {
    if (const std::optional<BlockId> own = cache_.Allocate(sequence.group)) {
      sequence.blocks.back() = *own;
      copies_.push_back({shared, *own, rows});
      cache_.NoteCopied(shared, *own);
      cache_.Release(shared, UseOf(sequence));
      return true;
    }
    if (!MakeRoom(sequence)) return false;
  }
  return true;
}

void Scheduler::Preempt(Sequence& sequence) {
  running_.erase(std::find(running_.begin(), running_.end(), &sequence));
  coming_forks_ -= sequence.fork_count;
  ReleaseBlocks(sequence);
  waiting_.Push(sequence, WaitingRank::Class::kPreempted);
  ++counters_.preemptions;
}

RequestUse Scheduler::UseOf(const Sequence& sequence) const {
  return {.number = release_count_,
          .prompt_token_count = sequence.prompt_token_count,
          .cached_token_count = sequence.cached_token_count,
          .output_token_count = sequence.known_count() - sequence.prompt_token_count};
}

RequestRetention Scheduler::RetentionOf(const Sequence& sequence) const {
  const auto from_now = [this](const RetentionHint& hint) {
    BlockRetention retention{.priority = hint.priority, .end = std::nullopt};
    if (hint.duration > Duration::zero()) retention.end = now_ + hint.duration;
    return retention;
  };
  return {from_now(sequence.prompt_retention), from_now(sequence.decode_retention), sequence.tenant};
}

// Keeps the computed part of the sequence's last block for others, if no one else holds the block. An awaited token is
// not known yet, so it is left out.
void Scheduler::StorePartialBlock(const Sequence& sequence) {
  const std::uint32_t rows = std::min(sequence.computed_token_count, sequence.known_count()) % block_tokens_;
  if (!sequence.can_commit || rows == 0) return;
  if (sequence.blocks.size() != sequence.committed_block_count + 1) return;
  if (cache_.pool().references(sequence.blocks.back()) > 1) return;
  cache_.StorePartial(sequence.chain(), sequence.blocks, rows, sequence.group);
}

// Releases the blocks back to front, as the cache requires.
void Scheduler::ReleaseBlocks(Sequence& sequence) {
  CommitFullBlocks(sequence);
  const RequestUse use = UseOf(sequence);
  ++release_count_;
  StorePartialBlock(sequence);
  const RequestRetention retention = RetentionOf(sequence);
  ExpectBack(sequence, retention);
  cache_.ReleaseAll(sequence.blocks, use, retention);
  sequence.blocks.clear();
  sequence.dealt_token_count = 0;
  sequence.computed_token_count = 0;
  sequence.committed_block_count = 0;
  sequence.can_commit = sequence.leaves_blocks();
  sequence.given_up_block_count = 0;
  sequence.promised = {};
}

void Scheduler::ExpectBack(const Sequence& sequence, const RequestRetention& retention) {
  if (sequence.session == 0 || sequence.committed_block_count == 0) return;
  const BlockId last = sequence.blocks[sequence.committed_block_count - 1];
  sessions_.Expect(sequence.session, {cache_.pool().RefTo(last), retention});
}

void Scheduler::OnSessionReturn(std::uint64_t session) {
  if (session == 0) return;
  const std::optional<SessionTable::Turn> turn = sessions_.TakeBack(session);
  if (!turn) return;
  cache_.EndRetention(turn->last, turn->retention);
  ++counters_.returned_sessions;
}

// Replaces blocks that were still to be computed by blocks that became ready since the last chunk; a partly filled own
// block is replaced too.
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
  CountCached(sequence);
}

void Scheduler::CountCached(Sequence& sequence) {
  const std::uint32_t covered = std::min(sequence.computed_token_count, sequence.prompt_token_count);
  if (covered <= sequence.counted_token_count) return;
  sequence.cached_token_count += covered - sequence.counted_token_count;
  sequence.counted_token_count = covered;
}

// Copies the rows of the block that continues the match by the most equal tokens. Holding that block during the copy
// must not take the space that the sequence was promised.
void Scheduler::TakeTail(Sequence& sequence) {
  if (!sequence.uses_cache() || sequence.scoring()) return;
  if (sequence.blocks.size() != sequence.committed_block_count) return;
  const std::optional<TailMatch> tail =
      cache_.FindTail(sequence.chain(), sequence.blocks, sequence.remaining_count() - 1);
  if (!tail) return;
  const std::uint32_t held = cache_.IsAvailable(tail->block) ? 1 : 0;
  const std::size_t needed = BlocksFor(sequence.token_count()) - sequence.blocks.size();
  if (cache_.available_count() < needed + held) return;
  cache_.Acquire(tail->block);
  const std::optional<BlockId> own = cache_.Allocate(sequence.group);
  ROOST_CHECK(own.has_value(), "{} blocks were available", cache_.available_count());
  sequence.blocks.push_back(*own);
  copies_.push_back({tail->block.block, *own, tail->token_count});
  cache_.NoteCopied(tail->block.block, *own);
  cache_.Release(tail->block.block, UseOf(sequence));
  const std::uint32_t counted = sequence.cached_token_count;
  sequence.computed_token_count += tail->token_count;
  CountCached(sequence);
  counters_.tail_cached_tokens += sequence.cached_token_count - counted;
}

// Updates how long prefill took per token in recent steps.
void Scheduler::NotePace(const StepSample& step, std::uint64_t tokens_before) {
  constexpr double kForgetting = 0.9;
  if (step.seconds <= 0) return;
  rates_.Observe(step);
  if (is_shortened_) majority_step_.Observe(step);
  if (step.prefill_tokens == 0) return;
  paced_seconds_ = paced_seconds_ * kForgetting + step.seconds;
  paced_tokens_ = paced_tokens_ * kForgetting + step.prefill_tokens + step.decode_tokens;
  NoteDepth(step, tokens_before);
}

// A fit of its own, which forgets slowly: how time grows with depth is a property of the model and the device. From few
// steps it would be the noise of one. A step that takes far longer than expected was interrupted, and would be
// remembered for as long. Where hardly any prompt begins, a fit can not tell what its first tokens take, and might give
// all time to depth.
void Scheduler::NoteDepth(const StepSample& step, std::uint64_t tokens_before) {
  constexpr double kForgetting = 0.9999;
  constexpr std::uint64_t kMinSteps = 32;
  constexpr double kMostLate = 2;      // times the expected time
  constexpr double kLeastShare = 0.1;  // of the mean time of a token, that one without tokens before it takes
  constexpr std::uint64_t kFar = 1U << 20U;
  StepSample seen{step.prefill_tokens, step.decode_tokens, step.seconds, tokens_before};
  if (prefill_steps_ >= kMinSteps) {
    seen.seconds = std::min(seen.seconds, kMostLate * depth_rates_.prefill_step_seconds(seen));
  }
  depth_rates_.Observe(seen, kForgetting);
  depth_seconds_ = depth_seconds_ * kForgetting + seen.seconds;
  depth_tokens_ = depth_tokens_ * kForgetting + step.prefill_tokens;
  if (++prefill_steps_ < kMinSteps) return;
  const double deep = (depth_rates_.seconds_beside_prefill(0, kFar) - depth_rates_.seconds_beside_prefill(0)) / kFar;
  const double first =
      std::max(1 / depth_rates_.prefill_tokens_per_second(), kLeastShare * depth_seconds_ / depth_tokens_);
  cache_.claims().SetRecomputeCost({.growth = static_cast<float>(deep / first * block_tokens_)});
}

double Scheduler::PrefillSecondsOf(std::uint32_t token_count) const { return rates_.prefill_seconds(token_count); }

// Counts the slice's prompt tokens by the reason why they were not cached.
void Scheduler::CountComputed(const Sequence& sequence, const ScheduledSlice& slice) {
  const std::uint32_t end = std::min(slice.first_position + slice.token_count, sequence.prompt_token_count);
  for (std::uint32_t position = slice.first_position; position < end;) {
    const std::uint32_t block = position / block_tokens_;
    const std::uint32_t block_end = std::min(end, (block + 1) * block_tokens_);
    const bool alone = position + 1 == sequence.prompt_token_count && slice.token_count == 1;
    const MissReason reason = alone && sequence.uses_cache() ? MissReason::kTail : ReasonOf(sequence, block);
    counters_.computed_prompt_tokens[IndexOf(reason)] += block_end - position;
    position = block_end;
  }
}

MissReason Scheduler::ReasonOf(const Sequence& sequence, std::uint32_t block) const {
  const bool is_scored = block * block_tokens_ < sequence.scored_token_count;
  if (!sequence.uses_cache() || is_scored) return MissReason::kDisabled;
  if (block >= sequence.prompt_token_count / block_tokens_) return MissReason::kTail;
  if (sequence.promised.Contains(block)) return MissReason::kNotArrived;
  if (block < sequence.given_up_block_count) return MissReason::kInFlight;
  return cache_.WasEvicted(sequence.hashes[block]) ? MissReason::kEvicted : MissReason::kCold;
}

// True if there is a block to commit.
bool Scheduler::HasFullBlock(const Sequence& sequence) const {
  const std::uint32_t token_count = std::min(sequence.computed_token_count, sequence.known_count());
  return sequence.can_commit && (sequence.committed_block_count + 1) * block_tokens_ <= token_count;
}

void Scheduler::HashFullBlock(Sequence& sequence) const {
  const std::uint32_t index = sequence.committed_block_count;
  if (sequence.hashes.size() > index) return;
  const BlockHash last = sequence.hashes.empty() ? sequence.root : sequence.hashes.back();
  const BlockHash parent = ParentOf(index, sequence.root, sequence.own, last);
  const std::span<const TokenId> tokens(sequence.tokens);
  sequence.hashes.push_back(ChainHash(parent, tokens.subspan(std::size_t{index} * block_tokens_, block_tokens_)));
}

void Scheduler::CommitFullBlocks(Sequence& sequence) {
  while (HasFullBlock(sequence)) {
    HashFullBlock(sequence);
    const std::uint32_t index = sequence.committed_block_count;
    const CommitResult result = cache_.Commit(sequence.chain(), index, sequence.blocks, sequence.group);
    if (result.kind == CommitResult::Kind::kCollided) {
      sequence.can_commit = false;
    } else {
      if (result.kind == CommitResult::Kind::kStored) {
        sequence.first_stored_block = std::min(sequence.first_stored_block.value_or(index), index);
      }
      sequence.blocks[index] = result.block;
      ++sequence.committed_block_count;
    }
  }
}

}  // namespace roost::worker
