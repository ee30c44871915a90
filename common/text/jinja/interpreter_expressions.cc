#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/text/jinja/interpreter.h"
#include "common/text/jinja/lookup_table.h"
#include "common/text/jinja/objects.h"
#include "common/text/jinja/operators.h"
#include "common/text/jinja/text.h"
#include "common/text/jinja/value.h"

namespace roost::jinja {
namespace {

// Global names of every template: range, dict, namespace, cycler, joiner, and Hugging Face's raise_exception and
// strftime_now.

// The most items of one range(), the same as in Jinja2's sandbox.
inline constexpr std::int64_t kMaxRangeItems = 100'000;

constexpr std::size_t kMaxDateText = 1'024;

Result<Value> Range(Runtime& runtime, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("range", {"start", "stop", "step"}, 1));
  const bool has_start = bound.Has(1);
  ROOST_ASSIGN_OR_RETURN(const std::int64_t start, has_start ? bound.Int(0, 0) : Result<std::int64_t>(0));
  ROOST_ASSIGN_OR_RETURN(const std::int64_t stop, bound.Int(has_start ? 1 : 0, 0));
  ROOST_ASSIGN_OR_RETURN(const std::int64_t step, bound.Int(2, 1));
  if (step == 0) return InvalidArgument("", "range() arg 3 must not be zero");
  // 128 bits can not overflow here.
  const __int128 distance = step > 0 ? static_cast<__int128>(stop) - start : static_cast<__int128>(start) - stop;
  const __int128 stride = step > 0 ? static_cast<__int128>(step) : -static_cast<__int128>(step);
  const __int128 count = distance <= 0 ? 0 : (distance + stride - 1) / stride;
  if (count > kMaxRangeItems) return InvalidArgument("", "range() has more than {} items", kMaxRangeItems);
  ROOST_RETURN_IF_ERROR(runtime.Spend(static_cast<std::uint64_t>(count)));
  std::vector<Value> items;
  items.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(count); ++i) items.push_back(Value::Int(start + i * step));
  return runtime.NewSequence(SequenceKind::kRange, std::move(items));
}

// The arguments of dict(…) and namespace(…): a dict or pairs, and named values.
Result<Dict> CollectEntries(Runtime& runtime, const Arguments& arguments, std::string_view function) {
  if (arguments.positional.size() > 1) return InvalidArgument("", "{}() takes at most 1 positional argument", function);
  Dict dict;
  if (!arguments.positional.empty() && arguments.positional[0].is(Kind::kDict)) {
    for (const Dict::Entry& entry : arguments.positional[0].AsDict().entries()) {
      ROOST_RETURN_IF_ERROR(runtime.SpendOn(entry.key));
      dict.Set(entry.key, entry.value);
    }
  } else if (!arguments.positional.empty()) {
    ROOST_ASSIGN_OR_RETURN(const std::vector<Value> pairs, Items(arguments.positional[0], runtime));
    for (const Value& pair : pairs) {
      ROOST_ASSIGN_OR_RETURN(const std::vector<Value> parts, Items(pair, runtime));
      if (parts.size() != 2) return InvalidArgument("", "{}() needs pairs of key and value", function);
      if (!Dict::IsKey(parts[0])) return InvalidArgument("", "a '{}' can not be a key", parts[0].TypeName());
      ROOST_RETURN_IF_ERROR(runtime.SpendOnCopy(parts[0]));
      dict.Set(parts[0], parts[1]);
    }
  }
  for (const auto& [name, value] : arguments.named) dict.Set(name, value);
  ROOST_RETURN_IF_ERROR(runtime.Spend(dict.entries().size()));
  return dict;
}

Result<Value> MakeDict(Runtime& runtime, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(Dict dict, CollectEntries(runtime, arguments, "dict"));
  return runtime.NewDict(std::move(dict));
}

Result<Value> MakeNamespace(Runtime& runtime, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(Dict dict, CollectEntries(runtime, arguments, "namespace"));
  auto made = std::make_shared<Namespace>();
  made->attributes = std::move(dict);
  return runtime.NewObject(std::move(made));
}

Result<Value> MakeCycler(Runtime& runtime, const Arguments& arguments) {
  if (arguments.positional.empty()) return InvalidArgument("", "at least one item has to be provided");
  ROOST_RETURN_IF_ERROR(runtime.SpendBytes(arguments.positional.size() * sizeof(Value)));
  return runtime.NewObject(std::make_shared<Cycler>(arguments.positional));
}

Result<Value> MakeJoiner(Runtime& runtime, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("joiner", {"sep"}, 0));
  return runtime.NewObject(std::make_shared<Joiner>(bound.Or(0, Value::String(", "))));
}

Result<Value> RaiseException(Runtime& runtime, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("raise_exception", {"message"}, 1));
  ROOST_ASSIGN_OR_RETURN(const std::string message, ToText(bound[0], runtime));
  return InvalidArgument("", "{}", message);
}

// Python's %f means microseconds, which C does not have; the time here has none.
std::string WithoutMicroseconds(std::string_view format) {
  std::string out;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      out += format[i];
    } else if (format[++i] == 'f') {
      out += "000000";
    } else {
      out.append("%").append(1, format[i]);
    }
  }
  return out;
}

Result<Value> StrftimeNow(Runtime& runtime, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("strftime_now", {"format"}, 1));
  ROOST_ASSIGN_OR_RETURN(const std::string format, bound.String(0, ""));
  if (format.empty()) return Value::String("");
  if (format.size() > kMaxDateText || format.find('\0') != std::string::npos) {
    return InvalidArgument("", "strftime_now(): the format is too long or has a zero character");
  }
  std::array<char, kMaxDateText> buffer{};
  const std::size_t length =
      std::strftime(buffer.data(), buffer.size(), WithoutMicroseconds(format).c_str(), &runtime.now());
  if (length == 0) return InvalidArgument("", "strftime_now(): the date is empty or over {} bytes", kMaxDateText);
  return runtime.NewString(std::string(buffer.data(), length));
}

constexpr std::array<NamedFunction<GlobalFunction>, 7> kGlobals = {{
    {"cycler", MakeCycler},
    {"dict", MakeDict},
    {"joiner", MakeJoiner},
    {"namespace", MakeNamespace},
    {"raise_exception", RaiseException},
    {"range", Range},
    {"strftime_now", StrftimeNow},
}};

// Undefined when there is no such name.
[[nodiscard]] Value FindGlobal(std::string_view name) {
  const GlobalFunction function = FindIn(kGlobals, name);
  if (function == nullptr) return Value();
  return Value::Of(std::make_shared<Function>(name, function));
}

}  // namespace

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
  return runtime_.NewSequence(SequenceKind::kList, std::move(items));
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
