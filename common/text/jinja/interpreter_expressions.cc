#include <fmt/format.h>

#include "common/text/jinja/globals.h"
#include "common/text/jinja/interpreter.h"
#include "common/text/jinja/objects.h"
#include "common/text/jinja/operators.h"
#include "common/text/jinja/text.h"

namespace roost::jinja {

Result<Value> Interpreter::Evaluate(const Expression& expression) {
  line_ = expression.line;
  if (!runtime_.TrySpend(1)) return runtime_.SpentSteps();
  if (depth_ >= runtime_.limits().depth) {
    return InvalidArgument("", "expressions and macros are nested more than {} deep", runtime_.limits().depth);
  }
  ++depth_;
  Result<Value> value = std::visit([&](const auto& node) { return Eval(node); }, expression.node);
  --depth_;
  return value;
}

Result<Value> Interpreter::EvaluateOr(const ExpressionPtr& expression, Value fallback) {
  if (expression == nullptr) return fallback;
  return Evaluate(*expression);
}

Result<std::vector<Value>> Interpreter::EvaluateAll(const std::vector<ExpressionPtr>& expressions) {
  std::vector<Value> values;
  values.reserve(expressions.size());
  for (const ExpressionPtr& expression : expressions) {
    ROOST_ASSIGN_OR_RETURN(Value value, Evaluate(*expression));
    values.push_back(std::move(value));
  }
  return values;
}

Value Interpreter::Lookup(Symbol symbol) {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    if (const Value* found = scope->Find(symbol)) return *found;
  }
  std::optional<Value>& outer = outer_names_[symbol];
  if (outer) return *outer;
  const std::string& name = tree_.names[symbol];
  const Value* in_context = context_.is(Kind::kDict) ? context_.AsDict().Find(std::string_view(name)) : nullptr;
  outer = in_context != nullptr ? *in_context : FindGlobal(name);
  if (outer->is(Kind::kUndefined)) outer = Value::Undefined(fmt::format("'{}' is undefined", name));
  return *outer;
}

Result<Value> Interpreter::Eval(const Literal& node) { return node.value; }

Result<Value> Interpreter::Eval(const Name& node) { return Lookup(node.symbol); }

Result<Value> Interpreter::Eval(const ListLiteral& node) {
  ROOST_ASSIGN_OR_RETURN(std::vector<Value> items, EvaluateAll(node.items));
  return runtime_.NewList(std::move(items));
}

Result<Value> Interpreter::Eval(const TupleLiteral& node) {
  ROOST_ASSIGN_OR_RETURN(std::vector<Value> items, EvaluateAll(node.items));
  return runtime_.NewSequence(SequenceKind::kTuple, std::move(items));
}

Result<Value> Interpreter::Eval(const DictLiteral& node) {
  Dict dict;
  for (const auto& entry : node.entries) {
    ROOST_ASSIGN_OR_RETURN(Value key, Evaluate(*entry.first));
    ROOST_ASSIGN_OR_RETURN(Value value, Evaluate(*entry.second));
    if (!Dict::IsKey(key)) return InvalidArgument("", "a '{}' can not be a key of a dict", key.TypeName());
    ROOST_RETURN_IF_ERROR(runtime_.SpendOnCopy(key));
    dict.Set(std::move(key), std::move(value));
  }
  return runtime_.NewDict(std::move(dict));
}

Result<Value> Interpreter::Eval(const Unary& node) {
  ROOST_ASSIGN_OR_RETURN(const Value operand, Evaluate(*node.operand));
  return Apply(node.op, operand);
}

Result<Value> Interpreter::Eval(const Binary& node) {
  ROOST_ASSIGN_OR_RETURN(const Value left, Evaluate(*node.left));
  ROOST_ASSIGN_OR_RETURN(const Value right, Evaluate(*node.right));
  ROOST_RETURN_IF_ERROR(runtime_.SpendOnCopy(left));
  ROOST_RETURN_IF_ERROR(runtime_.SpendOnCopy(right));
  return Apply(node.op, left, right, runtime_);
}

Result<Value> Interpreter::Eval(const Not& node) {
  ROOST_ASSIGN_OR_RETURN(const Value operand, Evaluate(*node.operand));
  return Value::Bool(!operand.IsTrue());
}

Result<Value> Interpreter::Eval(const Logical& node) {
  ROOST_ASSIGN_OR_RETURN(Value left, Evaluate(*node.left));
  const bool is_decided = left.IsTrue() == (node.op == LogicalOperator::kOr);
  if (is_decided) return left;
  return Evaluate(*node.right);
}

Result<Value> Interpreter::Eval(const Concatenation& node) {
  TracedText text;
  for (const ExpressionPtr& part : node.parts) {
    ROOST_ASSIGN_OR_RETURN(const Value value, Evaluate(*part));
    ROOST_RETURN_IF_ERROR(AppendText(value, runtime_, text));
    ROOST_RETURN_IF_ERROR(runtime_.AllowText(text.size()));
  }
  return runtime_.NewString(std::move(text));
}

Result<Value> Interpreter::Eval(const Comparison& node) {
  ROOST_ASSIGN_OR_RETURN(Value left, Evaluate(*node.first));
  for (const auto& operand : node.rest) {
    ROOST_ASSIGN_OR_RETURN(Value right, Evaluate(*operand.second));
    ROOST_ASSIGN_OR_RETURN(const bool holds, Compare(operand.first, left, right, runtime_));
    if (!holds) return Value::Bool(false);
    left = std::move(right);
  }
  return Value::Bool(true);
}

Result<Value> Interpreter::Eval(const Conditional& node) {
  ROOST_ASSIGN_OR_RETURN(const Value condition, Evaluate(*node.condition));
  if (condition.IsTrue()) return Evaluate(*node.chosen);
  return EvaluateOr(node.otherwise,
                    Value::Undefined("the inline if-expression evaluated to false and no else section was defined"));
}

Result<Value> Interpreter::AttributeOf(const Value& object, const Attribute& node) {
  if (const MethodFunction method = node.methods.For(object)) {
    return runtime_.NewObject(std::make_shared<BoundMethod>(object, method));
  }
  if (object.is(Kind::kObject)) return ObjectAttribute(object, node.name.AsString());
  return GetAttribute(object, node.name);
}

Result<Value> Interpreter::Eval(const Attribute& node) {
  ROOST_ASSIGN_OR_RETURN(const Value object, Evaluate(*node.object));
  return AttributeOf(object, node);
}

Result<Value> Interpreter::Eval(const Subscript& node) {
  ROOST_ASSIGN_OR_RETURN(const Value object, Evaluate(*node.object));
  ROOST_ASSIGN_OR_RETURN(const Value index, Evaluate(*node.index));
  if (object.is(Kind::kObject) && index.is(Kind::kString)) return ObjectAttribute(object, index.AsString());
  return GetItem(object, index, runtime_);
}

Result<Value> Interpreter::Eval(const Slice& node) {
  ROOST_ASSIGN_OR_RETURN(const Value object, Evaluate(*node.object));
  SliceBounds bounds;
  ROOST_ASSIGN_OR_RETURN(bounds.start, EvaluateOr(node.start, Value::None()));
  ROOST_ASSIGN_OR_RETURN(bounds.stop, EvaluateOr(node.stop, Value::None()));
  ROOST_ASSIGN_OR_RETURN(bounds.step, EvaluateOr(node.step, Value::None()));
  return GetSlice(object, bounds, runtime_);
}

Result<Value> Interpreter::Eval(const FilterCall& node) {
  Value input;
  if (node.input == nullptr) {
    input = std::move(captured_);
  } else {
    ROOST_ASSIGN_OR_RETURN(input, Evaluate(*node.input));
  }
  if (node.function == nullptr) return InvalidArgument("", "No filter named '{}'.", node.name);
  ROOST_ASSIGN_OR_RETURN(const Arguments arguments, EvaluateArguments(node.arguments));
  ROOST_RETURN_IF_ERROR(runtime_.SpendOn(input));
  ROOST_ASSIGN_OR_RETURN(Value made, node.function(runtime_, input, arguments));
  return Traced(std::move(made), input, arguments);
}

Result<Value> Interpreter::Eval(const TestCall& node) {
  ROOST_ASSIGN_OR_RETURN(const Value input, Evaluate(*node.input));
  if (node.function == nullptr) return InvalidArgument("", "No test named '{}'.", node.name);
  ROOST_ASSIGN_OR_RETURN(const Arguments arguments, EvaluateArguments(node.arguments));
  ROOST_RETURN_IF_ERROR(runtime_.SpendOn(input));
  ROOST_ASSIGN_OR_RETURN(const bool holds, node.function(runtime_, input, arguments));
  return Value::Bool(holds);
}

Result<Arguments> Interpreter::EvaluateArguments(const CallArguments& arguments) {
  Arguments values;
  ROOST_ASSIGN_OR_RETURN(values.positional, EvaluateAll(arguments.positional));
  for (const auto& argument : arguments.named) {
    ROOST_ASSIGN_OR_RETURN(Value value, Evaluate(*argument.second));
    values.named.emplace_back(argument.first, std::move(value));
  }
  if (arguments.more_positional != nullptr) {
    ROOST_ASSIGN_OR_RETURN(const Value more, Evaluate(*arguments.more_positional));
    ROOST_ASSIGN_OR_RETURN(const std::vector<Value> items, Items(more, runtime_));
    values.positional.insert(values.positional.end(), items.begin(), items.end());
  }
  if (arguments.more_named != nullptr) {
    ROOST_ASSIGN_OR_RETURN(const Value more, Evaluate(*arguments.more_named));
    if (!more.is(Kind::kDict)) return InvalidArgument("", "arguments behind ** must be a dict");
    ROOST_RETURN_IF_ERROR(runtime_.Spend(more.AsDict().entries().size()));
    for (const Dict::Entry& entry : more.AsDict().entries()) {
      if (!entry.key.is(Kind::kString)) return InvalidArgument("", "argument names must be strings");
      ROOST_RETURN_IF_ERROR(runtime_.SpendOnCopy(entry.key));
      // Twice: once here, and once where the callee makes a dict of them.
      ROOST_RETURN_IF_ERROR(runtime_.SpendBytes(2 * entry.key.AsString().size()));
      values.named.emplace_back(entry.key.AsString(), entry.value);
    }
  }
  ROOST_RETURN_IF_ERROR(SpendOnCopies(values, runtime_));
  return values;
}

}  // namespace roost::jinja
