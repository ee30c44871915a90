#include "worker/sched/tenant_shares.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace roost::worker {
namespace {

// A tenant that yields gets at least this part of a step, however short the step is without it.
constexpr std::uint32_t kMinPartOfYielding = 32;  // one in so many tokens
// While others may come, the fixed time of a step with decodes of its own is at most this part of it.
constexpr double kFixedPartAlone = 20;
constexpr Duration kOthersMayCome = std::chrono::seconds(30);

bool IsFirstOfTenant(TenantShares::Running running, std::size_t index) {
  const TenantId tenant = running[index]->tenant;
  const auto before = running.first(index);
  return std::none_of(before.begin(), before.end(), [tenant](const Sequence* each) { return each->tenant == tenant; });
}

}  // namespace

TenantShares::TenantShares(TenantBlocks& tenants, const BlockPool& pool, const StepPace& pace, std::uint32_t full_step,
                           std::uint32_t most_running)
    : pool_(pool),
      pace_(pace),
      full_step_(full_step),
      most_running_(most_running),
      majority_(tenants, std::uint64_t{kMajoritySteps} * full_step),
      majority_step_(full_step) {}

// ---- of a step ----

std::uint32_t TenantShares::BeginStep(Instant now, std::uint32_t decode_count) {
  yielding_ = majority_.Yielding();
  is_owed_ = yielding_ && owed_ > 0;
  is_shortened_ = false;
  if (yielding_) {
    others_seen_ = now;
    return is_owed_ ? 0 : RoomForYielding(decode_count);
  }
  if (!others_seen_ || now - *others_seen_ > kOthersMayCome) return 0;
  yielding_ = majority_.Majority();
  is_shortened_ = yielding_.has_value() && decode_count == 0;
  return RoomForMajority(decode_count);
}

std::uint32_t TenantShares::RoomForYielding(std::uint32_t decode_count) const {
  const double tokens = pace_.rates().seconds_beside_prefill(decode_count) * pace_.rates().prefill_tokens_per_second();
  const std::uint32_t least = std::max(1U, full_step_ / kMinPartOfYielding);
  return std::max(least, static_cast<std::uint32_t>(std::min<double>(tokens, full_step_)));
}

// The most prompt tokens of a step that the tenant with the majority has for itself while others may come. Beside
// decodes all, until the fixed time of a step is known.
std::uint32_t TenantShares::RoomForMajority(std::uint32_t decode_count) {
  if (decode_count == 0) return majority_step_.Next();
  const double tokens = pace_.rates().seconds_beside_prefill(decode_count) * pace_.rates().prefill_tokens_per_second();
  if (tokens <= 0) return full_step_;
  return static_cast<std::uint32_t>(std::clamp<double>(kFixedPartAlone * tokens, 1, full_step_));
}

bool TenantShares::ServesOthers(Running running) const {
  return std::any_of(running.begin(), running.end(), [this](const Sequence* each) {
    if (Yields(*each)) return false;
    return each->dealt_token_count > 0 || (each->decoding() && each->remaining_count() > 0);
  });
}

void TenantShares::OnCommit(std::span<const ScheduledSlice> slices) {
  const std::optional<TenantId> before = std::exchange(owing_, majority_.Majority());
  if (owing_ != before) owed_ = 0;
  if (!owing_) return;
  std::uint32_t taken = 0;
  std::uint32_t given = 0;
  std::uint32_t decode_count = 0;
  bool serves_others = false;
  for (const ScheduledSlice& slice : slices) {
    const bool is_owing = slice.sequence->tenant == owing_;
    decode_count += slice.is_decode ? 1 : 0;
    serves_others = serves_others || !is_owing;
    if (!slice.is_decode) (is_owing ? taken : given) += slice.token_count;
  }
  if (serves_others) given += RoomForYielding(decode_count);
  owed_ = std::min(full_step_ / 2, owed_ + taken);
  owed_ -= std::min(owed_, given);
}

void TenantShares::NotePace(const StepSample& step) {
  if (is_shortened_ && step.seconds > 0) majority_step_.Observe(step);
}

// ---- of places and blocks ----

void TenantShares::Survey(Running running) {
  const std::uint32_t tenant_count = std::max(1U, majority_.tenant_count());
  uses_.clear();
  share_ = {.place_count = std::max(1U, most_running_ / tenant_count),
            .block_count = pool_.block_count() / tenant_count};
  for (const Sequence* sequence : running) {
    Use& use = UseOf(sequence->tenant);
    use.place_count += 1 + sequence->fork_count;
    use.block_count += sequence->blocks.size();
  }
}

// Valid until the next call.
TenantShares::Use& TenantShares::UseOf(TenantId tenant) {
  const auto found = std::find_if(uses_.begin(), uses_.end(), [&](const Use& use) { return use.tenant == tenant; });
  return found != uses_.end() ? *found : uses_.emplace_back(Use{.tenant = tenant});
}

bool TenantShares::IsAnyoneAbove() const {
  return std::any_of(uses_.begin(), uses_.end(), [this](const Use& use) {
    return use.place_count > share_.place_count || use.block_count > share_.block_count;
  });
}

bool TenantShares::IsWithinShare(const Sequence& sequence, std::size_t block_count) {
  const Use& use = UseOf(sequence.tenant);
  return use.place_count + 1 + sequence.fork_count <= share_.place_count &&
         use.block_count + block_count <= share_.block_count;
}

std::optional<std::span<Sequence* const>> TenantShares::WhoGives(Running running, Lack lack) {
  giving_.clear();
  for (std::size_t i = running.size(); i-- > 0 && (lack.places > 0 || lack.blocks > 0);) {
    Sequence& candidate = *running[i];
    Use& use = UseOf(candidate.tenant);
    const bool gives_place = lack.places > 0 && use.place_count > share_.place_count;
    const bool gives_blocks = lack.blocks > 0 && use.block_count > share_.block_count;
    if ((!gives_place && !gives_blocks) || IsFirstOfTenant(running, i)) continue;
    giving_.push_back(&candidate);
    const std::uint32_t places = 1 + candidate.fork_count;
    lack.places -= std::min(lack.places, places);
    lack.blocks -= std::min(lack.blocks, FreedBy(candidate));
    use.place_count -= places;
    use.block_count -= candidate.blocks.size();
  }
  if (lack.places > 0 || lack.blocks > 0) return std::nullopt;
  return giving_;
}

// The blocks that no other sequence uses.
std::size_t TenantShares::FreedBy(const Sequence& sequence) const {
  return static_cast<std::size_t>(std::count_if(sequence.blocks.begin(), sequence.blocks.end(),
                                                [this](BlockId block) { return pool_.references(block) == 1; }));
}

Sequence& TenantShares::VictimFor(const Sequence& sequence, Running running) {
  if (majority_.tenant_count() < 2) return *running.back();
  Survey(running);
  for (std::size_t i = running.size(); i-- > 0;) {
    const bool is_above = UseOf(running[i]->tenant).block_count > share_.block_count;
    if (is_above && !IsFirstOfTenant(running, i)) return *running[i];
    if (running[i] == &sequence) break;
  }
  return *running.back();
}

}  // namespace roost::worker
