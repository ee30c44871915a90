#include "worker/sched/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace roost::worker {
namespace {

ScheduledSlice SliceOf(const Sequence& sequence, std::uint32_t token_count) {
  const std::uint32_t first = sequence.computed_token_count;
  const std::uint32_t first_scored = std::max(first, sequence.scored_so_far);
  const std::uint32_t scored_end = std::min(first + token_count, sequence.scored_token_count);
  return {.sequence = &sequence,
          .first_position = first,
          .token_count = token_count,
          .wants_logits = token_count == sequence.remaining_count(),
          .first_scored = first_scored,
          .scored_token_count = scored_end - std::min(first_scored, scored_end),
          .is_decode = sequence.decoding()};
}

}  // namespace

Scheduler::Scheduler(PrefixCache& cache, SchedulerOptions options)
    : cache_(cache),
      options_(options),
      block_tokens_(cache.block_tokens()),
      most_running_(std::min(options.max_running, options.max_batch_tokens)),
      waiting_(options.policy),
      pace_(options.max_batch_tokens),
      arrivals_(cache, release_count_),
      restores_(cache, arrivals_, pace_, options.disk),
      blocks_(cache, release_count_, copies_, counters_),
      waits_(sequences_, arrivals_, restores_, pace_, cache.block_tokens(), options.max_batch_tokens),
      shares_(cache.tenants(), cache.pool(), pace_, options.max_batch_tokens, most_running_),
      budget_({.full_step = options.max_batch_tokens,
               .short_step = options.short_step_tokens,
               .scored = options.max_scored_tokens},
              pace_) {
  ROOST_CHECK(options.max_batch_tokens > 0 && options.max_running > 0 && options.max_waiting > 0);
  ROOST_CHECK(options.max_scored_tokens > 0);
  ROOST_CHECK(blocks_.BlocksFor(options.max_context_tokens) <= cache.pool().block_count(),
              "{} tokens of context do not fit {} blocks", options.max_context_tokens, cache.pool().block_count());
}

void Scheduler::AdvanceTo(Instant now) {
  now_ = now;
  cache_.AdvanceTo(now);
  blocks_.AdvanceTo(now);
  waiting_.AdvanceTo(now);
  waits_.AdvanceTo(now);
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
  if (spec.fork_count >= most_running_) {
    return InvalidArgument("sample_count", "{} choices are more than this worker runs at the same time",
                           spec.fork_count + 1);
  }
  if (waiting_.size() >= options_.max_waiting) {
    return Error{ErrorCode::kOverloaded, fmt::format("{} requests are waiting", waiting_.size()), ""};
  }
  std::unique_ptr<Sequence> sequence = MakeSequence(std::move(spec));
  shares_.majority().OnCame(sequence->tenant);
  waiting_.Push(*sequence, WaitingRank::Class::kNew);
  LookUp(*sequence);
  blocks_.Want(*sequence, matched_);
  blocks_.OnSessionReturn(sequence->session);
  const SequenceId id = sequence->id;
  sequences_.all.Put(id, std::move(sequence));
  return id;
}

std::unique_ptr<Sequence> Scheduler::MakeSequence(SequenceSpec spec) {
  auto sequence = std::make_unique<Sequence>();
  sequence->id = sequences_.ids.Take();
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
  sequence->lifetimes = std::move(spec.lifetimes);
  sequence->session = spec.session;
  sequence->fork_count = spec.fork_count;
  if (spec.scores_prompt) sequence->scored_token_count = sequence->prompt_token_count - 1;
  sequence->arrival = now_;
  return sequence;
}

void Scheduler::Remove(SequenceId id) {
  Sequence& sequence = sequences_.all.At(id);
  if (sequence.uses_cache()) arrivals_.OnWaiterGone(sequence.hashes, now_);
  if (sequence.state == Sequence::State::kWaiting) {
    blocks_.UnwantAll(sequence);
    waiting_.Erase(sequence);
  } else {
    std::erase(sequences_.running, &sequence);
    coming_forks_ -= sequence.fork_count;
    blocks_.Release(sequence);
  }
  shares_.majority().OnWent(sequence.tenant);
  cache_.tenants().Leave(sequence.tenant);
  sequences_.all.Erase(id);
  sequences_.ids.Return(id);
}

// ---- one step ----

const std::vector<ScheduledSlice>& Scheduler::Schedule() {
  slices_.clear();
  copies_.clear();
  const std::uint32_t decode_count = SurveyRunning();
  const std::uint32_t budget = options_.max_batch_tokens - decode_count;
  waits_.BeginStep(std::max(1U, budget));
  budget_.BeginStep(decode_count);
  if (arrivals_.has_ended()) {
    sequences_.VisitAll([this](Sequence& each) {
      if (each.state == Sequence::State::kWaiting && waits_.IsLeftBehind(each)) LookUp(each);
    });
  }
  DealOutAll(budget, decode_count);
  PlanSlices();
  // A running sequence may end with this step and make room for one that waits.
  if (!slices_.empty() || !sequences_.running.empty()) waits_.OnBusy();
  return slices_;
}

// Sequences are served in order of admission, and only later ones are preempted, so a planned slice stays planned.
void Scheduler::PlanSlices() {
  for (std::size_t i = 0; i < sequences_.running.size();) {
    Sequence& sequence = *sequences_.running[i];
    const std::uint32_t dealt_token_count = std::exchange(sequence.dealt_token_count, 0);
    const std::uint32_t token_count = sequence.decoding() ? 1 : dealt_token_count;
    if (token_count > 0 && SecureBlocks(sequence, token_count)) slices_.push_back(SliceOf(sequence, token_count));
    if (sequence.state == Sequence::State::kRunning) ++i;
  }
}

// If space can only be made by preempting the other sharers, perhaps the last block is no longer shared, and no copy is
// needed.
bool Scheduler::SecureBlocks(Sequence& sequence, std::uint32_t token_count) {
  while (blocks_.WritesToSharedBlock(sequence)) {
    if (!blocks_.CopyLast(sequence) && !MakeRoom(sequence)) return false;
  }
  const std::uint32_t needed = blocks_.BlocksFor(sequence.computed_token_count + token_count);
  while (sequence.blocks.size() < needed) {
    if (!blocks_.Grow(sequence) && !MakeRoom(sequence)) return false;
  }
  return true;
}

bool Scheduler::MakeRoom(const Sequence& sequence) {
  if (arrivals_.GiveWay()) return true;
  if (cache_.EvictHeld(sequence.group)) return true;
  if (sequences_.running.size() == 1 && cache_.claims().pinned_count() > 0) {
    cache_.claims().UnpinAll();
    ++counters_.dropped_pins;
    return true;
  }
  Sequence& victim = shares_.VictimFor(sequence, sequences_.running);
  Preempt(victim);
  return &victim != &sequence;
}

void Scheduler::Preempt(Sequence& sequence) {
  std::erase(sequences_.running, &sequence);
  coming_forks_ -= sequence.fork_count;
  blocks_.Release(sequence);
  waiting_.Push(sequence, WaitingRank::Class::kPreempted);
  ++counters_.preemptions;
}

void Scheduler::Commit() {
  shares_.OnCommit(slices_);
  for (const ScheduledSlice& slice : slices_) {
    Sequence& sequence = sequences_.all.At(slice.sequence->id);
    if (!slice.is_decode) shares_.majority().OnComputed(sequence.tenant, slice.token_count);
    blocks_.CommitSlice(sequence, slice);
  }
}

void Scheduler::NotePace(const StepSample& step, std::uint64_t tokens_before) {
  const std::optional<double> growth = pace_.Note(step, tokens_before);
  shares_.NotePace(step);
  if (growth) cache_.claims().SetRecomputeCost({.growth = static_cast<float>(*growth * block_tokens_)});
}

Scheduler::PrefillTimes Scheduler::PrefillTimesOf(const Sequence& sequence) const {
  const std::uint32_t cached = sequence.cached_token_count;
  return {.saved_seconds = std::max(0.0, pace_.PromptSeconds(0, cached) - ToSeconds(sequence.awaited_arrivals)),
          .computed_seconds = pace_.PromptSeconds(cached, sequence.prompt_token_count - cached)};
}

// ---- tokens ----

void Scheduler::Append(SequenceId id, std::span<const TokenId> tokens) { Append(sequences_.all.At(id), tokens); }

void Scheduler::Append(Sequence& sequence, std::span<const TokenId> tokens) const {
  ROOST_CHECK(sequence.remaining_count() == 0 && sequence.token_count() + tokens.size() <= options_.max_context_tokens);
  sequence.tokens.insert(sequence.tokens.end(), tokens.begin(), tokens.end());
}

void Scheduler::AppendAwaited(SequenceId id, std::uint32_t draw) {
  constexpr TokenId kPlace = 0;
  Sequence& sequence = sequences_.all.At(id);
  Append(sequence, std::span(&kPlace, 1));
  sequence.awaited_draw = draw;
}

void Scheduler::Resolve(SequenceId id, TokenId token) {
  Sequence& sequence = sequences_.all.At(id);
  ROOST_CHECK(sequence.awaited_draw.has_value(), "sequence {} awaits no token", id.value());
  sequence.tokens.back() = token;
  sequence.awaited_draw.reset();
  if (blocks_.PrepareCommit(sequence)) resolved_.push_back(id);
}

// Some of the sequences may have been removed.
void Scheduler::CommitResolved() {
  for (const SequenceId id : resolved_) {
    if (Sequence* const sequence = sequences_.all.Find(id)) blocks_.Commit(*sequence);
  }
  resolved_.clear();
}

SequenceId Scheduler::Fork(SequenceId id) {
  Sequence& origin = sequences_.all.At(id);
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
  fork->id = sequences_.ids.Take();
  fork->fork_count = 0;
  cache_.tenants().Join(fork->tenant);
  shares_.majority().OnCame(fork->tenant);
  for (const BlockId block : fork->blocks) cache_.Share(block);
  sequences_.running.push_back(fork.get());
  const SequenceId fork_id = fork->id;
  sequences_.all.Put(fork_id, std::move(fork));
  return fork_id;
}

bool Scheduler::CanFork(SequenceId id) const { return sequences_.all.At(id).fork_count > 0 || HasPlaceFor(1); }

bool Scheduler::HasPlaceFor(std::uint32_t sequence_count) const {
  return sequences_.running.size() + coming_forks_ + sequence_count <= most_running_;
}

// ---- sums and checks ----

wire::Load Scheduler::Load() const {
  wire::Load load;
  load.waiting_requests = waiting_count();
  load.running_requests = running_count();
  load.queued_prefill_tokens = waiting_.uncached_count();
  for (const Sequence* sequence : sequences_.running) {
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
  const Sequence* broken = nullptr;
  sequences_.VisitAll([&](const Sequence& each) {
    for (const BlockId block : each.blocks) ++references[block.value()];
    const bool waiting = each.state == Sequence::State::kWaiting;
    waiting_uncached += waiting ? each.expected_uncached_count : 0;
    coming_forks += waiting ? 0 : each.fork_count;
    const bool has_table = each.blocks.size() == blocks_.BlocksFor(each.computed_token_count);
    if (!has_table || (waiting && !each.blocks.empty()) || each.computed_token_count > each.token_count()) {
      broken = &each;
    }
  });
  if (broken != nullptr) {
    return Error{ErrorCode::kInternal,
                 fmt::format("sequence {} has {} blocks for {} of {} tokens", broken->id.value(), broken->blocks.size(),
                             broken->computed_token_count, broken->token_count()),
                 "scheduler"};
  }
  if (waiting_.size() + sequences_.running.size() != sequences_.all.size() ||
      waiting_uncached != waiting_.uncached_count() || coming_forks != coming_forks_) {
    return Error{ErrorCode::kInternal, "the queues and the sequences disagree", "scheduler"};
  }
  arrivals_.CountReferences(references);
  return cache_.CheckInvariants(references);
}

}  // namespace roost::worker
