#include <algorithm>
#include <cstdint>

#include "common/text/jinja/interpreter.h"
#include "common/text/jinja/objects.h"
#include "common/text/jinja/operators.h"

namespace roost::jinja {

Result<Value> Interpreter::Eval(const Call& node) {
  // Python evaluates the callee before its arguments. The difference shows only when both fail: another error is
  // reported.
  ROOST_ASSIGN_OR_RETURN(const Arguments arguments, EvaluateArguments(node.arguments));
  return CallWith(node, arguments);
}

Result<Value> Interpreter::CallWith(const Call& node, const Arguments& arguments) {
  const auto* attribute = std::get_if<Attribute>(&node.callee->node);
  if (attribute == nullptr) {
    ROOST_ASSIGN_OR_RETURN(const Value callee, Evaluate(*node.callee));
    return CallValue(callee, arguments);
  }
  ROOST_ASSIGN_OR_RETURN(const Value object, Evaluate(*attribute->object));
  if (const MethodFunction method = attribute->methods.For(object)) {
    ROOST_RETURN_IF_ERROR(runtime_.SpendOn(object));
    ROOST_ASSIGN_OR_RETURN(Value made, method(runtime_, object, arguments));
    return Traced(std::move(made), object, arguments);
  }
  if (object.is(Kind::kObject)) return CallObjectMethod(object, attribute->name.AsString(), arguments);
  ROOST_ASSIGN_OR_RETURN(const Value callee, GetAttribute(object, attribute->name));
  return CallValue(callee, arguments);
}

Value Interpreter::Traced(Value made, const Value& input, const Arguments& arguments) {
  if (!made.is(Kind::kString) || made.AsString().empty() || !made.written().empty()) return made;
  const auto is_written = [](const Value& value) { return value.IsAllWritten(); };
  const bool is_all_written = is_written(input) &&
                              std::all_of(arguments.positional.begin(), arguments.positional.end(), is_written) &&
                              std::all_of(arguments.named.begin(), arguments.named.end(),
                                          [&](const auto& named) { return is_written(named.second); });
  if (!is_all_written) return made;
  return Value::String(TracedText::Written(made.AsString()), made.IsMarkup() ? Markup::kYes : Markup::kNo);
}

Result<Value> Interpreter::CallValue(const Value& callee, const Arguments& arguments) {
  if (callee.is(Kind::kUndefined)) return UndefinedError(callee);
  if (callee.is(Kind::kObject)) {
    Object& object = callee.AsObject();
    switch (object.object_kind()) {
      case ObjectKind::kMacro: return CallMacro(static_cast<const Macro&>(object), arguments);
      case ObjectKind::kFunction: return static_cast<const Function&>(object).call(runtime_, arguments);
      case ObjectKind::kBoundMethod: {
        const auto& bound = static_cast<const BoundMethod&>(object);
        ROOST_RETURN_IF_ERROR(runtime_.SpendOn(bound.self));
        return bound.call(runtime_, bound.self, arguments);
      }
      case ObjectKind::kJoiner: {
        auto& joiner = static_cast<Joiner&>(object);
        return std::exchange(joiner.was_called, true) ? joiner.separator : Value::String("");
      }
      case ObjectKind::kLoop: {
        const auto& loop = static_cast<const Loop&>(object);
        ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("loop", {"iterable"}, 1));
        if (loop.node.form != For::Form::kRecursive)
          return InvalidArgument("", "The loop must have 'recursive' to be called");
        TracedText text;
        ROOST_ASSIGN_OR_RETURN([[maybe_unused]] const Flow flow,
                               RunLoop(loop.node, bound[0], LoopPlace{loop.outer, loop.depth + 1}, text));
        return runtime_.NewString(std::move(text));
      }
      case ObjectKind::kNamespace:
      case ObjectKind::kCycler: break;
    }
  }
  return InvalidArgument("", "'{}' object is not callable", callee.TypeName());
}

Result<Value> Interpreter::MakeMacro(std::shared_ptr<const MacroDefinition> definition) {
  for (Scope* scope = scope_; scope != nullptr && !scope->is_captured; scope = scope->parent) {
    scope->is_captured = true;
    ROOST_RETURN_IF_ERROR(runtime_.SpendBytes(sizeof(Scope)));
  }
  return runtime_.NewObject(std::make_shared<Macro>(std::move(definition), scope_));
}

Result<Value> Interpreter::CallMacro(const Macro& macro, const Arguments& arguments) {
  const ScopeGuard scope(*this, macro.scope);
  ROOST_RETURN_IF_ERROR(BindParameters(*macro.definition, arguments));
  TracedText text;
  ROOST_ASSIGN_OR_RETURN([[maybe_unused]] const Flow flow, Run(macro.definition->body, text));
  return runtime_.NewString(std::move(text));
}

Result<void> Interpreter::BindParameters(const MacroDefinition& macro, const Arguments& arguments) {
  std::vector<bool> is_used(arguments.named.size(), false);
  for (std::size_t i = 0; i < macro.parameters.size(); ++i) {
    const MacroDefinition::Parameter& parameter = macro.parameters[i];
    if (i < arguments.positional.size()) {
      scope_->Set(parameter.symbol, arguments.positional[i]);
      continue;
    }
    const Value* named = arguments.FindNamed(parameter.name);
    if (named != nullptr) {
      for (std::size_t k = 0; k < is_used.size(); ++k) {
        if (arguments.named[k].first == parameter.name) is_used[k] = true;
      }
      scope_->Set(parameter.symbol, *named);
      continue;
    }
    ROOST_ASSIGN_OR_RETURN(
        Value fallback, EvaluateOr(parameter.fallback,
                                   Value::Undefined(fmt::format("parameter '{}' was not provided", parameter.name))));
    scope_->Set(parameter.symbol, std::move(fallback));
  }
  return BindRest(macro, arguments, is_used);
}

Result<void> Interpreter::BindRest(const MacroDefinition& macro, const Arguments& arguments,
                                   const std::vector<bool>& is_used) {
  Value caller = Value::Undefined("No caller defined");
  Dict more_named;
  for (std::size_t i = 0; i < arguments.named.size(); ++i) {
    if (is_used[i]) continue;
    const auto& [name, value] = arguments.named[i];
    if (name == "caller" && macro.caller) {
      caller = value;
    } else if (macro.more_named) {
      more_named.Set(name, value);
    } else {
      return InvalidArgument("", "macro '{}' takes no keyword argument '{}'", macro.name, name);
    }
  }
  if (macro.caller) scope_->Set(*macro.caller, std::move(caller));
  if (macro.more_named) {
    ROOST_ASSIGN_OR_RETURN(Value named, runtime_.NewDict(std::move(more_named)));
    scope_->Set(*macro.more_named, std::move(named));
  }
  const std::size_t taken = std::min(macro.parameters.size(), arguments.positional.size());
  if (macro.more_positional) {
    ROOST_ASSIGN_OR_RETURN(
        Value rest,
        runtime_.NewSequence(SequenceKind::kTuple, {arguments.positional.begin() + static_cast<std::ptrdiff_t>(taken),
                                                    arguments.positional.end()}));
    scope_->Set(*macro.more_positional, std::move(rest));
  } else if (taken < arguments.positional.size()) {
    return InvalidArgument("", "macro '{}' takes not more than {} argument(s)", macro.name, macro.parameters.size());
  }
  return {};
}

Result<Value> Interpreter::CallObjectMethod(const Value& object, const std::string& name, const Arguments& arguments) {
  if (object.AsObject().object_kind() == ObjectKind::kLoop) {
    auto& loop = static_cast<Loop&>(object.AsObject());
    if (name == "cycle") {
      if (arguments.positional.empty()) return InvalidArgument("", "no items for cycling given");
      return arguments.positional[static_cast<std::size_t>(loop.index0) % arguments.positional.size()];
    }
    if (name == "changed") {
      ROOST_ASSIGN_OR_RETURN(const Value seen, runtime_.NewSequence(SequenceKind::kTuple, arguments.positional));
      ROOST_ASSIGN_OR_RETURN(const bool is_same, Equals(loop.last_changed, seen, runtime_));
      loop.last_changed = seen;
      return Value::Bool(!is_same);
    }
  }
  if (object.AsObject().object_kind() == ObjectKind::kCycler) {
    auto& cycler = static_cast<Cycler&>(object.AsObject());
    if (name == "next") return cycler.items[cycler.next++ % cycler.items.size()];
    if (name == "reset") {
      cycler.next = 0;
      return Value::None();
    }
  }
  ROOST_ASSIGN_OR_RETURN(const Value callee, ObjectAttribute(object, name));
  return CallValue(callee, arguments);
}

Result<Value> Interpreter::ObjectAttribute(const Value& object, const std::string& name) {
  Object& held = object.AsObject();
  if (held.object_kind() == ObjectKind::kLoop) return LoopAttribute(static_cast<Loop&>(held), name);
  if (held.object_kind() == ObjectKind::kCycler && name == "current") {
    const auto& cycler = static_cast<const Cycler&>(held);
    return cycler.items[cycler.next % cycler.items.size()];
  }
  if (held.object_kind() == ObjectKind::kMacro && name == "name") {
    return Value::String(static_cast<const Macro&>(held).definition->name);
  }
  return GetAttribute(object, Value::String(name));
}

}  // namespace roost::jinja
