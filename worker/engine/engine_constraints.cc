// Requests under a constraint: they wait for their automaton before they are admitted, and the automaton takes every
// token that they draw.
//
// With plan_ahead, the next step begins while the previous token is still being drawn, so the automaton has not taken
// that token yet. Masks are therefore made late: the step's work goes to the device first; then the engine waits for
// the tokens of the previous step, the automata take them, and the masks for the draws are sent. The device computes
// meanwhile.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "worker/engine/engine_state.h"
#include "worker/sample/sampler.h"

namespace roost::worker {
namespace {

RequestEvent EndOf(RequestKey key, wire::FinishReason reason, std::optional<Error> error) {
  RequestEvent event;
  event.link = key.link;
  event.event.request_id = key.request;
  event.event.finish = reason;
  event.event.error = std::move(error);
  return event;
}

}  // namespace

Result<void> Engine::State::Constrain(RequestKey key, wire::Generate generate, Instant received) {
  const wire::Constraint& constraint = *generate.constraint;
  if (options.constrainer == nullptr) {
    return InvalidArgument(constraint.field, "this worker does not support constrained output");
  }
  if (constraining.size() >= options.max_waiting_requests) {
    return Error{ErrorCode::kOverloaded, "too many requests wait for their grammars", ""};
  }
  if (generate.first_output_index > generate.prompt.size()) {
    return InvalidArgument("first_output_index", "the prompt has {} tokens", generate.prompt.size());
  }
  Constrainer::Job job{.id = ++last_constraining_id, .constraint = constraint, .output = {}};
  job.output.assign(generate.prompt.end() - generate.first_output_index, generate.prompt.end());
  constraining.emplace(job.id, ConstrainedSubmit{key, std::move(generate), received});
  options.constrainer->Begin(std::move(job));
  TakeConstrained();
  return {};
}

// A request that has its automaton is admitted like any other.
void Engine::State::TakeConstrained() {
  if (constraining.empty()) return;
  for (Constrainer::Done& done : options.constrainer->TakeDone()) {
    const auto found = constraining.find(done.id);
    if (found == constraining.end()) continue;
    ConstrainedSubmit submit = std::move(found->second);
    constraining.erase(found);
    Result<void> taken =
        done.automaton.ok() ? Admit(submit.key, std::move(submit.generate), submit.received, *std::move(done.automaton))
                            : Result<void>(done.automaton.error());
    if (taken.ok()) continue;
    pending_events.push_back(EndOf(submit.key, wire::FinishReason::kError, std::move(taken).error()));
  }
}

bool Engine::State::IsConstraining(RequestKey key) const {
  return std::any_of(constraining.begin(), constraining.end(),
                     [key](const auto& each) { return each.second.key == key; });
}

template <typename Which>
std::vector<RequestKey> Engine::State::DropConstraining(const Which& which) {
  std::vector<RequestKey> dropped;
  for (auto each = constraining.begin(); each != constraining.end();) {
    if (!which(each->second)) {
      ++each;
      continue;
    }
    options.constrainer->Drop(each->first);
    dropped.push_back(each->second.key);
    scheduler.arrivals().OnWaiterGone(each->second.generate.block_hashes, clock.Now());
    each = constraining.erase(each);
  }
  return dropped;
}

void Engine::State::CancelConstraining(RequestKey key) {
  for (const RequestKey each : DropConstraining([key](const ConstrainedSubmit& submit) { return submit.key == key; })) {
    pending_events.push_back(EndOf(each, wire::FinishReason::kCancelled, std::nullopt));
  }
}

void Engine::State::ForgetConstraining(LinkId link) {
  (void)DropConstraining([link](const ConstrainedSubmit& submit) { return submit.key.link == link; });
}

void Engine::State::EndExpiredConstraining(Instant now) {
  const auto is_late = [now](const ConstrainedSubmit& submit) { return submit.IsLate(now); };
  for (const RequestKey key : DropConstraining(is_late)) {
    const Error error{ErrorCode::kDeadlineExceeded, "the deadline passed while the grammar was compiled", ""};
    pending_events.push_back(EndOf(key, wire::FinishReason::kError, error));
  }
}

bool Engine::State::HasConstrained() const {
  if (constraining.empty()) return false;
  if (options.constrainer->HasDone()) return true;
  const Instant now = clock.Now();
  return std::any_of(constraining.begin(), constraining.end(),
                     [now](const auto& each) { return each.second.IsLate(now); });
}

// All choices of a request draw at the same position of the automaton, so they share a mask row.
void Engine::State::PlanMask(const Sequence& sequence, kernels::SampleRow& draw, StepUnderWay& step) {
  draw.has_mask = true;
  if (step.masks.empty() || step.masks.back().sequence != sequence.id) {
    step.masks.push_back({.sequence = sequence.id, .awaited_draw = sequence.awaited_draw});
  }
  draw.mask_row = static_cast<std::uint32_t>(step.masks.size() - 1);
}

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
    if (before.status != kernels::SampleStatus::kSampled || Stops(*choice->request, before.token)) return {};
    if (!output.Take(choice->output_count, before.token)) return {};
  }
  if (output.MustEnd() || output.IsStuck()) return {};
  return output.Mask();
}

bool Engine::State::Stops(const Request& request, TokenId token) {
  return std::find(request.stop_tokens.begin(), request.stop_tokens.end(), token) != request.stop_tokens.end();
}

// All tokens are forbidden: by the request's constraint, its stop tokens before min_output_tokens, or its biases. This
// is the request's fault, not the worker's.
Result<TokenId> Engine::State::DrawnToken(const Choice& choice, const kernels::SampledToken& sampled) {
  const Request& request = *choice.request;
  const bool forbids = !request.constraint_field.empty() || !request.early_biases.empty() || !request.biases.empty();
  if (sampled.status != kernels::SampleStatus::kAllMinusInfinity || !forbids) return TokenOf(sampled);
  const bool is_constrained = !request.constraint_field.empty();
  return InvalidArgument(is_constrained ? request.constraint_field : "min_tokens",
                         "leaves no token: all others are forbidden by the request's stop tokens or biases");
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
    if (Stops(*choice.request, *only)) return Ending(wire::FinishReason::kStop);
    NoteToken(choice, now, counts);
    tokens.push_back(*only);
  }
}

}  // namespace roost::worker
