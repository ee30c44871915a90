// Jinja2's expression grammar, by recursive descent. Precedence from loose to tight:
//
//   a if b else c · or · and · not · == != < > <= >= in, not in · + - · ~ · * / // % · ** · unary - +
//   then, bound to one operand: .name [index] (call) |filter `is` test
//
// As in Jinja2, a filter behind a sign takes the signed value, and ** groups from the left.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/text/jinja/ast.h"
#include "common/text/jinja/parse/token_stream.h"

namespace roost::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& stream) : stream_(stream) {}

  enum class Inline { kWithIf, kWithoutIf };  // may the top level be `a if b else c`? Not behind for's `in`.
  Result<ExpressionPtr> ParseExpression(Inline form = Inline::kWithIf);
  // One expression, or several with commas, which make a tuple.
  Result<ExpressionPtr> ParseTuple(Inline form = Inline::kWithIf);
  // The target of an assignment by set, for or with. A tuple ends at `=` or `in`.
  Result<Target> ParseTarget();
  // name(…)|name… behind a filter tag or block set: a chain whose first input is null.
  Result<ExpressionPtr> ParseFilterChain();
  // A primary with everything bound to it, as in a call block.
  Result<ExpressionPtr> ParseUnary();

 private:
  Result<ExpressionPtr> Make(int line, int depth_below, Expression::Node node) const;

  Result<ExpressionPtr> ParseOr();
  Result<ExpressionPtr> ParseAnd();
  Result<ExpressionPtr> ParseNot();
  Result<ExpressionPtr> ParseComparison();
  std::optional<CompareOperator> TakeCompareOperator();
  Result<ExpressionPtr> ParseSum();
  Result<ExpressionPtr> ParseConcatenation();
  Result<ExpressionPtr> ParseProduct();
  Result<ExpressionPtr> ParsePower();
  Result<ExpressionPtr> ParseSigned();
  Result<ExpressionPtr> ParsePrimary();
  Result<ExpressionPtr> ParseName();
  Result<ExpressionPtr> ParseStrings();
  Result<ExpressionPtr> ParseParenthesized();
  Result<ExpressionPtr> ParseList();
  Result<ExpressionPtr> ParseDict();
  Result<ExpressionPtr> ParsePostfix(ExpressionPtr operand);
  Result<ExpressionPtr> ParseFiltersAndTests(ExpressionPtr operand);
  Result<ExpressionPtr> ParseAttribute(ExpressionPtr object);
  Result<ExpressionPtr> ParseSubscript(ExpressionPtr object);
  Result<ExpressionPtr> ParseSliceRest(ExpressionPtr object, ExpressionPtr start, int line);
  Result<ExpressionPtr> ParseCall(ExpressionPtr callee);
  Result<CallArguments> ParseArguments();
  Result<void> ParseArgument(CallArguments& arguments);
  Result<ExpressionPtr> ParseFilter(ExpressionPtr input);
  Result<ExpressionPtr> ParseTest(ExpressionPtr input);
  Result<CallArguments> ParseTestArguments();
  Result<std::string> ParseDottedName();
  [[nodiscard]] bool AtTupleEnd() const;
  Result<Target> ParseTargetPart();

  TokenStream& stream_;
};

}  // namespace roost::jinja
