// The output of requests under a constraint: the automaton takes every token that they draw.
//
// With plan_ahead, the next step begins while the previous token is still being drawn, so the automaton has not taken
// that token yet. Masks are therefore made late: the step's work goes to the device first; then the engine waits for
// the tokens of the previous step, the automata take them, and the masks for the draws are sent. The device computes
// meanwhile.
#include <algorithm>
#include <optional>

#include "common/base/check.h"
#include "worker/engine/engine_state.h"

namespace roost::worker {
void Engine::State::FillMasks(std::span<std::uint32_t> masks) {
  const std::size_t words = kernels::MaskWords(model.shape().vocab_size);
  ROOST_CHECK(masks.size() == next.masks.size() * words);
  for (const StepUnderWay::MaskRow& row : next.masks) {
    const std::span<std::uint32_t> mask = masks.first(words);
    masks = masks.subspan(words);
    const std::span<const std::uint32_t> allowed = AllowedTokens(row);
    if (allowed.empty()) {
      std::fill(mask.begin(), mask.end(), ~std::uint32_t{0});
    } else {
      std::copy(allowed.begin(), allowed.end(), mask.begin());
    }
  }
}

// Empty if the draw will not be used, because the token before it ends the output.
std::span<const std::uint32_t> Engine::State::AllowedTokens(const StepUnderWay::MaskRow& row) {
  Choice* const choice = requests.FindChoice(row.sequence);
  if (choice == nullptr) return {};
  ConstrainedOutput& output = *choice->constrained;
  if (row.awaited_draw) {
    const kernels::SampledToken before = SampledUnderWay()[*row.awaited_draw];
    if (before.status != kernels::SampleStatus::kSampled || choice->request->StopsAt(before.token)) return {};
    if (!output.Take(choice->output_count, before.token)) return {};
  }
  if (output.MustEnd() || output.IsStuck()) return {};
  return output.Mask();
}

// Appends tokens without drawing them while exactly one token may follow, because a draw would give the same token. It
// appends none while a draw is awaited, nor where log probabilities are wanted, which only draws have. Returns what
// ends the choice, if something does.
Result<std::optional<wire::FinishReason>> Engine::State::GoOn(Choice& choice, const Sequence& sequence,
                                                              wire::StepTokens& tokens, Instant now,
                                                              StepCounts& counts) {
  using Ending = std::optional<wire::FinishReason>;
  // The request's fault: it asks for what the model's tokens can not write.
  const auto stuck = [&choice] {
    return InvalidArgument(choice.request->constraint_field, "leaves no token that can continue the output");
  };
  const bool draws_all = sequence.awaited_draw.has_value() || choice.request->output_logprobs.has_value();
  while (true) {
    ConstrainedOutput* const output = choice.constrained.get();
    if (output != nullptr && !output->Take(choice.output_count - 1, *(tokens.end() - 1))) return stuck();
    if (choice.output_count == choice.request->output_limit) return Ending(wire::FinishReason::kLength);
    if (output == nullptr) return Ending();
    if (output->MustEnd()) return Ending(wire::FinishReason::kStop);
    if (output->IsStuck()) return stuck();
    const std::optional<TokenId> only = draws_all ? std::nullopt : output->OnlyToken();
    if (!only) return Ending();
    if (choice.request->StopsAt(*only)) return Ending(wire::FinishReason::kStop);
    NoteToken(choice, now, counts);
    tokens.push_back(*only);
  }
}

}  // namespace roost::worker
