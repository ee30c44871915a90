#include "router/fleet/effects.h"

namespace roost::router {

void NotifyObserver(Effect& effect) {
  if (auto* const dispatched = std::get_if<NotifyDispatched>(&effect)) {
    dispatched->observer->OnDispatched(dispatched->dispatched);
  } else if (auto* const prompt = std::get_if<NotifyPromptLogprobs>(&effect)) {
    prompt->observer->OnPromptLogprobs(std::move(prompt->logprobs));
  } else if (auto* const tokens = std::get_if<NotifyTokens>(&effect)) {
    tokens->observer->OnTokens(std::move(tokens->tokens));
  } else if (auto* const choice = std::get_if<NotifyChoiceEnd>(&effect)) {
    choice->observer->OnChoiceEnd(choice->end);
  } else if (auto* const end = std::get_if<NotifyEnd>(&effect)) {
    end->observer->OnEnd(std::move(end->end));
  } else if (auto* const answers = std::get_if<NotifyAnswers>(&effect)) {
    answers->done(std::move(answers->answers));
  } else if (auto* const forward = std::get_if<NotifyForward>(&effect)) {
    forward->observer->OnPiece(std::move(forward->piece));
  }
}

}  // namespace roost::router
