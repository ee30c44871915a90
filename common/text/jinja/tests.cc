#include "common/text/jinja/tests.h"

#include <array>
#include <string>

#include "common/text/jinja/filters.h"
#include "common/text/jinja/lookup_table.h"
#include "common/text/jinja/methods.h"
#include "common/text/jinja/operators.h"
#include "common/text/jinja/text.h"

namespace roost::jinja {
namespace {

using Predicate = bool (*)(const Value& value);

// A test without arguments.
template <Predicate kPredicate>
Result<bool> Check(Runtime& /*runtime*/, const Value& input, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("test", {}, 0));
  return kPredicate(input);
}

bool IsDefined(const Value& value) { return !value.is(Kind::kUndefined); }
bool IsUndefined(const Value& value) { return value.is(Kind::kUndefined); }
bool IsNone(const Value& value) { return value.is(Kind::kNone); }
bool IsBoolean(const Value& value) { return value.is(Kind::kBool); }
bool IsTrueItself(const Value& value) { return value.is(Kind::kBool) && value.AsBool(); }
bool IsFalseItself(const Value& value) { return value.is(Kind::kBool) && !value.AsBool(); }
bool IsInteger(const Value& value) { return value.is(Kind::kInt); }
bool IsFloat(const Value& value) { return value.is(Kind::kFloat); }
bool IsNumber(const Value& value) { return value.is_number(); }
bool IsString(const Value& value) { return value.is(Kind::kString); }
bool IsMapping(const Value& value) { return value.is(Kind::kDict); }
bool IsEscaped(const Value& value) { return value.IsMarkup(); }

// Has it a length, and items by number or key?
bool IsSequence(const Value& value) {
  if (value.is(Kind::kString) || value.is(Kind::kDict) || value.is(Kind::kUndefined)) return true;
  if (!value.is(Kind::kSequence)) return false;
  const SequenceKind kind = value.AsSequence().kind;
  return kind == SequenceKind::kList || kind == SequenceKind::kTuple || kind == SequenceKind::kRange;
}

bool IsIterable(const Value& value) {
  if (value.is(Kind::kObject)) return value.AsObject().object_kind() == ObjectKind::kLoop;
  return value.is(Kind::kString) || value.is(Kind::kDict) || value.is(Kind::kSequence) || value.is(Kind::kUndefined);
}

// Undefined counts as callable, as in Python; the call is then an error.
bool IsCallable(const Value& value) {
  if (value.is(Kind::kUndefined)) return true;
  return value.is(Kind::kObject) && value.AsObject().object_kind() != ObjectKind::kNamespace &&
         value.AsObject().object_kind() != ObjectKind::kCycler;
}

template <CompareOperator kOperator>
Result<bool> CompareTest(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("comparison", {"other"}, 1));
  return Compare(kOperator, input, bound[0], runtime);
}

Result<bool> SameAs(Runtime& /*runtime*/, const Value& input, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("sameas", {"other"}, 1));
  return input.IsSameAs(bound[0]);
}

// Is the remainder of input / divisor `wanted`?
Result<bool> HasRemainder(const Value& input, const Value& divisor, std::int64_t wanted, Runtime& runtime) {
  if (input.is(Kind::kString)) return InvalidArgument("", "a string has no remainder");
  ROOST_ASSIGN_OR_RETURN(const Value rest, Apply(BinaryOperator::kModulo, input, divisor, runtime));
  return Equals(rest, Value::Int(wanted), runtime);
}

Result<bool> DivisibleBy(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("divisibleby", {"num"}, 1));
  return HasRemainder(input, bound[0], 0, runtime);
}
Result<bool> Odd(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("odd", {}, 0));
  return HasRemainder(input, Value::Int(2), 1, runtime);
}
Result<bool> Even(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("even", {}, 0));
  return HasRemainder(input, Value::Int(2), 0, runtime);
}

Result<bool> CaseTest(std::string_view method, Runtime& runtime, const Value& input, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(std::string text, ToText(input, runtime));
  ROOST_ASSIGN_OR_RETURN(const Value result,
                         FindStringMethod(method)(runtime, Value::String(std::move(text)), arguments));
  return result.IsTrue();
}
Result<bool> IsLower(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return CaseTest("islower", runtime, input, arguments);
}
Result<bool> IsUpper(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return CaseTest("isupper", runtime, input, arguments);
}

Result<bool> IsFilter(Runtime& /*runtime*/, const Value& input, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("filter", {}, 0));
  return input.is(Kind::kString) && FindFilter(input.AsString()) != nullptr;
}
Result<bool> IsTest(Runtime& /*runtime*/, const Value& input, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("test", {}, 0));
  return input.is(Kind::kString) && FindTest(input.AsString()) != nullptr;
}

constexpr std::array<NamedFunction<TestFunction>, 39> kTests = {{
    {"!=", CompareTest<CompareOperator::kNotEqual>},
    {"<", CompareTest<CompareOperator::kLess>},
    {"<=", CompareTest<CompareOperator::kLessEqual>},
    {"==", CompareTest<CompareOperator::kEqual>},
    {">", CompareTest<CompareOperator::kGreater>},
    {">=", CompareTest<CompareOperator::kGreaterEqual>},
    {"boolean", Check<IsBoolean>},
    {"callable", Check<IsCallable>},
    {"defined", Check<IsDefined>},
    {"divisibleby", DivisibleBy},
    {"eq", CompareTest<CompareOperator::kEqual>},
    {"equalto", CompareTest<CompareOperator::kEqual>},
    {"escaped", Check<IsEscaped>},
    {"even", Even},
    {"false", Check<IsFalseItself>},
    {"filter", IsFilter},
    {"float", Check<IsFloat>},
    {"ge", CompareTest<CompareOperator::kGreaterEqual>},
    {"greaterthan", CompareTest<CompareOperator::kGreater>},
    {"gt", CompareTest<CompareOperator::kGreater>},
    {"in", CompareTest<CompareOperator::kIn>},
    {"integer", Check<IsInteger>},
    {"iterable", Check<IsIterable>},
    {"le", CompareTest<CompareOperator::kLessEqual>},
    {"lessthan", CompareTest<CompareOperator::kLess>},
    {"lower", IsLower},
    {"lt", CompareTest<CompareOperator::kLess>},
    {"mapping", Check<IsMapping>},
    {"ne", CompareTest<CompareOperator::kNotEqual>},
    {"none", Check<IsNone>},
    {"number", Check<IsNumber>},
    {"odd", Odd},
    {"sameas", SameAs},
    {"sequence", Check<IsSequence>},
    {"string", Check<IsString>},
    {"test", IsTest},
    {"true", Check<IsTrueItself>},
    {"undefined", Check<IsUndefined>},
    {"upper", IsUpper},
}};

}  // namespace

TestFunction FindTest(std::string_view name) { return FindIn(kTests, name); }

}  // namespace roost::jinja
