#include "router/api/answer.h"

namespace roost::router {

void ChoiceAnswer::Append(AnswerDelta delta) {
  content += delta.content;
  reasoning += delta.reasoning;
  tokens.insert(tokens.end(), delta.tokens.begin(), delta.tokens.end());
  for (ToolCallDelta& piece : delta.tool_calls) {
    if (piece.index >= tool_calls.size()) tool_calls.push_back({std::move(piece.id), std::move(piece.name), {}});
    tool_calls.back().arguments += piece.arguments;
  }
}

}  // namespace roost::router
