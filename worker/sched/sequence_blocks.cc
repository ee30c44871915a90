#include "worker/sched/sequence_blocks.h"

#include <algorithm>
#include <span>

#include "common/base/check.h"

namespace roost::worker {

void SequenceBlocks::AdvanceTo(Instant now) {
  now_ = now;
  sessions_.AdvanceTo(now);
}

std::uint32_t SequenceBlocks::BlocksFor(std::uint32_t token_count) const {
  return (token_count + block_tokens_ - 1) / block_tokens_;
}

bool SequenceBlocks::WritesToSharedBlock(const Sequence& sequence) const {
  if (!sequence.forked) return false;
  const bool fills_last = sequence.computed_token_count % block_tokens_ != 0;
  return fills_last && !sequence.blocks.empty() && cache_.pool().references(sequence.blocks.back()) > 1;
}

std::size_t SequenceBlocks::MissingBlocks(const Sequence& sequence) const {
  return BlocksFor(sequence.token_count()) - sequence.blocks.size() + (WritesToSharedBlock(sequence) ? 1 : 0);
}

// ---- a waiting sequence ----

void SequenceBlocks::Want(Sequence& sequence, const std::vector<BlockRef>& matched) {
  if (wanted_count_ + matched.size() > cache_.pool().block_count() / 2) return;
  sequence.wanted = matched;
  wanted_count_ += static_cast<std::uint32_t>(sequence.wanted.size());
  for (const BlockRef ref : sequence.wanted) cache_.Want(ref);
}

void SequenceBlocks::UnwantAll(Sequence& sequence) {
  for (const BlockRef ref : sequence.wanted) cache_.Unwant(ref);
  wanted_count_ -= static_cast<std::uint32_t>(sequence.wanted.size());
  sequence.wanted.clear();
}

void SequenceBlocks::OnSessionReturn(std::uint64_t session) {
  if (session == 0) return;
  const std::optional<SessionTable::Turn> turn = sessions_.TakeBack(session);
  if (!turn) return;
  cache_.EndRetention(turn->last, turn->retention);
  ++counters_.returned_sessions;
}

// ---- a running sequence ----

void SequenceBlocks::TakeMatch(Sequence& sequence, const std::vector<BlockRef>& matched) {
  for (const BlockRef ref : matched) TakeMatched(sequence, ref);
  UnwantAll(sequence);
  TakeTail(sequence);
}

void SequenceBlocks::MatchAgain(Sequence& sequence) {
  while (sequence.can_commit && sequence.committed_block_count < sequence.MatchableBlocks(block_tokens_)) {
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

void SequenceBlocks::TakeMatched(Sequence& sequence, BlockRef ref) {
  cache_.Acquire(ref);
  sequence.blocks.push_back(ref.block);
  ++sequence.committed_block_count;
  sequence.computed_token_count = sequence.committed_block_count * block_tokens_;
  CountCached(sequence);
}

void SequenceBlocks::CountCached(Sequence& sequence) {
  const std::uint32_t covered = std::min(sequence.computed_token_count, sequence.prompt_token_count);
  if (covered <= sequence.counted_token_count) return;
  sequence.cached_token_count += covered - sequence.counted_token_count;
  sequence.counted_token_count = covered;
}

// Copies the rows of the block that continues the match by the most equal tokens. Holding that block during the copy
// must not take the space that the sequence was promised.
void SequenceBlocks::TakeTail(Sequence& sequence) {
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
  sequence.tail_end = sequence.computed_token_count;
  CountCached(sequence);
  counters_.tail_cached_tokens += sequence.cached_token_count - counted;
}

bool SequenceBlocks::Grow(Sequence& sequence) {
  const std::optional<BlockId> block = cache_.Allocate(sequence.group);
  if (block) sequence.blocks.push_back(*block);
  return block.has_value();
}

bool SequenceBlocks::CopyLast(Sequence& sequence) {
  const BlockId shared = sequence.blocks.back();
  const std::optional<BlockId> own = cache_.Allocate(sequence.group);
  if (!own) return false;
  sequence.blocks.back() = *own;
  copies_.push_back({shared, *own, sequence.computed_token_count % block_tokens_});
  cache_.NoteCopied(shared, *own);
  cache_.Release(shared, UseOf(sequence));
  return true;
}

void SequenceBlocks::CommitSlice(Sequence& sequence, const ScheduledSlice& slice) {
  CountComputed(sequence, slice);
  sequence.computed_token_count += slice.token_count;
  sequence.scored_so_far += slice.scored_token_count;
  sequence.counted_token_count =
      std::max(sequence.counted_token_count, std::min(sequence.computed_token_count, sequence.prompt_token_count));
  Commit(sequence);
}

bool SequenceBlocks::PrepareCommit(Sequence& sequence) {
  if (!HasFullBlock(sequence)) return false;
  HashFullBlock(sequence);
  const std::uint32_t index = sequence.committed_block_count;
  cache_.PrefetchCommit(sequence.hashes[index], sequence.blocks[index]);
  return true;
}

// Counts the slice's prompt tokens by the reason why they were not cached.
void SequenceBlocks::CountComputed(Sequence& sequence, const ScheduledSlice& slice) {
  const std::uint32_t end = std::min(slice.first_position + slice.token_count, sequence.prompt_token_count);
  for (std::uint32_t position = slice.first_position; position < end;) {
    const std::uint32_t block = position / block_tokens_;
    const std::uint32_t block_end = std::min(end, (block + 1) * block_tokens_);
    const bool alone = position + 1 == sequence.prompt_token_count && slice.token_count == 1;
    const MissReason reason = alone && sequence.uses_cache() ? MissReason::kTail : ReasonOf(sequence, block);
    counters_.computed_prompt_tokens[IndexOf(reason)] += block_end - position;
    if (sequence.first_miss == MissReason::kTail) sequence.first_miss = reason;
    position = block_end;
  }
}

MissReason SequenceBlocks::ReasonOf(const Sequence& sequence, std::uint32_t block) const {
  const bool is_scored = block * block_tokens_ < sequence.scored_token_count;
  if (!sequence.uses_cache() || is_scored) return MissReason::kDisabled;
  if (block >= sequence.prompt_token_count / block_tokens_) return MissReason::kTail;
  if (sequence.promised.Contains(block)) return MissReason::kNotArrived;
  if (block < sequence.given_up_block_count) return MissReason::kInFlight;
  return cache_.WasEvicted(sequence.hashes[block]) ? MissReason::kEvicted : MissReason::kCold;
}

bool SequenceBlocks::HasFullBlock(const Sequence& sequence) const {
  const std::uint32_t token_count = std::min(sequence.computed_token_count, sequence.known_count());
  return sequence.can_commit && (sequence.committed_block_count + 1) * block_tokens_ <= token_count;
}

void SequenceBlocks::HashFullBlock(Sequence& sequence) const {
  const std::uint32_t index = sequence.committed_block_count;
  if (sequence.hashes.size() > index) return;
  const BlockHash last = sequence.hashes.empty() ? sequence.root : sequence.hashes.back();
  const BlockHash parent = ParentOf(index, sequence.root, sequence.own, last);
  const std::span<const TokenId> tokens(sequence.tokens);
  sequence.hashes.push_back(ChainHash(parent, tokens.subspan(std::size_t{index} * block_tokens_, block_tokens_)));
}

void SequenceBlocks::Commit(Sequence& sequence) {
  while (HasFullBlock(sequence)) {
    HashFullBlock(sequence);
    const std::uint32_t index = sequence.committed_block_count;
    const CommitResult result = cache_.Commit(sequence.chain(), index, sequence.blocks, sequence.group);
    if (result.kind == CommitResult::Kind::kCollided) {
      sequence.can_commit = false;
    } else {
      if (result.kind == CommitResult::Kind::kStored) {
        sequence.first_stored_block = std::min(sequence.first_stored_block.value_or(index), index);
        CountWritten(sequence, index);
      }
      sequence.blocks[index] = result.block;
      ++sequence.committed_block_count;
    }
  }
}

// A block that comes into the cache again after a preemption was counted the first time.
void SequenceBlocks::CountWritten(Sequence& sequence, std::uint32_t index) const {
  const std::uint32_t end = (index + 1) * block_tokens_;
  if (index < sequence.written_block_end || end > sequence.prompt_token_count) return;
  sequence.written_block_end = index + 1;
  sequence.written_token_count += end - std::min(end, std::max(index * block_tokens_, sequence.tail_end));
}

// ---- what it leaves ----

// Back to front, as the cache requires.
void SequenceBlocks::Release(Sequence& sequence) {
  Commit(sequence);
  const RequestUse use = UseOf(sequence);
  ++release_count_;
  StorePartialBlock(sequence);
  const RequestRetention retention = RetentionOf(sequence);
  ExpectBack(sequence, retention);
  cache_.ReleaseAll(sequence.blocks, use, retention, sequence.lifetimes);
  sequence.blocks.clear();
  sequence.dealt_token_count = 0;
  sequence.computed_token_count = 0;
  sequence.committed_block_count = 0;
  sequence.can_commit = sequence.leaves_blocks();
  sequence.given_up_block_count = 0;
  sequence.promised = {};
}

void SequenceBlocks::ExpectBack(const Sequence& sequence, const RequestRetention& retention) {
  if (sequence.session == 0 || sequence.committed_block_count == 0) return;
  const BlockId last = sequence.blocks[sequence.committed_block_count - 1];
  sessions_.Expect(sequence.session, {cache_.pool().RefTo(last), retention});
}

RequestUse SequenceBlocks::UseOf(const Sequence& sequence) const {
  return {.number = release_count_,
          .prompt_token_count = sequence.prompt_token_count,
          .cached_token_count = sequence.cached_token_count,
          .output_token_count = sequence.known_count() - sequence.prompt_token_count};
}

RequestRetention SequenceBlocks::RetentionOf(const Sequence& sequence) const {
  const auto from_now = [this](const RetentionHint& hint) {
    BlockRetention retention{.priority = hint.priority, .end = std::nullopt};
    if (hint.duration > Duration::zero()) retention.end = now_ + hint.duration;
    return retention;
  };
  return {from_now(sequence.prompt_retention), from_now(sequence.decode_retention), sequence.tenant};
}

// Keeps the computed part of the sequence's last block for others, if no one else holds the block. An awaited token is
// not known yet, so it is left out.
void SequenceBlocks::StorePartialBlock(const Sequence& sequence) {
  const std::uint32_t rows = std::min(sequence.computed_token_count, sequence.known_count()) % block_tokens_;
  if (!sequence.can_commit || rows == 0) return;
  if (sequence.blocks.size() != sequence.committed_block_count + 1) return;
  if (cache_.pool().references(sequence.blocks.back()) > 1) return;
  cache_.StorePartial(sequence.chain(), sequence.blocks, rows, sequence.group);
}

// ---- sessions ----

void SessionTable::Expect(std::uint64_t session, const Turn& turn) {
  const std::optional<Instant> end = std::max(turn.retention.prompt.end, turn.retention.decode.end);
  const auto before = turns_.find(session);
  if (before != turns_.end()) Forget(before);
  if (!end || turns_.size() >= kMaxSessions) return;
  turns_.emplace(session, Expected{turn, ends_.emplace(*end, session)});
}

std::optional<SessionTable::Turn> SessionTable::TakeBack(std::uint64_t session) {
  const auto found = turns_.find(session);
  if (found == turns_.end()) return std::nullopt;
  const Turn turn = found->second.turn;
  Forget(found);
  return turn;
}

void SessionTable::AdvanceTo(Instant now) {
  while (!ends_.empty() && ends_.begin()->first <= now) Forget(turns_.find(ends_.begin()->second));
}

void SessionTable::Forget(std::unordered_map<std::uint64_t, Expected>::iterator session) {
  ends_.erase(session->second.end);
  turns_.erase(session);
}

}  // namespace roost::worker
