// The part of the expression parser for what follows an operand: attributes, subscripts, calls, filters and tests.
#include <algorithm>

#include "common/text/jinja/filters.h"
#include "common/text/jinja/parse/expression_parser.h"
#include "common/text/jinja/parse/tree_depth.h"
#include "common/text/jinja/tests.h"

namespace roost::jinja {

Result<ExpressionPtr> ExpressionParser::ParsePostfix(ExpressionPtr operand) {
  while (true) {
    if (stream_.IsOperator(".")) {
      ROOST_ASSIGN_OR_RETURN(operand, ParseAttribute(std::move(operand)));
    } else if (stream_.IsOperator("[")) {
      ROOST_ASSIGN_OR_RETURN(operand, ParseSubscript(std::move(operand)));
    } else if (stream_.IsOperator("(")) {
      ROOST_ASSIGN_OR_RETURN(operand, ParseCall(std::move(operand)));
    } else {
      return operand;
    }
  }
}

Result<ExpressionPtr> ExpressionParser::ParseFiltersAndTests(ExpressionPtr operand) {
  while (true) {
    if (stream_.SkipOperator("|")) {
      ROOST_ASSIGN_OR_RETURN(operand, ParseFilter(std::move(operand)));
    } else if (stream_.SkipName("is")) {
      ROOST_ASSIGN_OR_RETURN(operand, ParseTest(std::move(operand)));
    } else if (stream_.IsOperator("(")) {
      ROOST_ASSIGN_OR_RETURN(operand, ParseCall(std::move(operand)));
    } else {
      return operand;
    }
  }
}

Result<ExpressionPtr> ExpressionParser::ParseAttribute(ExpressionPtr object) {
  stream_.Next();
  const Token token = stream_.Next();
  const int depth = DepthOf(object);
  if (token.kind == TokenKind::kName) {
    return Make(token.line, depth, Attribute{std::move(object), Value::String(token.text), FindMethods(token.text)});
  }
  if (token.kind != TokenKind::kNumber || !token.value.is(Kind::kInt)) {
    return stream_.Fail("expected a name or number behind '.'");
  }
  ROOST_ASSIGN_OR_RETURN(ExpressionPtr index, Make(token.line, 0, Literal{token.value}));
  return Make(token.line, std::max(depth, 1), Subscript{std::move(object), std::move(index)});
}

Result<ExpressionPtr> ExpressionParser::ParseSubscript(ExpressionPtr object) {
  const int line = stream_.Next().line;
  if (stream_.IsOperator(":")) return ParseSliceRest(std::move(object), nullptr, line);
  ROOST_ASSIGN_OR_RETURN(ExpressionPtr index, ParseTuple());
  if (stream_.IsOperator(":")) return ParseSliceRest(std::move(object), std::move(index), line);
  ROOST_RETURN_IF_ERROR(stream_.ExpectOperator("]"));
  const int depth = std::max(DepthOf(object), DepthOf(index));
  return Make(line, depth, Subscript{std::move(object), std::move(index)});
}

Result<ExpressionPtr> ExpressionParser::ParseSliceRest(ExpressionPtr object, ExpressionPtr start, int line) {
  Slice slice{std::move(object), std::move(start), nullptr, nullptr};
  ROOST_RETURN_IF_ERROR(stream_.ExpectOperator(":"));
  if (!stream_.IsOperator(":") && !stream_.IsOperator("]")) {
    ROOST_ASSIGN_OR_RETURN(slice.stop, ParseExpression());
  }
  if (stream_.SkipOperator(":") && !stream_.IsOperator("]")) {
    ROOST_ASSIGN_OR_RETURN(slice.step, ParseExpression());
  }
  ROOST_RETURN_IF_ERROR(stream_.ExpectOperator("]"));
  const int depth = std::max({DepthOf(slice.object), DepthOf(slice.start), DepthOf(slice.stop), DepthOf(slice.step)});
  return Make(line, depth, std::move(slice));
}

Result<ExpressionPtr> ExpressionParser::ParseCall(ExpressionPtr callee) {
  const int line = stream_.line();
  ROOST_ASSIGN_OR_RETURN(CallArguments arguments, ParseArguments());
  const int depth = std::max(DepthOf(callee), DepthOf(arguments));
  return Make(line, depth, Call{std::move(callee), std::move(arguments)});
}

Result<CallArguments> ExpressionParser::ParseArguments() {
  ROOST_RETURN_IF_ERROR(stream_.ExpectOperator("("));
  CallArguments arguments;
  bool is_first = true;
  while (!stream_.IsOperator(")")) {
    if (!is_first) {
      ROOST_RETURN_IF_ERROR(stream_.ExpectOperator(","));
      if (stream_.IsOperator(")")) break;
    }
    is_first = false;
    ROOST_RETURN_IF_ERROR(ParseArgument(arguments));
  }
  stream_.Next();
  return arguments;
}

Result<void> ExpressionParser::ParseArgument(CallArguments& arguments) {
  if (stream_.IsOperator("*") || stream_.IsOperator("**")) {
    const bool is_named = stream_.Next().text == "**";
    ExpressionPtr& place = is_named ? arguments.more_named : arguments.more_positional;
    if (place != nullptr || (!is_named && arguments.more_named != nullptr)) {
      return stream_.Fail("an argument list is not valid");
    }
    ROOST_ASSIGN_OR_RETURN(place, ParseExpression());
    return {};
  }
  if (arguments.more_named != nullptr) return stream_.Fail("an argument follows **arguments");
  if (stream_.Is(TokenKind::kName) && stream_.IsOperator("=", 1)) {
    std::string name = stream_.Next().text;
    stream_.Next();
    ROOST_ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
    arguments.named.emplace_back(std::move(name), std::move(value));
    return {};
  }
  if (!arguments.named.empty() || arguments.more_positional != nullptr) {
    return stream_.Fail("a positional argument follows a named one");
  }
  ROOST_ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
  arguments.positional.push_back(std::move(value));
  return {};
}

Result<std::string> ExpressionParser::ParseDottedName() {
  ROOST_ASSIGN_OR_RETURN(std::string name, stream_.ExpectName());
  while (stream_.SkipOperator(".")) {
    ROOST_ASSIGN_OR_RETURN(const std::string part, stream_.ExpectName());
    name.append(".").append(part);
  }
  return name;
}

Result<ExpressionPtr> ExpressionParser::ParseFilter(ExpressionPtr input) {
  const int line = stream_.line();
  ROOST_ASSIGN_OR_RETURN(std::string name, ParseDottedName());
  CallArguments arguments;
  if (stream_.IsOperator("(")) {
    ROOST_ASSIGN_OR_RETURN(arguments, ParseArguments());
  }
  const FilterFunction function = FindFilter(name);
  const int depth = std::max(DepthOf(input), DepthOf(arguments));
  return Make(line, depth, FilterCall{std::move(input), std::move(name), function, std::move(arguments)});
}

Result<ExpressionPtr> ExpressionParser::ParseFilterChain() {
  ROOST_ASSIGN_OR_RETURN(ExpressionPtr chain, ParseFilter(nullptr));
  while (stream_.SkipOperator("|")) {
    ROOST_ASSIGN_OR_RETURN(chain, ParseFilter(std::move(chain)));
  }
  return chain;
}

Result<ExpressionPtr> ExpressionParser::ParseTest(ExpressionPtr input) {
  const int line = stream_.line();
  const bool is_negated = stream_.SkipName("not");
  ROOST_ASSIGN_OR_RETURN(std::string name, ParseDottedName());
  ROOST_ASSIGN_OR_RETURN(CallArguments arguments, ParseTestArguments());
  const TestFunction function = FindTest(name);
  const int depth = std::max(DepthOf(input), DepthOf(arguments));
  ROOST_ASSIGN_OR_RETURN(
      ExpressionPtr test,
      Make(line, depth, TestCall{std::move(input), std::move(name), function, std::move(arguments)}));
  if (!is_negated) return test;
  return Make(line, depth + 1, Not{std::move(test)});
}

// The arguments of a test: in parentheses, or one operand without them, as in `x is divisibleby 3`.
Result<CallArguments> ExpressionParser::ParseTestArguments() {
  if (stream_.IsOperator("(")) return ParseArguments();
  const bool is_operand = stream_.Is(TokenKind::kName) || stream_.Is(TokenKind::kString) ||
                          stream_.Is(TokenKind::kNumber) || stream_.IsOperator("[") || stream_.IsOperator("{");
  const bool is_keyword = stream_.IsName("else") || stream_.IsName("or") || stream_.IsName("and");
  CallArguments arguments;
  if (!is_operand || is_keyword) return arguments;
  if (stream_.IsName("is")) return stream_.Fail("tests can not be chained with 'is'");
  ROOST_ASSIGN_OR_RETURN(ExpressionPtr operand, ParsePrimary());
  ROOST_ASSIGN_OR_RETURN(operand, ParsePostfix(std::move(operand)));
  arguments.positional.push_back(std::move(operand));
  return arguments;
}

}  // namespace roost::jinja
