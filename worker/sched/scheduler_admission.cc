// The part of the scheduler for waiting sequences: what is cached for them, which running sequence computes their
// blocks, and which is admitted next.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "common/base/check.h"
#include "worker/sched/scheduler.h"

namespace roost::worker {
namespace {

// Shares of the prefill budget. Sequences are served first if they need at least kLateShare to meet
// first_token_target; they get at most kMaxLateShare.
constexpr double kLateShare = 0.5;
constexpr double kMaxLateShare = 0.8;
// The number of oldest waiting sequences that a step checks for this.
constexpr std::uint32_t kOldestLookedAt = 64;

// The number of prompts that one more step delays, per waiting prompt: it also delays those that arrive before the
// queue is empty. With 3, too many steps are short if each takes 25 ms besides its prefill; with 10 nothing is lost
// (roostctl simulate --step-base-ms).
constexpr double kHeldUpByEach = 10;

}  // namespace

// Serves the lowest rank first, among the running sequences with a partly computed prompt and the waiting ones. So
// under a policy that prefers short prompts, a long prompt does not block a short one.
void Scheduler::DealOut(std::uint32_t budget) {
  budget -= ScheduleShares(budget);
  const LateWork late = ScheduleLate(budget);
  budget -= late.dealt_token_count;
  const bool may_be_short = options_.short_step_tokens > 0 && late.dealt_token_count == 0;
  Room room{.budget = budget, .dealable = budget, .for_short = may_be_short ? options_.short_step_tokens : budget};
  std::uint32_t passed_over = 0;
  bool may_admit = !late.lacks_room;
  Sequence* waiting = may_admit ? waiting_.First() : nullptr;
  std::size_t served = 0;
  while (room.budget > 0) {
    Sequence* const partial = served < partial_.size() ? partial_[served].sequence : nullptr;
    if (waiting != nullptr && (partial == nullptr || GoesBefore(*waiting, partial_[served].rank))) {
      const WaitingRank rank = waiting->rank;
      if (Yields(*waiting) && yielding_room_ == 0) {
        waiting = waiting_.After(rank);
        continue;
      }
      switch (TryAdmit(*waiting, room.budget, PausedBehind(*waiting, served, room))) {
        case Admission::kStarted: DealFrom(room, *waiting, partial_.size() - served + waiting_.size()); break;
        case Admission::kPassedOver: ++passed_over; break;
        case Admission::kAwaitsArrival: break;
        case Admission::kRefused: may_admit = false; break;
      }
      waiting = may_admit && passed_over < kMaxPassedOver ? waiting_.After(rank) : nullptr;
    } else if (partial != nullptr) {
      ++served;
      DealFrom(room, *partial, partial_.size() - served + waiting_.size());
    } else {
      return;
    }
  }
}

void Scheduler::DealFrom(Room& room, Sequence& sequence, std::size_t later_count) {
  const std::uint32_t wanted = DealableTo(sequence);
  const std::uint32_t dealt = Deal(sequence, std::min(room.budget, room.dealable));
  room.budget -= std::min(room.budget, wanted);
  room.dealable -= dealt;
  room.for_short -= std::min(room.for_short, dealt);
  const bool is_complete = sequence.dealt_token_count == sequence.remaining_count();
  if (is_complete) ++room.complete_count;
  if (!is_complete && Yields(sequence)) {
    ++room.yielded_in_part;
  } else if (!is_complete && sequence.scoring()) {
    ++room.scored_in_part;
  }
  if (ShouldEnd(room, later_count)) room.dealable = std::min(room.dealable, room.for_short);
}

// True if a step that has completed prompts should be short. The tokens that it leaves out are a fraction of a full
// step. The first tokens come earlier by this fraction of a full step's prefill time; all others come later by this
// fraction of a step's fixed time, which is what it takes besides its prefill.
bool Scheduler::ShouldEnd(const Room& room, std::size_t later_count) const {
  if (room.complete_count == 0) return false;
  const double rate = rates_.prefill_tokens_per_second();
  if (rate <= 0) return true;
  const double full_step_seconds = options_.max_batch_tokens / rate;
  const double step_more_seconds = rates_.seconds_beside_prefill(options_.max_batch_tokens - prefill_budget_);
  const double held_up_count = kHeldUpByEach * static_cast<double>(later_count);
  return room.complete_count * full_step_seconds >= held_up_count * step_more_seconds;
}

std::uint32_t Scheduler::Deal(Sequence& sequence, std::uint32_t limit) {
  const std::uint32_t token_count = std::min(limit, DealableTo(sequence));
  if (sequence.scoring()) scored_room_ -= token_count;
  if (Yields(sequence)) yielding_room_ -= token_count;
  sequence.dealt_token_count += token_count;
  return token_count;
}

std::uint32_t Scheduler::DealableTo(const Sequence& sequence) const {
  std::uint32_t most = sequence.remaining_count() - sequence.dealt_token_count;
  if (sequence.scoring()) most = std::min(most, scored_room_);
  if (Yields(sequence)) most = std::min(most, yielding_room_);
  return most;
}

// Under a policy that prefers short prompts, a long one could wait as long as short ones come. It gets its first token
// in time from a reserved part of the budget; the rest limits what the short ones lose. While there is no space for it,
// no other sequence may take what becomes free.
Scheduler::LateWork Scheduler::ScheduleLate(std::uint32_t budget) {
  const double needed_share = CollectLate();
  if (needed_share < kLateShare) return {};
  const auto limit = static_cast<std::uint32_t>(std::ceil(budget * std::min(needed_share, kMaxLateShare)));
  LateWork result;
  for (Sequence* sequence : late_) {
    const std::uint32_t left = limit - result.dealt_token_count;
    if (left == 0) break;
    if (sequence->state == Sequence::State::kWaiting) {
      const Admission admission = TryAdmit(*sequence, left, 0);
      result.lacks_room = admission == Admission::kRefused;
      if (result.lacks_room) break;
      if (admission != Admission::kStarted) continue;
      InsertPartial(*sequence);
    }
    result.dealt_token_count += Deal(*sequence, left);
  }
  return result;
}

// Leaves in late_ the oldest sequences that together need the largest share of the budget to have their first
// tokens in time. Returns that share: the processor demand under earliest deadline first (Baruah, Rosier, Howell,
// Algorithms and complexity concerning the preemptive scheduling of periodic, real-time tasks, 1990).
double Scheduler::CollectLate() {
  late_.clear();
  if (!options_.first_token_target || paced_seconds_ <= 0) return 0;
  CollectWithoutToken();
  double seconds = 0;
  double needed_share = 0;
  std::size_t needed_count = 0;
  for (std::size_t i = 0; i < late_.size(); ++i) {
    const Sequence& sequence = *late_[i];
    const bool waits = sequence.state == Sequence::State::kWaiting;
    seconds += paced_seconds_ / paced_tokens_ * (waits ? sequence.expected_uncached_count : sequence.remaining_count());
    const double left = ToSeconds(sequence.arrival + *options_.first_token_target - now_);
    const double share = left > 0 ? seconds / left : std::numeric_limits<double>::infinity();
    if (share <= needed_share) continue;
    needed_share = share;
    needed_count = i + 1;
  }
  late_.resize(needed_count);
  return needed_share;
}

void Scheduler::CollectWithoutToken() {
  for (const Partial& partial : partial_) late_.push_back(partial.sequence);
  std::uint32_t looked_at = 0;
  for (Sequence* oldest = waiting_.Oldest(); oldest != nullptr && looked_at < kOldestLookedAt; ++looked_at) {
    late_.push_back(oldest);
    oldest = waiting_.YoungerThan(*oldest);
  }
  std::erase_if(late_, [](const Sequence* each) { return each->token_count() > each->prompt_token_count; });
  std::sort(late_.begin(), late_.end(), [](const Sequence* a, const Sequence* b) { return a->age() < b->age(); });
}

// Sets partial_, and counts the blocks that the running sequences need for their tokens, including this step's. Returns
// how many sequences decode.
std::uint32_t Scheduler::SurveyRunning() {
  partial_.clear();
  promised_block_count_ = 0;
  std::uint32_t decode_count = 0;
  for (Sequence* sequence : running_) {
    if (sequence->remaining_count() == 0) continue;
    if (sequence->decoding()) {
      ++decode_count;
    } else {
      MatchAgain(*sequence);
      waiting_.LosePatience(*sequence);
      InsertPartial(*sequence);
    }
    promised_block_count_ += BlocksFor(sequence->token_count()) - sequence->blocks.size();
    if (WritesToSharedBlock(*sequence)) ++promised_block_count_;
  }
  return decode_count;
}

void Scheduler::InsertPartial(Sequence& sequence) {
  const WaitingRank rank = waiting_.RankOf(sequence, sequence.remaining_count());
  const auto after =
      std::find_if(partial_.begin(), partial_.end(), [&](const auto& other) { return rank < other.rank; });
  partial_.insert(after, {rank, &sequence});
}

// A preempted sequence was admitted after all that still run, so it never goes before them.
bool Scheduler::GoesBefore(const Sequence& waiting, const WaitingRank& running) {
  return waiting.rank.standing == WaitingRank::Class::kNew && waiting.rank < running;
}

// `paused_count` is the number of sequences with a partly computed prompt that would come after this one.
Scheduler::Admission Scheduler::TryAdmit(Sequence& sequence, std::uint32_t budget, std::size_t paused_count) {
  if (!HasPlaceFor(1 + sequence.fork_count)) return Admission::kRefused;
  if (sequence.awaited_draw) return Admission::kPassedOver;  // preempted for another in this step
  if (DealableTo(sequence) == 0) return Admission::kPassedOver;
  const WaitingRank rank = sequence.rank;
  if (!IsAwaitingPrefix(sequence)) LookUp(sequence);
  if (sequence.awaited && sequence.awaited->arrival) {
    BeginWait(*sequence.awaited);
    return Admission::kAwaitsArrival;
  }
  // A sequence that has more to compute than expected may have moved back in the queue; the loop meets it again there.
  if (sequence.awaited || rank < sequence.rank) return Admission::kPassedOver;
  if (!MakeRoomFor(sequence) || !MayStartPrefill(sequence, budget, paused_count)) return Admission::kRefused;
  Start(sequence);
  return Admission::kStarted;
}

// A prefill that does not end in this step adds one partial prefill.
bool Scheduler::MayStartPrefill(const Sequence& sequence, std::uint32_t budget, std::size_t paused_count) const {
  if (options_.max_partial_prefills == 0) return true;
  const auto uncached = sequence.token_count() - static_cast<std::uint32_t>(matched_.size()) * block_tokens_;
  const bool ends = uncached <= budget && uncached <= DealableTo(sequence);
  return ends || paused_count < options_.max_partial_prefills;
}

bool Scheduler::WritesToSharedBlock(const Sequence& sequence) const {
  if (!sequence.forked) return false;
  const bool fills_last = sequence.computed_token_count % block_tokens_ != 0;
  return fills_last && !sequence.blocks.empty() && cache_.pool().references(sequence.blocks.back()) > 1;
}

// Sets `matched_`, and the prefix that the sequence awaits.
void Scheduler::LookUp(Sequence& sequence) {
  matched_.clear();
  if (sequence.uses_cache()) cache_.Match(sequence.chain(), MatchableBlocks(sequence), matched_);
  const auto matched_count = static_cast<std::uint32_t>(matched_.size());
  Expect(sequence, matched_count);
  AwaitIfBeingComputed(sequence, matched_count);
}

// Wanted blocks are limited to half of the pool.
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
  return sequence.awaited && IsWorthWaiting(*sequence.awaited) && IsBeingComputed(*sequence.awaited);
}

bool Scheduler::IsWorthWaiting(const Sequence::AwaitedPrefix& prefix) const {
  if (prefix.arrival) return !prefix.arrival->since || now_ < PatienceWith(prefix);
  return step_ <= prefix.last_step || now_ < prefix.until;
}

// The wait counts from the first time that it is the sequence's turn.
void Scheduler::BeginWait(Sequence::AwaitedPrefix& prefix) {
  if (!prefix.arrival->since) {
    prefix.arrival->since = now_;
    prefix.arrival->first_position = arrivals_.NextPosition(prefix.arrival->hold).value_or(0);
  }
  const Instant end = PatienceWith(prefix);
  arrivals_awaited_until_ = arrivals_awaited_until_ ? std::min(*arrivals_awaited_until_, end) : end;
}

// The pace rule: until then this worker would have computed, since it was the sequence's turn, no more than what has
// come since and a tenth of the whole. Without a known pace the arrival's own patience decides.
Instant Scheduler::PatienceWith(const Sequence::AwaitedPrefix& prefix) const {
  constexpr double kLead = 0.1;
  const AwaitedArrival& arrival = *prefix.arrival;
  const std::optional<std::uint32_t> next = arrivals_.NextPosition(arrival.hold);
  if (!next) return *arrival.since;
  const double token_seconds = SecondsPerPromptToken();
  if (token_seconds <= 0) return now_ + std::chrono::hours(1);
  const double come = *next - arrival.first_position;
  const double whole = prefix.block_count - arrival.first_position;
  return *arrival.since + FromSeconds((come + kLead * whole) * block_tokens_ * token_seconds);
}

// In full steps, beside those that decode now. Not the mean of recent steps: those that compute the last token of a hit
// take long for a token.
double Scheduler::SecondsPerPromptToken() const {
  const StepSample full{
      .prefill_tokens = prefill_budget_,
      .decode_tokens = options_.max_batch_tokens - std::min(options_.max_batch_tokens, prefill_budget_)};
  const double seconds = rates_.prefill_step_seconds(full) / prefill_budget_;
  if (seconds > 0) return seconds;
  return paced_tokens_ > 0 ? paced_seconds_ / paced_tokens_ : 0;
}

bool Scheduler::IsBeingComputed(const Sequence::AwaitedPrefix& prefix) const {
  if (prefix.arrival) {
    const std::optional<std::uint32_t> next = arrivals_.NextPosition(prefix.arrival->hold);
    return next && *next < prefix.block_count;
  }
  const Sequence* const other = sequences_.Find(prefix.sequence);
  return other != nullptr && other->state == Sequence::State::kRunning && other->can_commit &&
         other->committed_block_count < prefix.block_count;
}

// If a running sequence computes the block after the match, this sequence awaits it, with all blocks that the two have
// in common after the match. The other sequence runs and awaits no sequence, so no cycle can form. A sequence that has
// given up once does not wait again.
void Scheduler::AwaitIfBeingComputed(Sequence& sequence, std::uint32_t matched_count) {
  const auto before = std::exchange(sequence.awaited, std::nullopt);
  if (before && !IsWorthWaiting(*before) && IsBeingComputed(*before)) {
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
    sequence.awaited = Await(*other, common, common - matched_count);
    Expect(sequence, common);
    return;
  }
  if (AwaitIfArriving(sequence, matched_count) && before && before->arrival &&
      before->arrival->hold == sequence.awaited->arrival->hold) {
    sequence.awaited->arrival = before->arrival;  // the wait goes on
  }
}

// Sequences whose arrival has ended have more to compute than expected, if it did not bring all.
void Scheduler::LookUpLeftBehind() {
  for (const auto& [id, sequence] : sequences_.slots()) {
    if (sequence == nullptr || sequence->state != Sequence::State::kWaiting) continue;
    const auto& awaited = sequence->awaited;
    if (awaited && awaited->arrival && !arrivals_.NextPosition(awaited->arrival->hold)) LookUp(*sequence);
  }
}

// If the block after the match is the next one of an arrival, the sequence awaits it and what else the two have in
// common.
bool Scheduler::AwaitIfArriving(Sequence& sequence, std::uint32_t matched_count) {
  const auto wanted = std::min<std::size_t>(MatchableBlocks(sequence), sequence.hashes.size());
  const auto coming = arrivals_.FindComing(std::span(sequence.hashes).first(wanted), matched_count, now_);
  if (!coming) return false;
  Promise(sequence, coming->blocks);
  if (!coming->id) return false;
  sequence.awaited = {
      .sequence = {}, .arrival = AwaitedArrival{.hold = *coming->id}, .block_count = coming->blocks.end};
  Expect(sequence, coming->blocks.end);
  return true;
}

void Scheduler::Promise(Sequence& sequence, BlockRange blocks) {
  BlockRange& promised = sequence.promised;
  if (promised.end > 0) blocks.first = std::min(blocks.first, promised.first);
  promised = {blocks.first, std::max(blocks.end, promised.end)};
}

// To compute `missing_count` blocks itself, the sequence would need this many steps, at the latest step's budget, and
// this much time, at the recent pace. One long step uses up the time, but not the steps.
Sequence::AwaitedPrefix Scheduler::Await(const Sequence& other, std::uint32_t block_count,
                                         std::uint32_t missing_count) const {
  const std::uint64_t tokens = std::uint64_t{missing_count} * block_tokens_;
  const double seconds = paced_tokens_ > 0 ? static_cast<double>(tokens) * paced_seconds_ / paced_tokens_ : 0;
  return {.sequence = other.id,
          .block_count = block_count,
          .last_step = step_ + (tokens + prefill_budget_ - 1) / prefill_budget_,
          .until = now_ + FromSeconds(seconds)};
}

// The blocks for all known tokens and for the first sampled token of the sequence and of each fork. `matched_` is its
// match.
Scheduler::Need Scheduler::NeedOf(const Sequence& sequence) const {
  Need need{.block_count = BlocksFor(sequence.token_count() + 1) - matched_.size() + sequence.fork_count};
  for (const BlockRef ref : matched_) {
    const bool is_held = cache_.claims().IsHeld(ref.block.value());
    need.available_matched += cache_.IsAvailable(ref) ? 1 : 0;
    need.held_matched += is_held ? 1 : 0;
    need.unkept_matched += is_held || cache_.claims().IsPinned(ref.block.value()) ? 0 : 1;
  }
  return need;
}

// True if there is space besides what was promised to others. The idle ones among the matched blocks stop being
// evictable. A sequence that runs alone always has space (see Submit).
bool Scheduler::HasRoomFor(Sequence& sequence) const {
  if (running_.empty()) return true;
  const Need need = NeedOf(sequence);
  const std::size_t needed = need.block_count + promised_block_count_;
  const std::size_t available = cache_.available_count() - need.available_matched;
  if (needed <= available) return true;
  return needed <= available + cache_.claims().held_count() - need.held_matched && MayTakeHeld(sequence, need);
}

// Arrivals give way if that makes the room.
bool Scheduler::MakeRoomFor(Sequence& sequence) {
  if (HasRoomFor(sequence)) return true;
  const std::size_t alone = arrivals_.HeldAloneCount();
  if (alone == 0) return false;
  const Need need = NeedOf(sequence);
  const std::size_t available = cache_.available_count() - need.available_matched;
  if (need.block_count + promised_block_count_ > available + alone) return false;
  while (!HasRoomFor(sequence)) {
    if (!arrivals_.GiveWay()) return false;
  }
  return true;
}

// The sequence fits if it takes held blocks. It waits instead while the running sequences will free enough, but no
// longer than a block is held.
bool Scheduler::MayTakeHeld(Sequence& sequence, const Need& need) const {
  const std::uint32_t kept = cache_.claims().held_count() + cache_.claims().pinned_count();
  const std::size_t most_room = cache_.pool().block_count() - std::min(kept, cache_.pool().block_count());
  if (need.block_count + need.unkept_matched > most_room) return true;
  if (!sequence.hold_patience_end) sequence.hold_patience_end = now_ + cache_.claims().min_hold();
  return now_ >= *sequence.hold_patience_end;
}

// Starts it with its match, which is in `matched_`. Memory for its output is reserved only here, so that waiting
// sequences hold none.
void Scheduler::Start(Sequence& sequence) {
  waiting_.Erase(sequence);
  sequence.tokens.reserve(sequence.most_tokens);
  sequence.hashes.reserve(sequence.most_tokens / block_tokens_);
  sequence.blocks.reserve(BlocksFor(sequence.most_tokens));
  sequence.state = Sequence::State::kRunning;
  sequence.was_given_way = false;
  running_.push_back(&sequence);
  coming_forks_ += sequence.fork_count;
  for (const BlockRef ref : matched_) TakeMatched(sequence, ref);
  UnwantAll(sequence);
  TakeTail(sequence);
  promised_block_count_ += BlocksFor(sequence.token_count()) - sequence.blocks.size();
}

void Scheduler::Expect(Sequence& sequence, std::uint32_t matched_count) {
  waiting_.ExpectUncached(sequence, sequence.token_count() - matched_count * block_tokens_);
}

}  // namespace roost::worker
