// The part of the expression parser for what operators stand between: names, literals, tuples, lists and dicts. And for
// the targets of assignments, which are names and tuples too.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "common/text/jinja/parse/expression_parser.h"
#include "common/text/jinja/parse/tree_depth.h"

namespace roost::jinja {

Result<ExpressionPtr> ExpressionParser::ParsePrimary() {
  switch (stream_.Peek().kind) {
    case TokenKind::kName: return ParseName();
    case TokenKind::kString: return ParseStrings();
    case TokenKind::kNumber: {
      Token token = stream_.Next();
      return Make(token.line, 0, Literal{std::move(token.value)});
    }
    default: break;
  }
  if (stream_.IsOperator("(")) return ParseParenthesized();
  if (stream_.IsOperator("[")) return ParseList();
  if (stream_.IsOperator("{")) return ParseDict();
  return stream_.Unexpected("an expression");
}

Result<ExpressionPtr> ExpressionParser::ParseName() {
  const Token token = stream_.Next();
  if (token.text == "true" || token.text == "True") return Make(token.line, 0, Literal{Value::Bool(true)});
  if (token.text == "false" || token.text == "False") return Make(token.line, 0, Literal{Value::Bool(false)});
  if (token.text == "none" || token.text == "None") return Make(token.line, 0, Literal{Value::None()});
  return Make(token.line, 0, Name{stream_.names().InternUse(token.text)});
}

Result<ExpressionPtr> ExpressionParser::ParseStrings() {
  const Token first = stream_.Next();
  if (!stream_.Is(TokenKind::kString)) return Make(first.line, 0, Literal{first.value});
  std::string joined = first.value.AsString();
  while (stream_.Is(TokenKind::kString)) joined += stream_.Next().value.AsString();
  return Make(first.line, 0, Literal{Value::WrittenString(std::move(joined))});
}

Result<ExpressionPtr> ExpressionParser::ParseParenthesized() {
  const int line = stream_.Next().line;
  if (stream_.SkipOperator(")")) return Make(line, 0, TupleLiteral{});
  ROOST_ASSIGN_OR_RETURN(ExpressionPtr inside, ParseTuple());
  ROOST_RETURN_IF_ERROR(stream_.ExpectOperator(")"));
  return inside;
}

bool ExpressionParser::AtTupleEnd() const {
  return stream_.Is(TokenKind::kBlockEnd) || stream_.Is(TokenKind::kPrintEnd) || stream_.Is(TokenKind::kEnd) ||
         stream_.IsOperator(")") || stream_.IsName("recursive");
}

Result<ExpressionPtr> ExpressionParser::ParseTuple(Inline form) {
  const int line = stream_.line();
  ROOST_ASSIGN_OR_RETURN(ExpressionPtr first, ParseExpression(form));
  if (!stream_.IsOperator(",")) return first;
  TupleLiteral tuple;
  tuple.items.push_back(std::move(first));
  while (stream_.SkipOperator(",")) {
    if (AtTupleEnd()) break;
    ROOST_ASSIGN_OR_RETURN(ExpressionPtr item, ParseExpression(form));
    tuple.items.push_back(std::move(item));
  }
  const int depth = DepthOf(tuple.items);
  return Make(line, depth, std::move(tuple));
}

Result<ExpressionPtr> ExpressionParser::ParseList() {
  const int line = stream_.Next().line;
  ListLiteral list;
  while (!stream_.IsOperator("]")) {
    if (!list.items.empty()) {
      ROOST_RETURN_IF_ERROR(stream_.ExpectOperator(","));
      if (stream_.IsOperator("]")) break;
    }
    ROOST_ASSIGN_OR_RETURN(ExpressionPtr item, ParseExpression());
    list.items.push_back(std::move(item));
  }
  stream_.Next();
  const int depth = DepthOf(list.items);
  return Make(line, depth, std::move(list));
}

Result<ExpressionPtr> ExpressionParser::ParseDict() {
  const int line = stream_.Next().line;
  DictLiteral dict;
  int depth = 0;
  while (!stream_.IsOperator("}")) {
    if (!dict.entries.empty()) {
      ROOST_RETURN_IF_ERROR(stream_.ExpectOperator(","));
      if (stream_.IsOperator("}")) break;
    }
    ROOST_ASSIGN_OR_RETURN(ExpressionPtr key, ParseExpression());
    ROOST_RETURN_IF_ERROR(stream_.ExpectOperator(":"));
    ROOST_ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
    depth = std::max({depth, DepthOf(key), DepthOf(value)});
    dict.entries.emplace_back(std::move(key), std::move(value));
  }
  stream_.Next();
  return Make(line, depth, std::move(dict));
}

Result<Target> ExpressionParser::ParseTargetPart() {
  const TokenStream::Nested nested(stream_);
  ROOST_RETURN_IF_ERROR(nested.Check());
  if (stream_.SkipOperator("(")) {
    ROOST_ASSIGN_OR_RETURN(Target inner, ParseTarget());
    ROOST_RETURN_IF_ERROR(stream_.ExpectOperator(")"));
    return inner;
  }
  ROOST_ASSIGN_OR_RETURN(const std::string name, stream_.ExpectName());
  if (stream_.SkipOperator(".")) {
    ROOST_ASSIGN_OR_RETURN(std::string attribute, stream_.ExpectName());
    return Target{Target::Form::kAttribute, stream_.names().InternUse(name), std::move(attribute), {}};
  }
  constexpr std::string_view kReserved[] = {"true", "false", "none", "True", "False", "None"};
  if (std::find(std::begin(kReserved), std::end(kReserved), name) != std::end(kReserved)) {
    return stream_.Fail(fmt::format("can not assign to '{}'", name));
  }
  return Target{Target::Form::kName, stream_.names().Intern(name), {}, {}};
}

Result<Target> ExpressionParser::ParseTarget() {
  ROOST_ASSIGN_OR_RETURN(Target first, ParseTargetPart());
  if (!stream_.IsOperator(",")) return first;
  Target tuple{Target::Form::kTuple, 0, {}, {}};
  tuple.parts.push_back(std::move(first));
  while (stream_.SkipOperator(",")) {
    if (AtTupleEnd() || stream_.IsName("in")) break;
    ROOST_ASSIGN_OR_RETURN(Target part, ParseTargetPart());
    tuple.parts.push_back(std::move(part));
  }
  return tuple;
}

}  // namespace roost::jinja
