// Runs a syntax tree against a context. One Interpreter is one render, on one thread.
//
// Names are looked up in the scopes from the inside out, then in the context, then among the global functions. As in
// Jinja2, `if` opens no scope, but the bodies of for, macro, call, filter, with and block set do. So a `set` in a loop
// ends with the iteration, while an attribute of a namespace stays.
//
//   scope of a macro call ──► scope where the macro was defined ──► … ──► scope of the template ──► context ──► globals
//   scope of an iteration ──► scope of the loop's surroundings ──► …
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/text/jinja/arguments.h"
#include "common/text/jinja/ast.h"
#include "common/text/jinja/runtime.h"
#include "common/text/jinja/value.h"

namespace roost::jinja {

struct Scope {
  Scope* parent = nullptr;
  std::vector<std::pair<Symbol, Value>> variables;
  bool is_captured = false;  // a macro was defined in or below it, so it lives until the render ends

  [[nodiscard]] const Value* Find(Symbol symbol) const;
  void Set(Symbol symbol, Value value);
};

class Loop;
class Macro;

class Interpreter {
 public:
  // `context` is a dict, or undefined for none. All arguments outlive the interpreter.
  Interpreter(const TemplateTree& tree, const Value& context, Runtime& runtime);

  Result<TracedText> Render();
  // The current line, or the line of the error.
  [[nodiscard]] int line() const { return line_; }

 private:
  friend class ScopeGuard;

  enum class Flow { kOn, kBreak, kContinue };

  // ---- statements: interpreter.cc ----
  Result<Flow> Run(const Body& body, TracedText& out);
  Result<Flow> Run(const Statement& statement, TracedText& out);
  Result<Flow> Exec(const TextOutput& node, TracedText& out);
  Result<Flow> Exec(const Print& node, TracedText& out);
  Result<Flow> Exec(const If& node, TracedText& out);
  Result<Flow> Exec(const For& node, TracedText& out);
  Result<Flow> Exec(const Set& node, TracedText& out);
  Result<Flow> Exec(const SetBlock& node, TracedText& out);
  Result<Flow> Exec(const DefineMacro& node, TracedText& out);
  Result<Flow> Exec(const CallBlock& node, TracedText& out);
  Result<Flow> Exec(const FilterBlock& node, TracedText& out);
  Result<Flow> Exec(const With& node, TracedText& out);
  Result<Flow> Exec(const Break& node, TracedText& out);
  Result<Flow> Exec(const Continue& node, TracedText& out);
  Result<void> Append(const Value& value, TracedText& out);
  Result<void> Assign(const Target& target, Value value);
  Result<void> AssignAttribute(const Target& target, Value value);
  Result<void> AssignTuple(const Target& target, const Value& value);
  // Renders the body in a new scope, and passes the output through `filters` (null for none).
  Result<Value> Capture(const Body& body, const ExpressionPtr& filters);

  // ---- expressions: interpreter_expressions.cc ----
  Result<Value> Evaluate(const Expression& expression);
  Result<Value> EvaluateOr(const ExpressionPtr& expression, Value fallback);
  Result<std::vector<Value>> EvaluateAll(const std::vector<ExpressionPtr>& expressions);
  Result<Value> Eval(const Literal& node);
  Result<Value> Eval(const Name& node);
  Result<Value> Eval(const ListLiteral& node);
  Result<Value> Eval(const TupleLiteral& node);
  Result<Value> Eval(const DictLiteral& node);
  Result<Value> Eval(const Unary& node);
  Result<Value> Eval(const Binary& node);
  Result<Value> Eval(const Not& node);
  Result<Value> Eval(const Logical& node);
  Result<Value> Eval(const Concatenation& node);
  Result<Value> Eval(const Comparison& node);
  Result<Value> Eval(const Conditional& node);
  Result<Value> Eval(const Attribute& node);
  Result<Value> Eval(const Subscript& node);
  Result<Value> Eval(const Slice& node);
  Result<Value> Eval(const Call& node);
  Result<Value> Eval(const FilterCall& node);
  Result<Value> Eval(const TestCall& node);
  Value Lookup(Symbol symbol);
  Result<Value> AttributeOf(const Value& object, const Attribute& node);
  Result<Arguments> EvaluateArguments(const CallArguments& arguments);

  // ---- calls and loops: interpreter_calls.cc ----
  Result<Value> CallWith(const Call& node, const Arguments& arguments);
  // Returns `made`, the result of a filter or method; marked as written if `input` and all `arguments` are.
  static Value Traced(Value made, const Value& input, const Arguments& arguments);
  Result<Value> CallValue(const Value& callee, const Arguments& arguments);
  Result<Value> CallMacro(const Macro& macro, const Arguments& arguments);
  Result<void> BindParameters(const MacroDefinition& macro, const Arguments& arguments);
  Result<void> BindRest(const MacroDefinition& macro, const Arguments& arguments, const std::vector<bool>& is_used);
  Result<Value> MakeMacro(std::shared_ptr<const MacroDefinition> definition);
  // A method or attribute of a loop, cycler or macro; undefined when it has none of that name.
  Result<Value> CallObjectMethod(const Value& object, const std::string& name, const Arguments& arguments);
  Result<Value> ObjectAttribute(const Value& object, const std::string& name);

  struct LoopPlace {
    Scope* outer;  // the scope around the loop
    int depth;     // number of recursive loops that enclose it
  };
  Result<Flow> RunLoop(const For& node, const Value& iterable, LoopPlace place, TracedText& out);
  // As in Jinja2, `else` runs unless an iteration ran to its end, without break or continue.
  enum class LoopEnd { kNoneCompleted, kSomeCompleted };
  Result<LoopEnd> RunIterations(Loop& loop, const Value& loop_value, TracedText& out);
  // The next item that passes the loop's filter; nothing at the end.
  Result<std::optional<Value>> Advance(Loop& loop);
  Result<bool> PassesFilter(const Loop& loop, const Value& item);
  // Looks one item ahead.
  Result<const Value*> PeekNext(Loop& loop);
  Result<std::int64_t> LoopLength(Loop& loop);
  Result<Value> LoopAttribute(Loop& loop, const std::string& name);

  Scope* PushScope(Scope* parent);
  void PopScope(Scope* previous);

  const TemplateTree& tree_;
  const Value& context_;
  Runtime& runtime_;
  std::deque<Scope> scopes_;                       // all scopes made so far
  std::vector<Scope*> free_scopes_;                // those that may be used again
  Scope* scope_ = nullptr;                         // the innermost
  std::vector<std::optional<Value>> outer_names_;  // by symbol: the value from the context or globals
  std::optional<Symbol> loop_symbol_;              // of the name "loop", if the template uses it
  Value captured_;                                 // the input of a filter block's first filter
  int depth_ = 0;
  int line_ = 1;
};

// Opens a scope, and closes it when destroyed.
class ScopeGuard {
 public:
  ScopeGuard(Interpreter& interpreter, Scope* parent)
      : interpreter_(interpreter), previous_(interpreter.PushScope(parent)) {}
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;
  ~ScopeGuard() { interpreter_.PopScope(previous_); }

 private:
  Interpreter& interpreter_;
  Scope* previous_;
};

// The value of a macro's name, or of `caller`.
class Macro final : public Object {
 public:
  Macro(std::shared_ptr<const MacroDefinition> macro_definition, Scope* defining_scope)
      : Object(ObjectKind::kMacro), definition(std::move(macro_definition)), scope(defining_scope) {}

  std::shared_ptr<const MacroDefinition> definition;
  Scope* scope;  // where it was defined
};

// The value of `loop` in a loop's body.
//
//   items of source:  [0, position) were read; `next` is the one read ahead; the others were not read yet
class Loop final : public Object {
 public:
  Loop(const For& for_node, std::shared_ptr<Sequence> iterable, Scope* outer_scope, int loop_depth)
      : Object(ObjectKind::kLoop), node(for_node), source(std::move(iterable)), outer(outer_scope), depth(loop_depth) {}

  void Release() override {
    source.reset();
    next.reset();
    previous = current = last_changed = Value();
  }

  const For& node;
  std::shared_ptr<Sequence> source;
  Scope* outer;
  int depth;
  bool is_filtered = false;  // has the filter been applied to the rest of the source already?
  std::size_t position = 0;
  std::int64_t index0 = -1;
  std::optional<Value> next;
  Value previous = Value::Undefined("there is no previous item");
  Value current;
  Value last_changed;  // the arguments of the last changed(), as a tuple
};

}  // namespace roost::jinja
