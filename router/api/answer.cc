#include "router/api/answer.h"

#include <iterator>

namespace roost::router {

void ChoiceAnswer::Append(AnswerDelta delta) {
  content += delta.content;
  reasoning += delta.reasoning;
  tokens.insert(tokens.end(), delta.tokens.begin(), delta.tokens.end());
  logprobs.insert(logprobs.end(), std::make_move_iterator(delta.logprobs.begin()),
                  std::make_move_iterator(delta.logprobs.end()));
  if (!delta.prompt_tokens.empty()) prompt_tokens = std::move(delta.prompt_tokens);
  if (!delta.prompt_logprobs.empty()) prompt_logprobs = std::move(delta.prompt_logprobs);
  for (ToolCallDelta& piece : delta.tool_calls) {
    if (piece.index >= tool_calls.size()) tool_calls.push_back({std::move(piece.id), std::move(piece.name), {}});
    tool_calls.back().arguments += piece.arguments;
  }
}

}  // namespace roost::router
