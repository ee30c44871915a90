#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "common/text/jinja/operators.h"
#include "common/text/jinja/percent_format.h"

namespace roost::jinja {
namespace {

std::string_view SymbolOf(BinaryOperator op) {
  switch (op) {
    case BinaryOperator::kAdd: return "+";
    case BinaryOperator::kSubtract: return "-";
    case BinaryOperator::kMultiply: return "*";
    case BinaryOperator::kDivide: return "/";
    case BinaryOperator::kFloorDivide: return "//";
    case BinaryOperator::kModulo: return "%";
    case BinaryOperator::kPower: return "**";
  }
  return "?";
}

Error Unsupported(BinaryOperator op, const Value& left, const Value& right) {
  if (left.is(Kind::kUndefined)) return UndefinedError(left);
  if (right.is(Kind::kUndefined)) return UndefinedError(right);
  if (op == BinaryOperator::kAdd && left.is(Kind::kString)) {
    return InvalidArgument("", "can only concatenate str (not \"{}\") to str", right.TypeName());
  }
  return InvalidArgument("", "unsupported operand types for {}: '{}' and '{}'", SymbolOf(op), left.TypeName(),
                         right.TypeName());
}

Error TooLarge() { return InvalidArgument("", "an integer grows over 64 bits"); }
Error DivisionByZero() { return InvalidArgument("", "division by zero"); }

// Quotient rounded towards minus infinity; b must not be 0, and the quotient must fit.
std::int64_t FloorDivide(std::int64_t a, std::int64_t b) {
  const std::int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

Result<Value> IntegerPower(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return DivisionByZero();
    return Value::Float(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  std::int64_t result = 1;
  bool base_is_exact = true;  // no squaring has overflowed yet
  for (; exponent > 0; exponent >>= 1) {
    if (!base_is_exact) return TooLarge();
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return TooLarge();
    base_is_exact = !__builtin_mul_overflow(base, base, &base);
  }
  return Value::Int(result);
}

Result<Value> IntegerArithmetic(BinaryOperator op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  switch (op) {
    case BinaryOperator::kAdd:
      if (__builtin_add_overflow(a, b, &result)) return TooLarge();
      return Value::Int(result);
    case BinaryOperator::kSubtract:
      if (__builtin_sub_overflow(a, b, &result)) return TooLarge();
      return Value::Int(result);
    case BinaryOperator::kMultiply:
      if (__builtin_mul_overflow(a, b, &result)) return TooLarge();
      return Value::Int(result);
    case BinaryOperator::kPower: return IntegerPower(a, b);
    default: break;
  }
  if (b == 0) return DivisionByZero();
  if (op == BinaryOperator::kDivide) return Value::Float(static_cast<double>(a) / static_cast<double>(b));
  if (b == -1 && a == std::numeric_limits<std::int64_t>::min()) {
    if (op == BinaryOperator::kModulo) return Value::Int(0);
    return TooLarge();
  }
  const std::int64_t quotient = FloorDivide(a, b);
  return Value::Int(op == BinaryOperator::kFloorDivide ? quotient : a - quotient * b);
}

// Python's float modulo takes the sign of the divisor.
double FloorModulo(double a, double b) {
  const double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

// The floor of the exact quotient, as in CPython; a zero keeps the sign of a / b.
double FloorQuotient(double a, double b) {
  const double quotient = (a - FloorModulo(a, b)) / b;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floored = std::floor(quotient);
  return quotient - floored > 0.5 ? floored + 1 : floored;
}

Result<Value> FloatPower(double a, double b) {
  if (a == 0 && b < 0) return DivisionByZero();
  const double result = std::pow(a, b);
  if (std::isnan(result) && !std::isnan(a) && !std::isnan(b)) {
    return InvalidArgument("", "a negative number has no real power of {}", b);
  }
  if (std::isinf(result) && !std::isinf(a) && !std::isinf(b)) return InvalidArgument("", "a float grows too large");
  return Value::Float(result);
}

Result<Value> FloatArithmetic(BinaryOperator op, double a, double b) {
  switch (op) {
    case BinaryOperator::kAdd: return Value::Float(a + b);
    case BinaryOperator::kSubtract: return Value::Float(a - b);
    case BinaryOperator::kMultiply: return Value::Float(a * b);
    case BinaryOperator::kPower: return FloatPower(a, b);
    default: break;
  }
  if (b == 0) return DivisionByZero();
  if (op == BinaryOperator::kDivide) return Value::Float(a / b);
  if (op == BinaryOperator::kModulo) return Value::Float(FloorModulo(a, b));
  return Value::Float(FloorQuotient(a, b));
}

Result<Value> AddStrings(const Value& left, const Value& right, Runtime& runtime) {
  if (left.IsMarkup() == right.IsMarkup()) {
    TracedText sum;
    sum.bytes.reserve(left.AsString().size() + right.AsString().size());
    sum.Append(left);
    sum.Append(right);
    return runtime.NewString(std::move(sum), left.IsMarkup() ? Markup::kYes : Markup::kNo);
  }
  ROOST_ASSIGN_OR_RETURN(const Value safe_left, EscapeMarkup(left, runtime));
  ROOST_ASSIGN_OR_RETURN(const Value safe_right, EscapeMarkup(right, runtime));
  return runtime.NewString(safe_left.AsString() + safe_right.AsString(), Markup::kYes);
}

bool IsListOrTuple(const Value& value) {
  return value.is(Kind::kSequence) &&
         (value.AsSequence().kind == SequenceKind::kList || value.AsSequence().kind == SequenceKind::kTuple);
}

Result<Value> AddSequences(const Value& left, const Value& right, Runtime& runtime) {
  std::vector<Value> items = left.AsSequence().items;
  const std::vector<Value>& more = right.AsSequence().items;
  ROOST_RETURN_IF_ERROR(runtime.Spend(items.size() + more.size()));
  items.insert(items.end(), more.begin(), more.end());
  return runtime.NewSequence(left.AsSequence().kind, std::move(items));
}

Result<Value> Repeat(const Value& value, std::int64_t times, Runtime& runtime) {
  const auto count = static_cast<std::uint64_t>(times < 0 ? 0 : times);
  std::uint64_t total = 0;
  if (value.is(Kind::kString)) {
    if (__builtin_mul_overflow(value.AsString().size(), count, &total)) {
      total = std::numeric_limits<std::uint64_t>::max();
    }
    ROOST_RETURN_IF_ERROR(runtime.AllowText(total));
    TracedText text;
    text.bytes.reserve(total);
    while (text.size() < total) text.Append(value);
    return runtime.NewString(std::move(text), value.IsMarkup() ? Markup::kYes : Markup::kNo);
  }
  const std::vector<Value>& unit = value.AsSequence().items;
  if (__builtin_mul_overflow(unit.size(), count, &total)) total = std::numeric_limits<std::uint64_t>::max();
  ROOST_RETURN_IF_ERROR(runtime.Spend(total));
  ROOST_RETURN_IF_ERROR(runtime.SpendBytes(total * sizeof(Value)));
  std::vector<Value> items;
  items.reserve(total);
  while (items.size() < total) items.insert(items.end(), unit.begin(), unit.end());
  return runtime.NewSequence(value.AsSequence().kind, std::move(items));
}

bool IsRepeatable(const Value& value) { return value.is(Kind::kString) || IsListOrTuple(value); }

}  // namespace

Result<Value> Apply(BinaryOperator op, const Value& left, const Value& right, Runtime& runtime) {
  if (op == BinaryOperator::kAdd && left.is(Kind::kString) && right.is(Kind::kString)) {
    return AddStrings(left, right, runtime);
  }
  if (left.is_number() && right.is_number()) {
    if (left.is(Kind::kFloat) || right.is(Kind::kFloat)) {
      return FloatArithmetic(op, *left.ToDouble(), *right.ToDouble());
    }
    return IntegerArithmetic(op, *left.ToInteger(), *right.ToInteger());
  }
  if (op == BinaryOperator::kAdd && IsListOrTuple(left) && IsListOrTuple(right) &&
      left.AsSequence().kind == right.AsSequence().kind) {
    return AddSequences(left, right, runtime);
  }
  if (op == BinaryOperator::kMultiply) {
    if (IsRepeatable(left) && right.ToInteger()) return Repeat(left, *right.ToInteger(), runtime);
    if (IsRepeatable(right) && left.ToInteger()) return Repeat(right, *left.ToInteger(), runtime);
  }
  if (op == BinaryOperator::kModulo && left.is(Kind::kString)) return PercentFormat(left, right, runtime);
  return Unsupported(op, left, right);
}

Result<Value> Apply(UnaryOperator op, const Value& operand) {
  if (operand.is(Kind::kUndefined)) return UndefinedError(operand);
  if (const auto integer = operand.ToInteger()) {
    if (op == UnaryOperator::kPlus) return Value::Int(*integer);
    if (*integer == std::numeric_limits<std::int64_t>::min()) return TooLarge();
    return Value::Int(-*integer);
  }
  if (operand.is(Kind::kFloat)) {
    return Value::Float(op == UnaryOperator::kMinus ? -operand.AsFloat() : operand.AsFloat());
  }
  return InvalidArgument("", "bad operand type for unary {}: '{}'", op == UnaryOperator::kMinus ? '-' : '+',
                         operand.TypeName());
}

}  // namespace roost::jinja
