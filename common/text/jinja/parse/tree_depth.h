// The depth of what an expression is made of, as the parser adds up the depth of the whole. 0 for what is absent.
#pragma once

#include <algorithm>
#include <vector>

#include "common/text/jinja/ast.h"

namespace roost::jinja {

inline int DepthOf(const ExpressionPtr& expression) { return expression == nullptr ? 0 : expression->depth; }

inline int DepthOf(const std::vector<ExpressionPtr>& expressions) {
  int deepest = 0;
  for (const ExpressionPtr& expression : expressions) deepest = std::max(deepest, DepthOf(expression));
  return deepest;
}

inline int DepthOf(const CallArguments& arguments) {
  int deepest = std::max(DepthOf(arguments.more_positional), DepthOf(arguments.more_named));
  for (const auto& argument : arguments.named) deepest = std::max(deepest, DepthOf(argument.second));
  return std::max(deepest, DepthOf(arguments.positional));
}

}  // namespace roost::jinja
