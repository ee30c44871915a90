#include "common/text/jinja/interpreter.h"

#include <algorithm>

#include "common/text/jinja/objects.h"
#include "common/text/jinja/operators.h"
#include "common/text/jinja/text.h"

namespace roost::jinja {

const Value* Scope::Find(Symbol symbol) const {
  for (const auto& [name, value] : variables) {
    if (name == symbol) return &value;
  }
  return nullptr;
}

void Scope::Set(Symbol symbol, Value value) {
  for (auto& [name, old] : variables) {
    if (name == symbol) {
      old = std::move(value);
      return;
    }
  }
  variables.emplace_back(symbol, std::move(value));
}

Interpreter::Interpreter(const TemplateTree& tree, const Value& context, Runtime& runtime)
    : tree_(tree), context_(context), runtime_(runtime), outer_names_(tree.names.size()) {
  const auto loop = std::find(tree.names.begin(), tree.names.end(), "loop");
  if (loop != tree.names.end()) loop_symbol_ = static_cast<Symbol>(loop - tree.names.begin());
}

Result<TracedText> Interpreter::Render() {
  const ScopeGuard scope(*this, nullptr);
  TracedText out;
  ROOST_ASSIGN_OR_RETURN([[maybe_unused]] const Flow flow, Run(tree_.body, out));
  return out;
}

Scope* Interpreter::PushScope(Scope* parent) {
  Scope* const previous = scope_;
  if (free_scopes_.empty()) {
    scope_ = &scopes_.emplace_back();
  } else {
    scope_ = free_scopes_.back();
    free_scopes_.pop_back();
  }
  scope_->parent = parent;
  return previous;
}

void Interpreter::PopScope(Scope* previous) {
  if (!scope_->is_captured) {
    scope_->variables.clear();
    free_scopes_.push_back(scope_);
  }
  scope_ = previous;
}

Result<Interpreter::Flow> Interpreter::Run(const Body& body, TracedText& out) {
  for (const Statement& statement : body) {
    ROOST_ASSIGN_OR_RETURN(const Flow flow, Run(statement, out));
    if (flow != Flow::kOn) return flow;
  }
  return Flow::kOn;
}

Result<Interpreter::Flow> Interpreter::Run(const Statement& statement, TracedText& out) {
  line_ = statement.line;
  if (!runtime_.TrySpend(1)) return runtime_.SpentSteps();
  if (depth_ >= runtime_.limits().depth) {
    return InvalidArgument("", "statements and macros are nested more than {} deep", runtime_.limits().depth);
  }
  ++depth_;
  Result<Flow> flow = std::visit([&](const auto& node) { return Exec(node, out); }, statement.node);
  --depth_;
  return flow;
}

Result<Interpreter::Flow> Interpreter::Exec(const TextOutput& node, TracedText& out) {
  out.AppendWritten(node.text);
  ROOST_RETURN_IF_ERROR(runtime_.SpendBytes(node.text.size()));
  ROOST_RETURN_IF_ERROR(runtime_.AllowText(out.size()));
  return Flow::kOn;
}

Result<void> Interpreter::Append(const Value& value, TracedText& out) {
  const std::size_t before = out.size();
  ROOST_RETURN_IF_ERROR(AppendText(value, runtime_, out));
  ROOST_RETURN_IF_ERROR(runtime_.SpendBytes(out.size() - before));
  return runtime_.AllowText(out.size());
}

Result<Interpreter::Flow> Interpreter::Exec(const Print& node, TracedText& out) {
  ROOST_ASSIGN_OR_RETURN(const Value value, Evaluate(*node.value));
  ROOST_RETURN_IF_ERROR(Append(value, out));
  return Flow::kOn;
}

Result<Interpreter::Flow> Interpreter::Exec(const If& node, TracedText& out) {
  for (const If::Branch& branch : node.branches) {
    ROOST_ASSIGN_OR_RETURN(const Value condition, Evaluate(*branch.condition));
    if (condition.IsTrue()) return Run(branch.body, out);
  }
  return Run(node.otherwise, out);
}

Result<Interpreter::Flow> Interpreter::Exec(const For& node, TracedText& out) {
  ROOST_ASSIGN_OR_RETURN(const Value iterable, Evaluate(*node.iterable));
  return RunLoop(node, iterable, LoopPlace{scope_, 0}, out);
}

Result<Interpreter::Flow> Interpreter::Exec(const Set& node, TracedText& /*out*/) {
  ROOST_ASSIGN_OR_RETURN(Value value, Evaluate(*node.value));
  ROOST_RETURN_IF_ERROR(Assign(node.target, std::move(value)));
  return Flow::kOn;
}

Result<Value> Interpreter::Capture(const Body& body, const ExpressionPtr& filters) {
  TracedText text;
  {
    const ScopeGuard scope(*this, scope_);
    ROOST_ASSIGN_OR_RETURN(const Flow flow, Run(body, text));
    if (flow != Flow::kOn) return InvalidArgument("", "break and continue can not leave a captured block");
  }
  ROOST_ASSIGN_OR_RETURN(Value captured, runtime_.NewString(std::move(text)));
  if (filters == nullptr) return captured;
  captured_ = std::move(captured);
  return Evaluate(*filters);
}

Result<Interpreter::Flow> Interpreter::Exec(const SetBlock& node, TracedText& /*out*/) {
  ROOST_ASSIGN_OR_RETURN(Value value, Capture(node.body, node.filters));
  ROOST_RETURN_IF_ERROR(Assign(node.target, std::move(value)));
  return Flow::kOn;
}

Result<Interpreter::Flow> Interpreter::Exec(const FilterBlock& node, TracedText& out) {
  ROOST_ASSIGN_OR_RETURN(const Value value, Capture(node.body, node.filters));
  ROOST_RETURN_IF_ERROR(Append(value, out));
  return Flow::kOn;
}

Result<Interpreter::Flow> Interpreter::Exec(const DefineMacro& node, TracedText& /*out*/) {
  ROOST_ASSIGN_OR_RETURN(Value macro, MakeMacro(node.macro));
  scope_->Set(node.macro->symbol, std::move(macro));
  return Flow::kOn;
}

Result<Interpreter::Flow> Interpreter::Exec(const CallBlock& node, TracedText& out) {
  ROOST_ASSIGN_OR_RETURN(Value caller, MakeMacro(node.caller));
  const Call& call = std::get<Call>(node.call->node);
  ROOST_ASSIGN_OR_RETURN(Arguments arguments, EvaluateArguments(call.arguments));
  arguments.named.emplace_back("caller", std::move(caller));
  ROOST_ASSIGN_OR_RETURN(const Value value, CallWith(call, arguments));
  ROOST_RETURN_IF_ERROR(Append(value, out));
  return Flow::kOn;
}

Result<Interpreter::Flow> Interpreter::Exec(const With& node, TracedText& out) {
  // All values are computed in the outer scope, before the first name is bound.
  std::vector<Value> values;
  for (const auto& assignment : node.assignments) {
    ROOST_ASSIGN_OR_RETURN(Value value, Evaluate(*assignment.second));
    values.push_back(std::move(value));
  }
  const ScopeGuard scope(*this, scope_);
  for (std::size_t i = 0; i < values.size(); ++i) {
    ROOST_RETURN_IF_ERROR(Assign(node.assignments[i].first, std::move(values[i])));
  }
  return Run(node.body, out);
}

Result<Interpreter::Flow> Interpreter::Exec(const Break& /*node*/, TracedText& /*out*/) { return Flow::kBreak; }
Result<Interpreter::Flow> Interpreter::Exec(const Continue& /*node*/, TracedText& /*out*/) { return Flow::kContinue; }

Result<void> Interpreter::Assign(const Target& target, Value value) {
  switch (target.form) {
    case Target::Form::kName: scope_->Set(target.symbol, std::move(value)); return {};
    case Target::Form::kAttribute: return AssignAttribute(target, std::move(value));
    case Target::Form::kTuple: return AssignTuple(target, value);
  }
  return {};
}

Result<void> Interpreter::AssignAttribute(const Target& target, Value value) {
  const Value object = Lookup(target.symbol);
  if (!object.is(Kind::kObject) || object.AsObject().object_kind() != ObjectKind::kNamespace) {
    return InvalidArgument("", "cannot assign attribute on non-namespace object '{}'", tree_.names[target.symbol]);
  }
  ROOST_RETURN_IF_ERROR(runtime_.SpendBytes(sizeof(Dict::Entry)));
  static_cast<Namespace&>(object.AsObject()).attributes.Set(target.attribute, std::move(value));
  return {};
}

Result<void> Interpreter::AssignTuple(const Target& target, const Value& value) {
  if (value.is(Kind::kUndefined)) return UndefinedError(value);
  ROOST_ASSIGN_OR_RETURN(std::vector<Value> items, Items(value, runtime_));
  if (items.size() != target.parts.size()) {
    return InvalidArgument("", "{} values to unpack (expected {}, got {})",
                           items.size() < target.parts.size() ? "not enough" : "too many", target.parts.size(),
                           items.size());
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    ROOST_RETURN_IF_ERROR(Assign(target.parts[i], std::move(items[i])));
  }
  return {};
}

}  // namespace roost::jinja
