// The part of the expression parser for operators, by precedence from loose to tight.
#include "common/text/jinja/parse/expression_parser.h"

#include <algorithm>
#include <initializer_list>

#include "common/text/jinja/parse/tree_depth.h"

namespace roost::jinja {
namespace {

struct OperatorName {
  std::string_view text;
  BinaryOperator op;
};

std::optional<BinaryOperator> TakeOperator(TokenStream& stream, std::initializer_list<OperatorName> operators) {
  for (const OperatorName& candidate : operators) {
    if (stream.SkipOperator(candidate.text)) return candidate.op;
  }
  return std::nullopt;
}

}  // namespace

Result<ExpressionPtr> ExpressionParser::Make(int line, int depth_below, Expression::Node node) const {
  if (depth_below >= kMaxTreeDepth) return stream_.Fail("an expression is too long");
  return ExpressionPtr(std::make_unique<const Expression>(Expression{line, depth_below + 1, std::move(node)}));
}

Result<ExpressionPtr> ExpressionParser::ParseExpression(Inline form) {
  const TokenStream::Nested nested(stream_);
  ROOST_RETURN_IF_ERROR(nested.Check());
  const int line = stream_.line();
  ROOST_ASSIGN_OR_RETURN(ExpressionPtr expression, ParseOr());
  while (form == Inline::kWithIf && stream_.SkipName("if")) {
    ROOST_ASSIGN_OR_RETURN(ExpressionPtr condition, ParseOr());
    ExpressionPtr otherwise;
    if (stream_.SkipName("else")) {
      ROOST_ASSIGN_OR_RETURN(otherwise, ParseExpression());
    }
    const int depth = std::max({DepthOf(expression), DepthOf(condition), DepthOf(otherwise)});
    ROOST_ASSIGN_OR_RETURN(
        expression, Make(line, depth, Conditional{std::move(condition), std::move(expression), std::move(otherwise)}));
  }
  return expression;
}

Result<ExpressionPtr> ExpressionParser::ParseOr() {
  ROOST_ASSIGN_OR_RETURN(ExpressionPtr left, ParseAnd());
  while (stream_.IsName("or")) {
    const int line = stream_.Next().line;
    ROOST_ASSIGN_OR_RETURN(ExpressionPtr right, ParseAnd());
    const int depth = std::max(DepthOf(left), DepthOf(right));
    ROOST_ASSIGN_OR_RETURN(left, Make(line, depth, Logical{LogicalOperator::kOr, std::move(left), std::move(right)}));
  }
  return left;
}

Result<ExpressionPtr> ExpressionParser::ParseAnd() {
  ROOST_ASSIGN_OR_RETURN(ExpressionPtr left, ParseNot());
  while (stream_.IsName("and")) {
    const int line = stream_.Next().line;
    ROOST_ASSIGN_OR_RETURN(ExpressionPtr right, ParseNot());
    const int depth = std::max(DepthOf(left), DepthOf(right));
    ROOST_ASSIGN_OR_RETURN(left, Make(line, depth, Logical{LogicalOperator::kAnd, std::move(left), std::move(right)}));
  }
  return left;
}

Result<ExpressionPtr> ExpressionParser::ParseNot() {
  if (!stream_.IsName("not")) return ParseComparison();
  const TokenStream::Nested nested(stream_);
  ROOST_RETURN_IF_ERROR(nested.Check());
  const int line = stream_.Next().line;
  ROOST_ASSIGN_OR_RETURN(ExpressionPtr operand, ParseNot());
  const int depth = DepthOf(operand);
  return Make(line, depth, Not{std::move(operand)});
}

std::optional<CompareOperator> ExpressionParser::TakeCompareOperator() {
  if (stream_.SkipOperator("==")) return CompareOperator::kEqual;
  if (stream_.SkipOperator("!=")) return CompareOperator::kNotEqual;
  if (stream_.SkipOperator("<=")) return CompareOperator::kLessEqual;
  if (stream_.SkipOperator(">=")) return CompareOperator::kGreaterEqual;
  if (stream_.SkipOperator("<")) return CompareOperator::kLess;
  if (stream_.SkipOperator(">")) return CompareOperator::kGreater;
  if (stream_.SkipName("in")) return CompareOperator::kIn;
  if (stream_.IsName("not") && stream_.IsName("in", 1)) {
    stream_.Next();
    stream_.Next();
    return CompareOperator::kNotIn;
  }
  return std::nullopt;
}

Result<ExpressionPtr> ExpressionParser::ParseComparison() {
  const int line = stream_.line();
  ROOST_ASSIGN_OR_RETURN(ExpressionPtr first, ParseSum());
  int depth = DepthOf(first);
  Comparison comparison;
  while (const auto op = TakeCompareOperator()) {
    ROOST_ASSIGN_OR_RETURN(ExpressionPtr operand, ParseSum());
    depth = std::max(depth, DepthOf(operand));
    comparison.rest.emplace_back(*op, std::move(operand));
  }
  if (comparison.rest.empty()) return first;
  comparison.first = std::move(first);
  return Make(line, depth, std::move(comparison));
}

Result<ExpressionPtr> ExpressionParser::ParseSum() {
  ROOST_ASSIGN_OR_RETURN(ExpressionPtr left, ParseConcatenation());
  const int line = stream_.line();
  while (const auto op = TakeOperator(stream_, {{"+", BinaryOperator::kAdd}, {"-", BinaryOperator::kSubtract}})) {
    ROOST_ASSIGN_OR_RETURN(ExpressionPtr right, ParseConcatenation());
    const int depth = std::max(DepthOf(left), DepthOf(right));
    ROOST_ASSIGN_OR_RETURN(left, Make(line, depth, Binary{*op, std::move(left), std::move(right)}));
  }
  return left;
}

Result<ExpressionPtr> ExpressionParser::ParseConcatenation() {
  const int line = stream_.line();
  ROOST_ASSIGN_OR_RETURN(ExpressionPtr first, ParseProduct());
  if (!stream_.IsOperator("~")) return first;
  Concatenation concatenation;
  concatenation.parts.push_back(std::move(first));
  while (stream_.SkipOperator("~")) {
    ROOST_ASSIGN_OR_RETURN(ExpressionPtr part, ParseProduct());
    concatenation.parts.push_back(std::move(part));
  }
  const int depth = DepthOf(concatenation.parts);
  return Make(line, depth, std::move(concatenation));
}

Result<ExpressionPtr> ExpressionParser::ParseProduct() {
  ROOST_ASSIGN_OR_RETURN(ExpressionPtr left, ParsePower());
  const int line = stream_.line();
  while (const auto op = TakeOperator(stream_, {{"*", BinaryOperator::kMultiply},
                                                {"/", BinaryOperator::kDivide},
                                                {"//", BinaryOperator::kFloorDivide},
                                                {"%", BinaryOperator::kModulo}})) {
    ROOST_ASSIGN_OR_RETURN(ExpressionPtr right, ParsePower());
    const int depth = std::max(DepthOf(left), DepthOf(right));
    ROOST_ASSIGN_OR_RETURN(left, Make(line, depth, Binary{*op, std::move(left), std::move(right)}));
  }
  return left;
}

Result<ExpressionPtr> ExpressionParser::ParsePower() {
  ROOST_ASSIGN_OR_RETURN(ExpressionPtr left, ParseUnary());
  while (stream_.IsOperator("**")) {
    const int line = stream_.Next().line;
    ROOST_ASSIGN_OR_RETURN(ExpressionPtr right, ParseUnary());
    const int depth = std::max(DepthOf(left), DepthOf(right));
    ROOST_ASSIGN_OR_RETURN(left, Make(line, depth, Binary{BinaryOperator::kPower, std::move(left), std::move(right)}));
  }
  return left;
}

Result<ExpressionPtr> ExpressionParser::ParseUnary() {
  ROOST_ASSIGN_OR_RETURN(ExpressionPtr operand, ParseSigned());
  return ParseFiltersAndTests(std::move(operand));
}

Result<ExpressionPtr> ExpressionParser::ParseSigned() {
  const TokenStream::Nested nested(stream_);
  ROOST_RETURN_IF_ERROR(nested.Check());
  const int line = stream_.line();
  const bool is_minus = stream_.IsOperator("-");
  if (!is_minus && !stream_.IsOperator("+")) {
    ROOST_ASSIGN_OR_RETURN(ExpressionPtr primary, ParsePrimary());
    return ParsePostfix(std::move(primary));
  }
  stream_.Next();
  ROOST_ASSIGN_OR_RETURN(ExpressionPtr operand, ParseSigned());
  const int depth = DepthOf(operand);
  const UnaryOperator op = is_minus ? UnaryOperator::kMinus : UnaryOperator::kPlus;
  ROOST_ASSIGN_OR_RETURN(ExpressionPtr signed_value, Make(line, depth, Unary{op, std::move(operand)}));
  return ParsePostfix(std::move(signed_value));
}

}  // namespace roost::jinja
