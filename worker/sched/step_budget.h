// The prompt tokens of one step: prompts and room in, the lengths of their slices out.
//
//   budget    ├── one that its tenant's share is for ──┼── late prompts ──┼── prompts in turn … ──┤
//
// - A step that completes a prompt is short (short_step_tokens): the chunk of a long prompt that would fill it comes
//   with the next step. It is filled up if one more step would cost the waiting prompts more than the first token
//   gains.
// - Scored tokens have a limit of their own, because each needs memory for its row of logits; so has the tenant that
//   yields (see TenantShares).
//
// Knows no sequence, queue or cache. A plain value; not thread-safe. O(1).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "worker/sched/step_pace.h"

namespace roost::worker {

class StepBudget {
 public:
  struct Limits {
    std::uint32_t full_step = 0;   // tokens, decodes included
    std::uint32_t short_step = 0;  // prompt tokens; 0: all steps are full
    std::uint32_t scored = 0;
  };
  // A prompt that may have a slice.
  struct Prompt {
    std::uint32_t left = 0;  // tokens that are still to be dealt
    bool scores = false;
    bool yields = false;
  };
  // Prompts that got all that their limit leaves, and now pause.
  struct InPart {
    std::uint32_t scored = 0;
    std::uint32_t yielded = 0;
  };

  // `pace` outlives it.
  StepBudget(const Limits& limits, const StepPace& pace) : limits_(limits), pace_(pace) {}

  void BeginStep(std::uint32_t decode_count) {
    decode_count_ = decode_count;
    scored_room_ = limits_.scored;
  }
  // The prompt tokens that the tenant that yields may still have.
  void SetYieldingRoom(std::uint32_t room) { yielding_room_ = room; }
  [[nodiscard]] std::uint32_t yielding_room() const { return yielding_room_; }

  // The most of its tokens that may be in this step.
  [[nodiscard]] std::uint32_t MostFor(const Prompt& prompt) const;
  // Deals at most `limit` tokens, out of turn. Returns how many.
  std::uint32_t Deal(const Prompt& prompt, std::uint32_t limit);

  // ---- in turn ----

  enum class Length : std::uint8_t { kFull, kMayBeShort };
  void BeginTurns(std::uint32_t room, Length length);
  // Deals to the next prompt; `later_count` prompts come after it.
  std::uint32_t DealInTurn(const Prompt& prompt, std::size_t later_count);
  // The rest for prompts, in a full step: admission depends only on this, as if the step were full.
  [[nodiscard]] std::uint32_t left() const { return left_; }
  [[nodiscard]] const InPart& in_part() const { return in_part_; }

 private:
  [[nodiscard]] bool ShouldEnd(std::size_t later_count) const;

  const Limits limits_;
  const StepPace& pace_;
  std::uint32_t decode_count_ = 0;
  std::uint32_t scored_room_ = 0;
  std::uint32_t yielding_room_ = 0;
  std::uint32_t left_ = 0;
  std::uint32_t dealable_ = 0;   // the part that may still be dealt before the step ends
  std::uint32_t for_short_ = 0;  // the part that may be dealt if the step is short
  std::uint32_t complete_count_ = 0;
  InPart in_part_;
};

}  // namespace roost::worker
