#include "worker/sched/step_budget.h"

namespace roost::worker {
namespace {

// The number of prompts that one more step delays, per waiting prompt: it also delays those that arrive before the
// queue is empty. With 3, too many steps are short if each takes 25 ms besides its prefill; with 10 nothing is lost
// (roostctl simulate --step-base-ms).
constexpr double kHeldUpByEach = 10;

}  // namespace

std::uint32_t StepBudget::MostFor(const Prompt& prompt) const {
  std::uint32_t most = prompt.left;
  if (prompt.scores) most = std::min(most, scored_room_);
  if (prompt.yields) most = std::min(most, yielding_room_);
  return most;
}

std::uint32_t StepBudget::Deal(const Prompt& prompt, std::uint32_t limit) {
  const std::uint32_t token_count = std::min(limit, MostFor(prompt));
  if (prompt.scores) scored_room_ -= token_count;
  if (prompt.yields) yielding_room_ -= token_count;
  return token_count;
}

void StepBudget::BeginTurns(std::uint32_t room, Length length) {
  left_ = room;
  dealable_ = room;
  for_short_ = length == Length::kMayBeShort && limits_.short_step > 0 ? limits_.short_step : room;
  complete_count_ = 0;
  in_part_ = {};
}

std::uint32_t StepBudget::DealInTurn(const Prompt& prompt, std::size_t later_count) {
  const std::uint32_t wanted = MostFor(prompt);
  const std::uint32_t dealt = Deal(prompt, std::min(left_, dealable_));
  left_ -= std::min(left_, wanted);
  dealable_ -= dealt;
  for_short_ -= std::min(for_short_, dealt);
  if (dealt == prompt.left) {
    ++complete_count_;
  } else if (prompt.yields) {
    ++in_part_.yielded;
  } else if (prompt.scores) {
    ++in_part_.scored;
  }
  if (ShouldEnd(later_count)) dealable_ = std::min(dealable_, for_short_);
  return dealt;
}

// True if a step that has completed prompts should be short. The tokens that it leaves out are a fraction of a full
// step. The first tokens come earlier by this fraction of a full step's prefill time; all others come later by this
// fraction of a step's fixed time, which is what it takes besides its prefill.
bool StepBudget::ShouldEnd(std::size_t later_count) const {
  if (complete_count_ == 0) return false;
  const double rate = pace_.rates().prefill_tokens_per_second();
  if (rate <= 0) return true;
  const double full_step_seconds = limits_.full_step / rate;
  const double step_more_seconds = pace_.rates().seconds_beside_prefill(decode_count_);
  const double held_up_count = kHeldUpByEach * static_cast<double>(later_count);
  return complete_count_ * full_step_seconds >= held_up_count * step_more_seconds;
}

}  // namespace roost::worker
