// The tenants' shares while requests of several are here: of a step, of the running places and of the blocks.
//
// A step's shares. A tenant that has computed most of the recent prompt tokens yields while requests of others are here
// (see PromptMajority). Its prompts pause while others have had less time than these tokens took, as far as half a full
// step back. From then on they get no more tokens in a step than take as long as the step takes besides them. So it at
// most doubles the time of a step. For half a minute after others were here its own steps are short too, so that a
// request that comes waits little for the step under way: as short as costs little (see StepLength); beside decodes of
// its own, the fixed time of a step is a 20th of them at most.
//
// Places and blocks. All tenants that are here have equal shares. For a sequence that its tenant's share is for, and
// that lacks a place or blocks, the sequences admitted last of tenants above their shares give up, but never a tenant's
// first. So long answers of one tenant do not keep another out.
//
// Knows no queue and plans no step. Not thread-safe. O(running sequences · tenants).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/base/clock.h"
#include "worker/cache/block_pool.h"
#include "worker/cache/tenant_blocks.h"
#include "worker/sched/prompt_majority.h"
#include "worker/sched/sequence.h"
#include "worker/sched/step_pace.h"

namespace roost::worker {

// The prompt tokens of so many full steps are recent enough to make a tenant yield: see PromptMajority.
inline constexpr std::uint32_t kMajoritySteps = 8;

class TenantShares {
 public:
  using Running = std::span<Sequence* const>;  // in order of admission

  // `full_step`: the most tokens of a step; `most_running`: the places. The others outlive it.
  TenantShares(TenantBlocks& tenants, const BlockPool& pool, const StepPace& pace, std::uint32_t full_step,
               std::uint32_t most_running);

  // Sequences come and go there.
  [[nodiscard]] PromptMajority& majority() { return majority_; }

  // ---- of a step ----

  // A step is planned. Returns the prompt tokens of the tenant that yields in it: none while it owes time to others.
  [[nodiscard]] std::uint32_t BeginStep(Instant now, std::uint32_t decode_count);
  [[nodiscard]] bool IsYielding() const { return yielding_.has_value(); }
  [[nodiscard]] bool Yields(const Sequence& sequence) const { return yielding_ == sequence.tenant; }
  // True if time is owed to others than the one that yields.
  [[nodiscard]] bool IsOwed() const { return is_owed_; }
  // True if others are in the planned step.
  [[nodiscard]] bool ServesOthers(Running running) const;
  // As many tokens as take the time of the step without them.
  [[nodiscard]] std::uint32_t RoomForYielding(std::uint32_t decode_count) const;
  // The planned step's tokens of the tenant with the majority are owed to others, and their time in it is paid back.
  void OnCommit(std::span<const ScheduledSlice> slices);
  // The latest step took this long.
  void NotePace(const StepSample& step);

  // ---- of places and blocks ----

  // A place or blocks that a sequence lacks.
  struct Lack {
    std::uint32_t places = 0;
    std::size_t blocks = 0;
  };
  void Survey(Running running);
  // Valid until the next survey, from here on: true if a tenant is above its share.
  [[nodiscard]] bool IsAnyoneAbove() const;
  // With this sequence, and the blocks that its answer begins with.
  [[nodiscard]] bool IsWithinShare(const Sequence& sequence, std::size_t block_count);
  // The sequences that give up what is lacking; nothing if that is not enough. Valid until the next call.
  [[nodiscard]] std::optional<std::span<Sequence* const>> WhoGives(Running running, Lack lack);

  // The sequence that is preempted if `sequence` lacks a block: the last one of a tenant with more than its share of
  // the blocks, else the last one of all. None that was admitted before `sequence`.
  [[nodiscard]] Sequence& VictimFor(const Sequence& sequence, Running running);

 private:
  // Places and blocks of running sequences, of a tenant or as a share.
  struct Use {
    TenantId tenant = {};
    std::uint32_t place_count = 0;
    std::size_t block_count = 0;
  };

  [[nodiscard]] std::uint32_t RoomForMajority(std::uint32_t decode_count);
  [[nodiscard]] Use& UseOf(TenantId tenant);
  [[nodiscard]] std::size_t FreedBy(const Sequence& sequence) const;

  const BlockPool& pool_;
  const StepPace& pace_;
  const std::uint32_t full_step_;
  const std::uint32_t most_running_;
  PromptMajority majority_;

  std::optional<TenantId> yielding_;    // in the planned step
  bool is_owed_ = false;                // the same
  bool is_shortened_ = false;           // the planned step has at most the tokens that majority_step_ said
  StepLength majority_step_;            // of the tenant with the majority, while others may come
  std::optional<Instant> others_seen_;  // others than the tenant with the majority: when they were last here
  std::optional<TenantId> owing_;       // the tenant with the majority, as of the latest step
  std::uint32_t owed_ = 0;              // tokens' time that it owes to others

  std::vector<Use> uses_;  // of tenants with running sequences
  Use share_;              // of each tenant that is here
  std::vector<Sequence*> giving_;
};

}  // namespace roost::worker
