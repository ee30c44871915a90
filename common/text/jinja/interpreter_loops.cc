#include <cstdint>

#include "common/text/jinja/interpreter.h"
#include "common/text/jinja/objects.h"
#include "common/text/jinja/operators.h"

namespace roost::jinja {

Result<Interpreter::Flow> Interpreter::RunLoop(const For& node, const Value& iterable, LoopPlace place,
                                               TracedText& out) {
  ROOST_ASSIGN_OR_RETURN(std::shared_ptr<Sequence> source, AsIterable(iterable, runtime_));
  auto loop = std::make_shared<Loop>(node, std::move(source), place.outer, place.depth);
  ROOST_ASSIGN_OR_RETURN(const Value loop_value, runtime_.NewObject(loop));
  const ScopeGuard scope(*this, place.outer);
  ROOST_ASSIGN_OR_RETURN(const LoopEnd end, RunIterations(*loop, loop_value, out));
  if (end == LoopEnd::kSomeCompleted) return Flow::kOn;
  scope_->variables.clear();
  return Run(node.otherwise, out);
}

Result<Interpreter::LoopEnd> Interpreter::RunIterations(Loop& loop, const Value& loop_value, TracedText& out) {
  LoopEnd end = LoopEnd::kNoneCompleted;
  while (true) {
    ROOST_ASSIGN_OR_RETURN(std::optional<Value> item, Advance(loop));
    if (!item) return end;
    if (loop.index0 >= 0) loop.previous = std::move(loop.current);
    loop.current = *item;
    ++loop.index0;
    scope_->variables.clear();
    if (loop_symbol_) scope_->Set(*loop_symbol_, loop_value);
    ROOST_RETURN_IF_ERROR(Assign(loop.node.target, *std::move(item)));
    ROOST_ASSIGN_OR_RETURN(const Flow flow, Run(loop.node.body, out));
    if (flow == Flow::kBreak) return end;
    if (flow == Flow::kOn) end = LoopEnd::kSomeCompleted;
  }
}

Result<std::optional<Value>> Interpreter::Advance(Loop& loop) {
  if (loop.next) {
    std::optional<Value> item = std::move(loop.next);
    loop.next.reset();
    return item;
  }
  while (loop.position < loop.source->items.size()) {
    if (!runtime_.TrySpend(1)) return runtime_.SpentSteps();
    Value item = loop.source->items[loop.position++];
    ROOST_ASSIGN_OR_RETURN(const bool passes, PassesFilter(loop, item));
    if (passes) return std::optional(std::move(item));
  }
  return std::optional<Value>();
}

Result<bool> Interpreter::PassesFilter(const Loop& loop, const Value& item) {
  if (loop.node.filter == nullptr || loop.is_filtered) return true;
  const ScopeGuard scope(*this, loop.outer);
  ROOST_RETURN_IF_ERROR(Assign(loop.node.target, item));
  ROOST_ASSIGN_OR_RETURN(const Value value, Evaluate(*loop.node.filter));
  return value.IsTrue();
}

Result<const Value*> Interpreter::PeekNext(Loop& loop) {
  if (!loop.next) {
    ROOST_ASSIGN_OR_RETURN(loop.next, Advance(loop));
  }
  return loop.next ? &*loop.next : nullptr;
}

Result<std::int64_t> Interpreter::LoopLength(Loop& loop) {
  if (loop.node.filter == nullptr) return static_cast<std::int64_t>(loop.source->items.size());
  if (!loop.is_filtered) {
    // Items that were seen already count, but are not kept: undefined values fill their places.
    std::vector<Value> items(static_cast<std::size_t>(loop.index0 + 1));
    const std::size_t seen = items.size();
    while (true) {
      ROOST_ASSIGN_OR_RETURN(std::optional<Value> item, Advance(loop));
      if (!item) break;
      items.push_back(*std::move(item));
    }
    ROOST_RETURN_IF_ERROR(runtime_.SpendBytes(items.size() * sizeof(Value)));
    loop.source = std::make_shared<Sequence>(SequenceKind::kList, std::move(items));
    loop.position = seen;
    loop.is_filtered = true;
  }
  return static_cast<std::int64_t>(loop.source->items.size());
}

Result<Value> Interpreter::LoopAttribute(Loop& loop, const std::string& name) {
  if (name == "index") return Value::Int(loop.index0 + 1);
  if (name == "index0") return Value::Int(loop.index0);
  if (name == "first") return Value::Bool(loop.index0 == 0);
  if (name == "depth") return Value::Int(loop.depth + 1);
  if (name == "depth0") return Value::Int(loop.depth);
  if (name == "previtem") return loop.previous;
  if (name == "last" || name == "nextitem") {
    ROOST_ASSIGN_OR_RETURN(const Value* next, PeekNext(loop));
    if (name == "last") return Value::Bool(next == nullptr);
    return next == nullptr ? Value::Undefined("there is no next item") : *next;
  }
  if (name == "length" || name == "revindex" || name == "revindex0") {
    ROOST_ASSIGN_OR_RETURN(const std::int64_t length, LoopLength(loop));
    if (name == "length") return Value::Int(length);
    return Value::Int(length - loop.index0 - (name == "revindex0" ? 1 : 0));
  }
  return Value::Undefined(fmt::format("'LoopContext object' has no attribute '{}'", name));
}

}  // namespace roost::jinja
