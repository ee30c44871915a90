#include "worker/sched/scheduler.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/check.h"

namespace roost::worker {

Scheduler::Scheduler(PrefixCache& cache, SchedulerOptions options)
    : cache_(cache),
      options_(options),
      block_tokens_(cache.block_tokens()),
      waiting_(options.policy),
      prefill_budget_(options.max_batch_tokens) {
  ROOST_CHECK(options.max_batch_tokens > 0 && options.max_running > 0 && options.max_waiting > 0);
  ROOST_CHECK(options.max_scored_tokens > 0);
  ROOST_CHECK(BlocksFor(options.max_context_tokens) <= cache.pool().block_count(),
              "{} tokens of context do not fit {} blocks", options.max_context_tokens, cache.pool().block_count());
}

void Scheduler::AdvanceTo(Instant now) {
  now_ = now;
  cache_.AdvanceTo(now);
  sessions_.AdvanceTo(now);
  waiting_.AdvanceTo(now);
}

Result<SequenceId> Scheduler::Submit(SequenceSpec spec) {
  if (spec.prompt.empty()) return InvalidArgument("prompt", "has no tokens");
  if (spec.prompt.size() >= options_.max_context_tokens) {
    return Error{ErrorCode::kContextTooLong,
                 fmt::format("has {} tokens; with at least one token of output, the context of {} is too short",
                             spec.prompt.size(), options_.max_context_tokens),
                 "prompt"};
  }
  if (spec.fork_count >= std::min(options_.max_running, options_.max_batch_tokens)) {
    return InvalidArgument("sample_count", "{} outputs at once are more than run together here", spec.fork_count + 1);
  }
  if (waiting_.size() >= options_.max_waiting) {
    return Error{ErrorCode::kOverloaded, fmt::format("{} requests are waiting", waiting_.size()), ""};
  }
  std::unique_ptr<Sequence> sequence = MakeSequence(std::move(spec));
  waiting_.Push(*sequence, WaitingRank::Class::kNew);
  LookUp(*sequence);
  WantMatched(*sequence);
  WelcomeBack(sequence->session);
  const SequenceId id = sequence->id;
  sequences_.Put(id, std::move(sequence));
  return id;
}

std::unique_ptr<Sequence> Scheduler::MakeSequence(SequenceSpec spec) {
  auto sequence = std::make_unique<Sequence>();
  sequence->id = ids_.Take();
  sequence->root = spec.root;
  sequence->tokens = std::move(spec.prompt);
  sequence->prompt_token_count = sequence->token_count();
  sequence->hashes = std::move(spec.block_hashes);
  if (sequence->hashes.size() != sequence->tokens.size() / block_tokens_) {
    sequence->hashes = HashBlocks(spec.root, sequence->tokens, block_tokens_);
  }
  sequence->most_tokens = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(options_.max_context_tokens, sequence->tokens.size() + spec.max_output_tokens));
  sequence->deadline = spec.deadline;
  sequence->priority = spec.priority;
  sequence->cache_mode = spec.cache_mode;
  sequence->can_commit = sequence->uses_cache();
  sequence->group = spec.group;
  sequence->prompt_retention = spec.prompt_retention;
  sequence->decode_retention = spec.decode_retention;
  sequence->session = spec.session;
  sequence->fork_count = spec.fork_count;
  if (spec.scores_prompt) sequence->scored_token_count = sequence->prompt_token_count - 1;
  sequence->arrival = now_;
  return sequence;
}

void Scheduler::Remove(SequenceId id) {
  Sequence& sequence = sequences_.At(id);
  if (sequence.state == Sequence::State::kWaiting) {
    UnwantAll(sequence);
    waiting_.Erase(sequence);
  } else {
    running_.erase(std::find(running_.begin(), running_.end(), &sequence));
    coming_forks_ -= sequence.fork_count;
    ReleaseBlocks(sequence);
  }
  sequences_.Erase(id);
  ids_.Return(id);
}

// What it found in the cache was computed by others, and stays.
void Scheduler::Discard(SequenceId id) {
  Sequence& sequence = sequences_.At(id);
  if (!sequence.uses_cache()) return;
  const auto none = static_cast<std::uint32_t>(sequence.hashes.size());
  cache_.Discard(sequence.chain(), sequence.first_stored_block.value_or(none));
  sequence.can_commit = false;
  for (Sequence* each : running_) ForgetDiscarded(*each);
}

void Scheduler::ForgetDiscarded(Sequence& sequence) const {
  while (sequence.committed_block_count > 0 && !cache_.IsReady(sequence.blocks[sequence.committed_block_count - 1])) {
    --sequence.committed_block_count;
    sequence.can_commit = false;
  }
}

const std::vector<ScheduledSlice>& Scheduler::Schedule() {
  ++step_;
  slices_.clear();
  copies_.clear();
  const std::uint32_t budget = options_.max_batch_tokens - SurveyRunning();
  prefill_budget_ = std::max(1U, budget);
  scored_room_ = options_.max_scored_tokens;
  DealOut(budget);
  PlanSlices();
  return slices_;
}

void Scheduler::Commit() {
  for (const ScheduledSlice& slice : slices_) {
    Sequence& sequence = sequences_.At(slice.sequence->id);
    CountComputed(sequence, slice);
    sequence.computed_token_count += slice.token_count;
    sequence.scored_so_far += slice.scored_token_count;
    sequence.counted_token_count =
        std::max(sequence.counted_token_count, std::min(sequence.computed_token_count, sequence.prompt_token_count));
    CommitFullBlocks(sequence);
  }
}

void Scheduler::Append(SequenceId id, std::span<const TokenId> tokens) { Append(sequences_.At(id), tokens); }

void Scheduler::Append(Sequence& sequence, std::span<const TokenId> tokens) const {
  ROOST_CHECK(sequence.remaining_count() == 0 && sequence.token_count() + tokens.size() <= options_.max_context_tokens);
  sequence.tokens.insert(sequence.tokens.end(), tokens.begin(), tokens.end());
}

void Scheduler::AppendAwaited(SequenceId id, std::uint32_t draw) {
  constexpr TokenId kPlace = 0;
  Sequence& sequence = sequences_.At(id);
  Append(sequence, std::span(&kPlace, 1));
  sequence.awaited_draw = draw;
}

void Scheduler::Resolve(SequenceId id, TokenId token) {
  Sequence& sequence = sequences_.At(id);
  ROOST_CHECK(sequence.awaited_draw.has_value(), "sequence {} awaits no token", id.value());
  sequence.tokens.back() = token;
  sequence.awaited_draw.reset();
  if (!HasFullBlock(sequence)) return;
  HashFullBlock(sequence);
  const std::uint32_t index = sequence.committed_block_count;
  cache_.PrefetchCommit(sequence.hashes[index], sequence.blocks[index]);
  resolved_.push_back(id);
}

// Some may be gone.
void Scheduler::CommitResolved() {
  for (const SequenceId id : resolved_) {
    if (Sequence* const sequence = sequences_.Find(id)) CommitFullBlocks(*sequence);
  }
  resolved_.clear();
}

SequenceId Scheduler::Fork(SequenceId id) {
  Sequence& origin = sequences_.At(id);
  ROOST_CHECK(
      origin.state == Sequence::State::kRunning && origin.remaining_count() == 0 && !origin.awaited_draw && CanFork(id),
      "sequence {} can not be forked", id.value());
  if (origin.fork_count > 0) {
    --origin.fork_count;
    --coming_forks_;
  }
  origin.forked = true;
  auto fork = std::make_unique<Sequence>(origin);
  fork->tokens.reserve(origin.tokens.capacity());
  fork->hashes.reserve(origin.hashes.capacity());
  fork->blocks.reserve(origin.blocks.capacity());
  fork->id = ids_.Take();
  fork->fork_count = 0;
  for (const BlockId block : fork->blocks) cache_.Share(block);
  running_.push_back(fork.get());
  const SequenceId fork_id = fork->id;
  sequences_.Put(fork_id, std::move(fork));
  return fork_id;
}

bool Scheduler::CanFork(SequenceId id) const { return sequences_.At(id).fork_count > 0 || HasPlaceFor(1); }

// Each running sequence has a token in every step.
bool Scheduler::HasPlaceFor(std::uint32_t sequence_count) const {
  const std::uint32_t most = std::min(options_.max_running, options_.max_batch_tokens);
  return running_.size() + coming_forks_ + sequence_count <= most;
}

// ---- the running sequences ----

// Sequences are served in order of admission and only later ones are preempted, so a slice once planned stays.
void Scheduler::PlanSlices() {
  for (std::size_t i = 0; i < running_.size(); ++i) {
    Sequence& sequence = *running_[i];
    const std::uint32_t dealt_token_count = std::exchange(sequence.dealt_token_count, 0);
    const std::uint32_t token_count = sequence.decoding() ? 1 : dealt_token_count;
    if (token_count > 0 && SecureBlocks(sequence, token_count)) PlanSlice(sequence, token_count);
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

// One more block for the sequence. False: it had to be preempted itself.
bool Scheduler::SecureBlock(Sequence& sequence) {
  while (true) {
    if (const std::optional<BlockId> block = cache_.Allocate(sequence.group)) {
      sequence.blocks.push_back(*block);
      return true;
    }
    if (!MakeRoom(sequence)) return false;
  }
}

// Takes a held block, ends the pins, or preempts the sequence admitted last. False: that was this one.
bool Scheduler::MakeRoom(const Sequence& sequence) {
  if (cache_.EvictHeld(sequence.group)) return true;
  if (running_.size() == 1 && cache_.pinned_count() > 0) {
    cache_.UnpinAll();
    ++counters_.dropped_pins;
    return true;
  }
  const bool is_last = running_.back() == &sequence;
  PreemptLast();
  return !is_last;
}

// The block that the next token goes to, if it is partly filled and forks share it, is replaced by a copy. What is left
// to the others stays as it is until the copy is made, because copies are made before anything is computed. When room
// can only be made by preempting the others that share it, there may be nobody left to copy it for.
bool Scheduler::OwnLastBlock(Sequence& sequence) {
  if (!WritesToSharedBlock(sequence)) return true;
  const std::uint32_t rows = sequence.computed_token_count % block_tokens_;
  const BlockId shared = sequence.blocks.back();
  while (cache_.pool().references(shared) > 1) {
    if (const std::optional<BlockId> own = cache_.Allocate(sequence.group)) {
      sequence.blocks.back() = *own;
      copies_.push_back({shared, *own, rows});
      cache_.Release(shared, UseOf(sequence));
      return true;
    }
    if (!MakeRoom(sequence)) return false;
  }
  return true;
}

void Scheduler::PreemptLast() {
  Sequence& sequence = *running_.back();
  running_.pop_back();
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
  return {from_now(sequence.prompt_retention), from_now(sequence.decode_retention)};
}

// What the sequence has computed of its last block stays for others, if nobody else holds the block. Of an awaited
// token nobody knows which it is.
void Scheduler::StorePartialBlock(const Sequence& sequence) {
  const std::uint32_t rows = std::min(sequence.computed_token_count, sequence.known_count()) % block_tokens_;
  if (!sequence.can_commit || rows == 0) return;
  if (sequence.blocks.size() != sequence.committed_block_count + 1) return;
  if (cache_.pool().references(sequence.blocks.back()) > 1) return;
  cache_.StorePartial(sequence.chain(), sequence.blocks, rows, sequence.group);
}

// Back to front, as the cache asks for.
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
  sequence.can_commit = sequence.uses_cache();
  sequence.given_up_block_count = 0;
}

void Scheduler::ExpectBack(const Sequence& sequence, const RequestRetention& retention) {
  if (sequence.session == 0 || sequence.committed_block_count == 0) return;
  const BlockId last = sequence.blocks[sequence.committed_block_count - 1];
  sessions_.Expect(sequence.session, {cache_.pool().RefTo(last), retention});
}

void Scheduler::WelcomeBack(std::uint64_t session) {
  if (session == 0) return;
  const std::optional<SessionTable::Turn> turn = sessions_.TakeBack(session);
  if (!turn) return;
  cache_.EndRetention(turn->last, turn->retention);
  ++counters_.returned_sessions;
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
  CountCached(sequence);
}

void Scheduler::CountCached(Sequence& sequence) {
  const std::uint32_t covered = std::min(sequence.computed_token_count, sequence.prompt_token_count);
  if (covered <= sequence.counted_token_count) return;
  sequence.cached_token_count += covered - sequence.counted_token_count;
  sequence.counted_token_count = covered;
}

// Copies the rows of the block that goes on with the most equal tokens. Holding it for the moment must not take the
// room that the sequence was promised.
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
  cache_.Release(tail->block.block, UseOf(sequence));
  const std::uint32_t counted = sequence.cached_token_count;
  sequence.computed_token_count += tail->token_count;
  CountCached(sequence);
  counters_.tail_cached_tokens += sequence.cached_token_count - counted;
}

// How long prefill takes, per token, in the steps of late.
void Scheduler::NotePace(const StepSample& step) {
  constexpr double kForgetting = 0.9;
  if (step.seconds <= 0) return;
  rates_.Observe(step);
  if (step.prefill_tokens == 0) return;
  paced_seconds_ = paced_seconds_ * kForgetting + step.seconds;
  paced_tokens_ = paced_tokens_ * kForgetting + step.prefill_tokens + step.decode_tokens;
}

// The slice's prompt tokens, by the reason why they were not cached.
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
  if (block < sequence.given_up_block_count) return MissReason::kInFlight;
  return cache_.WasEvicted(sequence.hashes[block]) ? MissReason::kEvicted : MissReason::kCold;
}

// A block to commit.
bool Scheduler::HasFullBlock(const Sequence& sequence) const {
  const std::uint32_t token_count = std::min(sequence.computed_token_count, sequence.known_count());
  return sequence.can_commit && (sequence.committed_block_count + 1) * block_tokens_ <= token_count;
}

void Scheduler::HashFullBlock(Sequence& sequence) const {
  const std::uint32_t index = sequence.committed_block_count;
  if (sequence.hashes.size() > index) return;
  const BlockHash parent = index == 0 ? sequence.root : sequence.hashes.back();
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

// ---- sums and checks ----

wire::Load Scheduler::Load() const {
  wire::Load load;
  load.waiting_requests = waiting_count();
  load.running_requests = running_count();
  load.queued_prefill_tokens = waiting_.uncached_count();
  for (const Sequence* sequence : running_) {
    if (!sequence->decoding()) load.queued_prefill_tokens += sequence->remaining_count();
    load.running_context_tokens += sequence->computed_token_count;
  }
  load.free_block_count = cache_.available_count();
  load.cached_block_count = cache_.ready_count();
  load.pinned_block_count = cache_.pinned_count();
  load.digest = cache_.digest();
  return load;
}

Result<void> Scheduler::CheckInvariants() const {
  std::vector<std::uint32_t> references(cache_.pool().block_count());
  std::uint64_t waiting_uncached = 0;
  std::uint32_t coming_forks = 0;
  for (const auto& [id, sequence] : sequences_.slots()) {
    if (sequence == nullptr) continue;
    for (const BlockId block : sequence->blocks) ++references[block.value()];
    const bool waiting = sequence->state == Sequence::State::kWaiting;
    waiting_uncached += waiting ? sequence->expected_uncached_count : 0;
    coming_forks += waiting ? 0 : sequence->fork_count;
    const bool has_table = sequence->blocks.size() == BlocksFor(sequence->computed_token_count);
    if (!has_table || (waiting && !sequence->blocks.empty()) ||
        sequence->computed_token_count > sequence->token_count()) {
      return Error{ErrorCode::kInternal,
                   fmt::format("sequence {} has {} blocks for {} of {} tokens", id.value(), sequence->blocks.size(),
                               sequence->computed_token_count, sequence->token_count()),
                   "scheduler"};
    }
  }
  if (waiting_.size() + running_.size() != sequences_.size() || waiting_uncached != waiting_.uncached_count() ||
      coming_forks != coming_forks_) {
    return Error{ErrorCode::kInternal, "the queues and the sequences disagree", "scheduler"};
  }
  return cache_.CheckInvariants(references);
}

std::uint32_t Scheduler::BlocksFor(std::uint32_t token_count) const {
  return (token_count + block_tokens_ - 1) / block_tokens_;
}

// The last known token is computed in any case, and so is one whose logits are still wanted.
std::uint32_t Scheduler::MatchableBlocks(const Sequence& sequence) const {
  return (sequence.scoring() ? sequence.scored_so_far : sequence.token_count() - 1) / block_tokens_;
}

}  // namespace roost::worker
