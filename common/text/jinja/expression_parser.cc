#include "common/text/jinja/expression_parser.h"

#include <algorithm>
#include <initializer_list>

#include "common/text/jinja/filters.h"
#include "common/text/jinja/tests.h"

namespace roost::jinja {
namespace {

int DepthOf(const ExpressionPtr& expression) { return expression == nullptr ? 0 : expression->depth; }

int DepthOf(const std::vector<ExpressionPtr>& expressions) {
  int deepest = 0;
  for (const ExpressionPtr& expression : expressions) deepest = std::max(deepest, DepthOf(expression));
  return deepest;
}

int DepthOf(const CallArguments& arguments) {
  int deepest = std::max(DepthOf(arguments.more_positional), DepthOf(arguments.more_named));
  for (const auto& argument : arguments.named) deepest = std::max(deepest, DepthOf(argument.second));
  return std::max(deepest, DepthOf(arguments.positional));
}

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
  return Make(token.line, 0, Name{stream_.InternUse(token.text)});
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
    return Target{Target::Form::kAttribute, stream_.InternUse(name), std::move(attribute), {}};
  }
  constexpr std::string_view kReserved[] = {"true", "false", "none", "True", "False", "None"};
  if (std::find(std::begin(kReserved), std::end(kReserved), name) != std::end(kReserved)) {
    return stream_.Fail(fmt::format("can not assign to '{}'", name));
  }
  return Target{Target::Form::kName, stream_.Intern(name), {}, {}};
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
