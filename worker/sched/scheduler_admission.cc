// Gives prompt tokens of a step to running sequences and to waiting ones, which it admits if they have room or others
// give way to them.
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
// The most waiting sequences that a step looks up in the cache for their tenants' shares.
constexpr int kMaxLookedUp = 8;

// A preempted sequence was admitted after all that still run, so it never goes before them.
bool GoesBefore(const Sequence& waiting, const WaitingRank& running) {
  return waiting.rank.standing == WaitingRank::Class::kNew && waiting.rank < running;
}

}  // namespace

// Others have the time that is owed to them first, if any of them can use it now.
void Scheduler::DealOutAll(std::uint32_t budget, std::uint32_t decode_count) {
  budget_.SetYieldingRoom(shares_.BeginStep(now_, decode_count));
  if (shares_.IsOwed()) {
    DealOut(budget);
    if (shares_.ServesOthers(sequences_.running)) return;
    budget_.SetYieldingRoom(shares_.RoomForYielding(decode_count));
  }
  DealOut(budget);
}

// Serves the lowest rank first, among the running sequences with a partly computed prompt and the waiting ones. So
// under a policy that prefers short prompts, a long prompt does not block a short one.
void Scheduler::DealOut(std::uint32_t budget) {
  budget -= StartByShare(budget);
  const LateWork late = DealLate(budget);
  budget_.BeginTurns(budget - late.dealt_token_count,
                     late.dealt_token_count == 0 ? StepBudget::Length::kMayBeShort : StepBudget::Length::kFull);
  std::uint32_t passed_over = 0;
  bool may_admit = !late.lacks_room;
  Sequence* waiting = may_admit ? waiting_.First() : nullptr;
  std::size_t served = 0;
  while (budget_.left() > 0) {
    Sequence* const partial = served < partial_.size() ? partial_[served].sequence : nullptr;
    if (waiting != nullptr && (partial == nullptr || GoesBefore(*waiting, partial_[served].rank))) {
      const WaitingRank rank = waiting->rank;
      if (shares_.Yields(*waiting) && budget_.yielding_room() == 0) {
        waiting = waiting_.After(rank);
        continue;
      }
      switch (TryAdmit(*waiting, budget_.left(), PausedBehind(*waiting, served, budget_.in_part()))) {
        case Admission::kStarted: DealInTurn(*waiting, partial_.size() - served + waiting_.size()); break;
        case Admission::kPassedOver: ++passed_over; break;
        case Admission::kAwaitsArrival: break;
        case Admission::kRefused: may_admit = false; break;
      }
      waiting = may_admit && passed_over < kMaxPassedOver ? waiting_.After(rank) : nullptr;
    } else if (partial != nullptr) {
      ++served;
      DealInTurn(*partial, partial_.size() - served + waiting_.size());
    } else {
      return;
    }
  }
}

void Scheduler::DealInTurn(Sequence& sequence, std::size_t later_count) {
  sequence.dealt_token_count += budget_.DealInTurn(PromptOf(sequence), later_count);
}

std::uint32_t Scheduler::Deal(Sequence& sequence, std::uint32_t limit) {
  const std::uint32_t token_count = budget_.Deal(PromptOf(sequence), limit);
  sequence.dealt_token_count += token_count;
  return token_count;
}

StepBudget::Prompt Scheduler::PromptOf(const Sequence& sequence) const {
  return {.left = sequence.remaining_count() - sequence.dealt_token_count,
          .scores = sequence.scoring(),
          .yields = shares_.Yields(sequence)};
}

// Under a policy that prefers short prompts, a long one could wait as long as short ones come. It gets its first token
// in time from a reserved part of the budget; the rest limits what the short ones lose. While there is no space for it,
// no other sequence may take what becomes free.
Scheduler::LateWork Scheduler::DealLate(std::uint32_t budget) {
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

// Leaves in late_ the oldest sequences without a token that together need the largest share of the budget to have their
// first tokens in time. Returns that share: the processor demand under earliest deadline first (Baruah, Rosier, Howell,
// Algorithms and complexity concerning the preemptive scheduling of periodic, real-time tasks, 1990).
double Scheduler::CollectLate() {
  late_.clear();
  const double token_seconds = pace_.mean_token_seconds();
  if (!options_.first_token_target || token_seconds <= 0) return 0;
  for (const Partial& partial : partial_) late_.push_back(partial.sequence);
  std::uint32_t looked_at = 0;
  for (Sequence* oldest = waiting_.Oldest(); oldest != nullptr && looked_at < kOldestLookedAt; ++looked_at) {
    late_.push_back(oldest);
    oldest = waiting_.YoungerThan(*oldest);
  }
  std::erase_if(late_, [](const Sequence* each) { return each->token_count() > each->prompt_token_count; });
  std::sort(late_.begin(), late_.end(), [](const Sequence* a, const Sequence* b) { return a->age() < b->age(); });
  double seconds = 0;
  double needed_share = 0;
  std::size_t needed_count = 0;
  for (std::size_t i = 0; i < late_.size(); ++i) {
    const Sequence& sequence = *late_[i];
    const bool waits = sequence.state == Sequence::State::kWaiting;
    seconds += token_seconds * (waits ? sequence.expected_uncached_count : sequence.remaining_count());
    const double left = ToSeconds(sequence.arrival + *options_.first_token_target - now_);
    const double share = left > 0 ? seconds / left : std::numeric_limits<double>::infinity();
    if (share <= needed_share) continue;
    needed_share = share;
    needed_count = i + 1;
  }
  late_.resize(needed_count);
  return needed_share;
}

// Sets partial_, and counts the blocks that the running sequences need for their tokens, including this step's. Returns
// how many sequences decode.
std::uint32_t Scheduler::SurveyRunning() {
  partial_.clear();
  promised_block_count_ = 0;
  std::uint32_t decode_count = 0;
  for (Sequence* sequence : sequences_.running) {
    if (sequence->remaining_count() == 0) continue;
    if (sequence->decoding()) {
      ++decode_count;
    } else {
      blocks_.MatchAgain(*sequence);
      waiting_.LosePatience(*sequence);
      InsertPartial(*sequence);
    }
    promised_block_count_ += blocks_.MissingBlocks(*sequence);
  }
  return decode_count;
}

void Scheduler::InsertPartial(Sequence& sequence) {
  const WaitingRank rank = waiting_.RankOf(sequence, sequence.remaining_count());
  const auto after =
      std::find_if(partial_.begin(), partial_.end(), [&](const auto& other) { return rank < other.rank; });
  partial_.insert(after, {rank, &sequence});
}

std::size_t Scheduler::PausedBehind(const Sequence& sequence, std::size_t served,
                                    const StepBudget::InPart& in_part) const {
  if (!shares_.IsYielding() || shares_.Yields(sequence)) {
    return partial_.size() - served + in_part.scored + in_part.yielded;
  }
  const auto others = std::count_if(partial_.begin() + static_cast<std::ptrdiff_t>(served), partial_.end(),
                                    [this](const Partial& each) { return !shares_.Yields(*each.sequence); });
  return static_cast<std::size_t>(others) + in_part.scored;
}

// `paused_count` is the number of sequences with a partly computed prompt that would come after this one.
Scheduler::Admission Scheduler::TryAdmit(Sequence& sequence, std::uint32_t budget, std::size_t paused_count) {
  if (!HasPlaceFor(1 + sequence.fork_count)) return Admission::kRefused;
  if (sequence.awaited_draw) return Admission::kPassedOver;  // preempted for another in this step
  if (budget_.MostFor(PromptOf(sequence)) == 0) return Admission::kPassedOver;
  const WaitingRank rank = sequence.rank;
  if (!waits_.GoesOn(sequence)) LookUp(sequence);
  if (sequence.awaited && sequence.awaited->arrival) {
    waits_.OnTurn(*sequence.awaited);
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
  const bool ends = uncached <= budget && uncached <= budget_.MostFor(PromptOf(sequence));
  return ends || paused_count < options_.max_partial_prefills;
}

// Sets `matched_`, and what the sequence awaits.
void Scheduler::LookUp(Sequence& sequence) {
  matched_.clear();
  const std::uint32_t matchable = sequence.MatchableBlocks(block_tokens_);
  if (sequence.uses_cache()) cache_.Match(sequence.chain(), matchable, matched_);
  const std::uint32_t expected = waits_.LookFor(sequence, static_cast<std::uint32_t>(matched_.size()), matchable);
  waiting_.ExpectUncached(sequence, sequence.token_count() - expected * block_tokens_);
}

// Starts it with its match, which is in `matched_`. Memory for its output is reserved only here, so that waiting
// sequences hold none.
void Scheduler::Start(Sequence& sequence) {
  waiting_.Erase(sequence);
  sequence.tokens.reserve(sequence.most_tokens);
  sequence.hashes.reserve(sequence.most_tokens / block_tokens_);
  sequence.blocks.reserve(blocks_.BlocksFor(sequence.most_tokens));
  sequence.state = Sequence::State::kRunning;
  sequence.was_given_way = false;
  sequences_.running.push_back(&sequence);
  coming_forks_ += sequence.fork_count;
  blocks_.TakeMatch(sequence, matched_);
  promised_block_count_ += blocks_.MissingBlocks(sequence);
}

// ---- room ----

// The blocks for all known tokens and for the first sampled token of the sequence and of each fork. `matched_` is its
// match.
Scheduler::Need Scheduler::NeedOf(const Sequence& sequence) const {
  Need need{.block_count = blocks_.BlocksFor(sequence.token_count() + 1) - matched_.size() + sequence.fork_count};
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
  if (sequences_.running.empty()) return true;
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

// ---- tenants' shares ----

// It is the first waiting sequence that its tenant's share is for, if it lacks a place or space, and others must give
// that up. It needs to be the first in the step, because those that give up go to the front of the queue.
std::uint32_t Scheduler::StartByShare(std::uint32_t budget) {
  if (shares_.majority().tenant_count() < 2 || waiting_.size() == 0) return 0;
  shares_.Survey(sequences_.running);
  int looked_up = 0;
  Sequence* waiting = shares_.IsAnyoneAbove() ? waiting_.First() : nullptr;
  for (; waiting != nullptr && looked_up < kMaxLookedUp; waiting = waiting_.After(waiting->rank)) {
    const std::size_t block_count = blocks_.BlocksFor(waiting->token_count() + 1) + waiting->fork_count;
    if (!MayLack(*waiting) || !shares_.IsWithinShare(*waiting, block_count)) continue;
    ++looked_up;
    if (!GiveWayTo(*waiting, budget)) continue;
    (void)SurveyRunning();
    if (TryAdmit(*waiting, budget, 0) != Admission::kStarted) return 0;
    InsertPartial(*waiting);
    return Deal(*waiting, budget);
  }
  return 0;
}

// False if it is sure that it does not lack a place or blocks, whatever it finds in the cache, or that nothing can be
// done for it now.
bool Scheduler::MayLack(const Sequence& sequence) const {
  if (sequence.was_given_way || sequence.awaited_draw) return false;
  const std::size_t most = blocks_.BlocksFor(sequence.token_count() + 1) + sequence.fork_count + promised_block_count_;
  return !HasPlaceFor(1 + sequence.fork_count) || most > cache_.available_count();
}

// Its match is in matched_.
TenantShares::Lack Scheduler::LackOf(Sequence& sequence) const {
  TenantShares::Lack lack;
  const std::size_t places = sequences_.running.size() + coming_forks_ + 1 + sequence.fork_count;
  lack.places = static_cast<std::uint32_t>(places - std::min<std::size_t>(places, most_running_));
  if (HasRoomFor(sequence)) return lack;
  const Need need = NeedOf(sequence);
  const std::size_t needed = need.block_count + promised_block_count_ + need.available_matched;
  lack.blocks = needed - std::min<std::size_t>(needed, cache_.available_count());
  return lack;
}

// True if it has a place and space once arrivals give way: for the rest, sequences of tenants above their shares were
// preempted. Preempts nothing if that would not be enough or too many prompts would pause, and only once until it
// starts: what they leave may be held.
bool Scheduler::GiveWayTo(Sequence& sequence, std::uint32_t budget) {
  if (!waits_.GoesOn(sequence)) LookUp(sequence);
  if (sequence.awaited || !MayStartPrefill(sequence, budget, PausedBehind(sequence, 0, {}))) return false;
  TenantShares::Lack lack = LackOf(sequence);
  if (lack.places == 0 && lack.blocks == 0) return false;
  lack.blocks -= std::min(lack.blocks, arrivals_.HeldAloneCount());
  const std::optional<std::span<Sequence* const>> giving = shares_.WhoGives(sequences_.running, lack);
  if (!giving) return false;
  for (Sequence* each : *giving) Preempt(*each);
  sequence.was_given_way = !giving->empty();
  return true;
}

}  // namespace roost::worker
