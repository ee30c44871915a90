// Tenants' shares of a step, of the running places and of the pool's blocks, while requests of several are here.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "common/base/check.h"
#include "worker/sched/scheduler.h"

namespace roost::worker {
namespace {

// A tenant that yields gets at least this part of a step, however short the step is without it.
constexpr std::uint32_t kMinPartOfYielding = 32;  // one in so many tokens
// While others may come, the fixed time of a step with decodes of its own is at most this part of it.
constexpr double kFixedPartAlone = 20;
constexpr Duration kOthersMayCome = std::chrono::seconds(30);
// The most waiting sequences that a step looks up in the cache for their tenants' shares.
constexpr int kMaxLookedUp = 8;

}  // namespace

// As many tokens as take the time of the step without them.
std::uint32_t Scheduler::RoomForYielding(std::uint32_t decode_count) const {
  const double tokens = rates_.seconds_beside_prefill(decode_count) * rates_.prefill_tokens_per_second();
  const std::uint32_t least = std::max(1U, options_.max_batch_tokens / kMinPartOfYielding);
  return std::max(least, static_cast<std::uint32_t>(std::min<double>(tokens, options_.max_batch_tokens)));
}

// Beside decodes all, until the fixed time of a step is known.
std::uint32_t Scheduler::RoomForMajority(std::uint32_t decode_count) {
  if (decode_count == 0) return majority_step_.Next();
  const double tokens = rates_.seconds_beside_prefill(decode_count) * rates_.prefill_tokens_per_second();
  if (tokens <= 0) return options_.max_batch_tokens;
  return static_cast<std::uint32_t>(std::clamp<double>(kFixedPartAlone * tokens, 1, options_.max_batch_tokens));
}

// Others have the time that is owed to them first, if any of them can use it now.
void Scheduler::DealOutShares(std::uint32_t budget, std::uint32_t decode_count) {
  yielding_ = majority_.Yielding();
  is_shortened_ = false;
  if (yielding_) {
    others_seen_ = now_;
    yielding_room_ = 0;
    if (owed_ > 0) DealOut(budget);
    if (owed_ > 0 && ServesOthers()) return;
    yielding_room_ = RoomForYielding(decode_count);
  } else if (others_seen_ && now_ - *others_seen_ <= kOthersMayCome) {
    yielding_ = majority_.Majority();
    yielding_room_ = RoomForMajority(decode_count);
    is_shortened_ = yielding_.has_value() && decode_count == 0;
  }
  DealOut(budget);
}

bool Scheduler::ServesOthers() const {
  return std::any_of(running_.begin(), running_.end(), [this](const Sequence* each) {
    if (Yields(*each)) return false;
    return each->dealt_token_count > 0 || (each->decoding() && each->remaining_count() > 0);
  });
}

// After a step: its tokens of the tenant with the majority are owed to others, and their time in it is paid back.
void Scheduler::CountOwed() {
  const std::optional<TenantId> before = std::exchange(owing_, majority_.Majority());
  if (owing_ != before) owed_ = 0;
  if (!owing_) return;
  std::uint32_t taken = 0;
  std::uint32_t given = 0;
  std::uint32_t decode_count = 0;
  bool serves_others = false;
  for (const ScheduledSlice& slice : slices_) {
    const bool is_owing = slice.sequence->tenant == owing_;
    decode_count += slice.is_decode ? 1 : 0;
    serves_others = serves_others || !is_owing;
    if (!slice.is_decode) (is_owing ? taken : given) += slice.token_count;
  }
  if (serves_others) given += RoomForYielding(decode_count);
  owed_ = std::min(options_.max_batch_tokens / 2, owed_ + taken);
  owed_ -= std::min(owed_, given);
}

std::size_t Scheduler::PausedBehind(const Sequence& sequence, std::size_t served, const Room& room) const {
  if (!yielding_ || Yields(sequence)) return partial_.size() - served + room.scored_in_part + room.yielded_in_part;
  const auto others = std::count_if(partial_.begin() + static_cast<std::ptrdiff_t>(served), partial_.end(),
                                    [this](const Partial& each) { return !Yields(*each.sequence); });
  return static_cast<std::size_t>(others) + room.scored_in_part;
}

// Starts the first waiting sequence that its tenant's share is for, if it lacks a place or space, and others must give
// that up. It needs to be the first in the step, because those that give up go to the front of the queue.
std::uint32_t Scheduler::ScheduleShares(std::uint32_t budget) {
  if (majority_.tenant_count() < 2 || waiting_.size() == 0) return 0;
  SurveyUse();
  const bool anyone_above = std::any_of(uses_.begin(), uses_.end(), [this](const Use& use) {
    return use.place_count > share_.place_count || use.block_count > share_.block_count;
  });
  int looked_up = 0;
  Sequence* waiting = anyone_above ? waiting_.First() : nullptr;
  for (; waiting != nullptr && looked_up < kMaxLookedUp; waiting = waiting_.After(waiting->rank)) {
    if (!MayLack(*waiting) || !IsWithinShare(*waiting)) continue;
    ++looked_up;
    if (GiveUpFor(*waiting, budget)) return StartFirst(*waiting, budget);
  }
  return 0;
}

std::uint32_t Scheduler::StartFirst(Sequence& sequence, std::uint32_t budget) {
  (void)SurveyRunning();
  if (TryAdmit(sequence, budget, 0) != Admission::kStarted) return 0;
  InsertPartial(sequence);
  return Deal(sequence, budget);
}

// False if it is sure that it does not lack a place or blocks, whatever it finds in the cache, or that nothing can be
// done for it now.
bool Scheduler::MayLack(const Sequence& sequence) const {
  if (sequence.was_given_way || sequence.awaited_draw) return false;
  const std::size_t most = BlocksFor(sequence.token_count() + 1) + sequence.fork_count + promised_block_count_;
  return LackingPlaces(sequence) > 0 || most > cache_.available_count();
}

void Scheduler::SurveyUse() {
  const std::uint32_t tenant_count = std::max(1U, majority_.tenant_count());
  uses_.clear();
  share_ = {.place_count = std::max(1U, MostRunning() / tenant_count),
            .block_count = cache_.pool().block_count() / tenant_count};
  for (const Sequence* sequence : running_) {
    Use& use = UseOfTenant(sequence->tenant);
    use.place_count += 1 + sequence->fork_count;
    use.block_count += sequence->blocks.size();
  }
}

Scheduler::Use& Scheduler::UseOfTenant(TenantId tenant) {
  const auto found = std::find_if(uses_.begin(), uses_.end(), [&](const Use& use) { return use.tenant == tenant; });
  return found != uses_.end() ? *found : uses_.emplace_back(Use{.tenant = tenant});
}

// With this sequence, and with its answer's first tokens.
bool Scheduler::IsWithinShare(const Sequence& sequence) {
  const Use& use = UseOfTenant(sequence.tenant);
  return use.place_count + 1 + sequence.fork_count <= share_.place_count &&
         use.block_count + BlocksFor(sequence.token_count() + 1) + sequence.fork_count <= share_.block_count;
}

// True if it has a place and space once arrivals give way: for the rest, sequences of tenants above their shares were
// preempted. Preempts nothing if that would not be enough or too many prompts would pause, and only once until it
// starts: what they leave may be held.
bool Scheduler::GiveUpFor(Sequence& sequence, std::uint32_t budget) {
  if (!IsAwaitingPrefix(sequence)) LookUp(sequence);
  if (sequence.awaited || !MayStartPrefill(sequence, budget, PausedBehind(sequence, 0, {}))) return false;
  std::uint32_t lacking_places = LackingPlaces(sequence);
  std::size_t lacking_blocks = LackingBlocks(sequence);
  if (lacking_places == 0 && lacking_blocks == 0) return false;
  lacking_blocks -= std::min(lacking_blocks, arrivals_.HeldAloneCount());
  giving_.clear();
  for (std::size_t i = running_.size(); i-- > 0 && (lacking_places > 0 || lacking_blocks > 0);) {
    Sequence& candidate = *running_[i];
    Use& use = UseOfTenant(candidate.tenant);
    const bool gives_place = lacking_places > 0 && use.place_count > share_.place_count;
    const bool gives_blocks = lacking_blocks > 0 && use.block_count > share_.block_count;
    if ((!gives_place && !gives_blocks) || IsFirstOfTenant(i)) continue;
    giving_.push_back(&candidate);
    const std::uint32_t places = 1 + candidate.fork_count;
    lacking_places -= std::min(lacking_places, places);
    lacking_blocks -= std::min(lacking_blocks, FreedBy(candidate));
    use.place_count -= places;
    use.block_count -= candidate.blocks.size();
  }
  if (lacking_places > 0 || lacking_blocks > 0) return false;
  for (Sequence* each : giving_) Preempt(*each);
  sequence.was_given_way = !giving_.empty();
  return true;
}

std::uint32_t Scheduler::LackingPlaces(const Sequence& sequence) const {
  const std::size_t needed = running_.size() + coming_forks_ + 1 + sequence.fork_count;
  return static_cast<std::uint32_t>(needed - std::min<std::size_t>(needed, MostRunning()));
}

// Its match is in matched_.
std::size_t Scheduler::LackingBlocks(Sequence& sequence) const {
  if (HasRoomFor(sequence)) return 0;
  const Need need = NeedOf(sequence);
  const std::size_t needed = need.block_count + promised_block_count_ + need.available_matched;
  return needed - std::min<std::size_t>(needed, cache_.available_count());
}

// The blocks that no other sequence uses.
std::size_t Scheduler::FreedBy(const Sequence& sequence) const {
  return static_cast<std::size_t>(std::count_if(sequence.blocks.begin(), sequence.blocks.end(), [this](BlockId block) {
    return cache_.pool().references(block) == 1;
  }));
}

bool Scheduler::IsFirstOfTenant(std::size_t running_index) const {
  const TenantId tenant = running_[running_index]->tenant;
  return std::none_of(running_.begin(), running_.begin() + static_cast<std::ptrdiff_t>(running_index),
                      [tenant](const Sequence* each) { return each->tenant == tenant; });
}

// The sequence that is preempted if `sequence` lacks a block: the last one of a tenant with more than its share of the
// blocks, else the last one of all. None that was admitted before `sequence`.
Sequence& Scheduler::VictimFor(const Sequence& sequence) {
  if (majority_.tenant_count() < 2) return *running_.back();
  SurveyUse();
  for (std::size_t i = running_.size(); i-- > 0;) {
    const bool is_above = UseOfTenant(running_[i]->tenant).block_count > share_.block_count;
    if (is_above && !IsFirstOfTenant(i)) return *running_[i];
    if (running_[i] == &sequence) break;
  }
  return *running_.back();
}

}  // namespace roost::worker
