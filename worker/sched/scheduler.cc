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
      majority_(cache.tenants(), std::uint64_t{kMajoritySteps} * options.max_batch_tokens),
      prefill_budget_(options.max_batch_tokens),
      majority_step_(options.max_batch_tokens) {
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
    return Error{
        ErrorCode::kContextTooLong,
        fmt::format("has {} tokens, which leaves no room for an answer: this worker's maximum context length is {} "
                    "tokens",
                    spec.prompt.size(), options_.max_context_tokens),
        "prompt"};
  }
  if (spec.fork_count >= MostRunning()) {
    return InvalidArgument("sample_count", "{} choices are more than this worker runs at the same time",
                           spec.fork_count + 1);
  }
  if (waiting_.size() >= options_.max_waiting) {
    return Error{ErrorCode::kOverloaded, fmt::format("{} requests are waiting", waiting_.size()), ""};
  }
  std::unique_ptr<Sequence> sequence = MakeSequence(std::move(spec));
  majority_.OnCame(sequence->tenant);
  waiting_.Push(*sequence, WaitingRank::Class::kNew);
  LookUp(*sequence);
  WantMatched(*sequence);
  OnSessionReturn(sequence->session);
  const SequenceId id = sequence->id;
  sequences_.Put(id, std::move(sequence));
  return id;
}

std::unique_ptr<Sequence> Scheduler::MakeSequence(SequenceSpec spec) {
  auto sequence = std::make_unique<Sequence>();
  sequence->id = ids_.Take();
  sequence->root = spec.root;
  sequence->own = spec.own;
  sequence->tokens = std::move(spec.prompt);
  sequence->prompt_token_count = sequence->token_count();
  sequence->hashes = std::move(spec.block_hashes);
  if (sequence->hashes.size() != sequence->tokens.size() / block_tokens_) {
    sequence->hashes = HashBlocks(spec.root, spec.own, sequence->tokens, block_tokens_);
  }
  sequence->most_tokens = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(options_.max_context_tokens, sequence->tokens.size() + spec.max_output_tokens));
  sequence->deadline = spec.deadline;
  sequence->priority = spec.priority;
  sequence->cache_mode = spec.cache_mode;
  sequence->can_commit = sequence->uses_cache();
  sequence->group = spec.group;
  sequence->tenant = cache_.tenants().Join(spec.tenant);
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
  if (sequence.uses_cache()) arrivals_.OnWaiterGone(sequence.hashes, now_);
  if (sequence.state == Sequence::State::kWaiting) {
    UnwantAll(sequence);
    waiting_.Erase(sequence);
  } else {
    running_.erase(std::find(running_.begin(), running_.end(), &sequence));
    coming_forks_ -= sequence.fork_count;
    ReleaseBlocks(sequence);
  }
  majority_.OnWent(sequence.tenant);
  cache_.tenants().Leave(sequence.tenant);
  sequences_.Erase(id);
  ids_.Return(id);
}

// The blocks that the sequence found in the cache were computed by others, and stay.
void Scheduler::Discard(SequenceId id) {
  Sequence& sequence = sequences_.At(id);
  if (!sequence.uses_cache()) return;
  const auto none = static_cast<std::uint32_t>(sequence.hashes.size());
  CacheEraser(cache_).Discard(sequence.chain(), sequence.first_stored_block.value_or(none));
  sequence.can_commit = false;
  ForgetDiscarded();
}

std::vector<SourceId> Scheduler::SourcesOf(const Sequence& sequence) const {
  std::vector<SourceId> sources;
  const std::size_t count = std::min<std::size_t>(BlocksFor(sequence.prompt_token_count), sequence.blocks.size());
  for (const BlockId block : std::span(sequence.blocks).first(count)) {
    const SourceId source = cache_.tree()[block.value()].source;
    if (source == SourceId() || std::find(sources.begin(), sources.end(), source) != sources.end()) continue;
    sources.push_back(source);
  }
  return sources;
}

// Rows of such a block may be in a block of a running sequence that is not committed yet.
std::uint32_t Scheduler::DiscardFrom(SourceId source) {
  arrivals_.EndWhere([source](const ArrivalSpec& spec) { return spec.source == source; }, wire::HoldOutcome::kWrong);
  for (Sequence* const each : running_) {
    const auto own = std::span(each->blocks).subspan(each->committed_block_count);
    const auto is_of_it = [&](BlockId block) { return cache_.tree()[block.value()].source == source; };
    if (std::any_of(own.begin(), own.end(), is_of_it)) each->can_commit = false;
  }
  const std::uint32_t count = CacheEraser(cache_).DiscardFrom(source);
  ForgetDiscarded();
  return count;
}

bool Scheduler::Wants(BlockHash block, std::uint32_t position) const {
  const auto wants = [&](const Sequence& sequence) {
    return sequence.uses_cache() && position < sequence.hashes.size() && sequence.hashes[position] == block &&
           sequence.committed_block_count <= position;
  };
  const auto& slots = sequences_.slots();
  return std::any_of(slots.begin(), slots.end(),
                     [&](const auto& slot) { return slot.value != nullptr && wants(*slot.value); });
}

void Scheduler::ForgetDiscarded() {
  for (Sequence* each : running_) ForgetDiscarded(*each);
  arrivals_.CancelErased();
}

void Scheduler::ForgetDiscarded(Sequence& sequence) const {
  while (sequence.committed_block_count > 0 && !cache_.IsReady(sequence.blocks[sequence.committed_block_count - 1])) {
    --sequence.committed_block_count;
    sequence.can_commit = false;
  }
}

void Scheduler::KeepOut(Sequence& sequence) {
  sequence.is_erased = true;
  sequence.can_commit = false;
}

// It continues the prompt: it has the last full block, or begins like a prompt that has none.
void Scheduler::KeepOut(const BlockChain& prompt) {
  const std::size_t count = prompt.hashes.size();
  const auto continues = [&](const Sequence& sequence) {
    if (sequence.root != prompt.root) return false;
    if (count > 0) return sequence.hashes.size() >= count && sequence.hashes[count - 1] == prompt.hashes.back();
    const bool is_longer = sequence.known_count() >= prompt.tokens.size();
    return is_longer && std::equal(prompt.tokens.begin(), prompt.tokens.end(), sequence.tokens.begin());
  };
  // The tokens of blocks that are to come are not known: a prompt without a full block may be the front of any.
  const auto may_bring = [&](const ArrivalSpec& spec) {
    return count > 0 ? spec.Names(prompt.hashes.back()) : spec.chain.root == prompt.root;
  };
  arrivals_.EndWhere(may_bring, wire::HoldOutcome::kCancelled);
  for (const auto& [id, sequence] : sequences_.slots()) {
    if (sequence != nullptr && continues(*sequence)) KeepOut(*sequence);
  }
}

void Scheduler::KeepOut(std::string_view tenant) {
  arrivals_.EndWhere([tenant](const ArrivalSpec& spec) { return spec.tenant == tenant; },
                     wire::HoldOutcome::kCancelled);
  const std::optional<TenantId> known = cache_.tenants().Find(tenant);
  for (const auto& [id, sequence] : sequences_.slots()) {
    if (sequence != nullptr && sequence->tenant == known) KeepOut(*sequence);
  }
}

void Scheduler::KeepOut(BlockHash block) {
  arrivals_.EndWhere([block](const ArrivalSpec& spec) { return spec.Names(block); }, wire::HoldOutcome::kCancelled);
  for (const auto& [id, sequence] : sequences_.slots()) {
    if (sequence == nullptr) continue;
    const std::vector<BlockHash>& hashes = sequence->hashes;
    if (std::find(hashes.begin(), hashes.end(), block) != hashes.end()) KeepOut(*sequence);
  }
}

EraseProgress Scheduler::EraseChain(std::span<const BlockHash> chain, EraseStep& step) {
  const EraseProgress progress = CacheEraser(cache_).EraseChain(chain, step);
  ForgetDiscarded();
  return progress;
}

EraseProgress Scheduler::Erase(const BlockChain& prompt, EraseStep& step) {
  const EraseProgress progress = CacheEraser(cache_).ErasePrompt(prompt, step);
  ForgetDiscarded();
  return progress;
}

EraseProgress Scheduler::Erase(std::string_view tenant, EraseStep& step) {
  const std::optional<TenantId> known = cache_.tenants().Find(tenant);
  if (!known) return EraseProgress::kComplete;
  const EraseProgress progress = CacheEraser(cache_).EraseTenant(*known, step);
  ForgetDiscarded();
  return progress;
}

const std::vector<ScheduledSlice>& Scheduler::Schedule() {
  ++step_;
  slices_.clear();
  copies_.clear();
  const std::uint32_t decode_count = SurveyRunning();
  const std::uint32_t budget = options_.max_batch_tokens - decode_count;
  prefill_budget_ = std::max(1U, budget);
  scored_room_ = options_.max_scored_tokens;
  arrivals_awaited_until_.reset();
  if (arrivals_.has_ended()) LookUpLeftBehind();
  DealOutShares(budget, decode_count);
  PlanSlices();
  // A running sequence may end with this step and make room for one that waits.
  if (!slices_.empty() || !running_.empty()) arrivals_awaited_until_.reset();
  return slices_;
}

void Scheduler::Commit() {
  CountOwed();
  for (const ScheduledSlice& slice : slices_) {
    Sequence& sequence = sequences_.At(slice.sequence->id);
    CountComputed(sequence, slice);
    if (!slice.is_decode) majority_.OnComputed(sequence.tenant, slice.token_count);
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

// Some of the sequences may have been removed.
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
  cache_.tenants().Join(fork->tenant);
  majority_.OnCame(fork->tenant);
  for (const BlockId block : fork->blocks) cache_.Share(block);
  running_.push_back(fork.get());
  const SequenceId fork_id = fork->id;
  sequences_.Put(fork_id, std::move(fork));
  return fork_id;
}

bool Scheduler::CanFork(SequenceId id) const { return sequences_.At(id).fork_count > 0 || HasPlaceFor(1); }

// Each running sequence needs a token in every step.
bool Scheduler::HasPlaceFor(std::uint32_t sequence_count) const {
  return running_.size() + coming_forks_ + sequence_count <= MostRunning();
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
  load.pinned_block_count = cache_.claims().pinned_count();
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
  arrivals_.CountReferences(references);
  return cache_.CheckInvariants(references);
}

std::uint32_t Scheduler::BlocksFor(std::uint32_t token_count) const {
  return (token_count + block_tokens_ - 1) / block_tokens_;
}

// The last known token is always computed, and so is a token whose logits are still wanted.
std::uint32_t Scheduler::MatchableBlocks(const Sequence& sequence) const {
  return (sequence.scoring() ? sequence.scored_so_far : sequence.token_count() - 1) / block_tokens_;
}

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
