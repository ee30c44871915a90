// Objects that built-in functions create or use.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/text/jinja/arguments.h"
#include "common/text/jinja/runtime.h"
#include "common/text/jinja/value.h"

namespace roost::jinja {

using FilterFunction = Result<Value> (*)(Runtime& runtime, const Value& input, const Arguments& arguments);
using TestFunction = Result<bool> (*)(Runtime& runtime, const Value& input, const Arguments& arguments);
using MethodFunction = Result<Value> (*)(Runtime& runtime, const Value& self, const Arguments& arguments);
using GlobalFunction = Result<Value> (*)(Runtime& runtime, const Arguments& arguments);

// namespace(...): the only object whose attributes a template can assign.
class Namespace final : public Object {
 public:
  Namespace() : Object(ObjectKind::kNamespace) {}
  void Release() override { attributes.Clear(); }

  Dict attributes;
};

class Function final : public Object {
 public:
  Function(std::string_view function_name, GlobalFunction function)
      : Object(ObjectKind::kFunction), name(function_name), call(function) {}

  std::string_view name;
  GlobalFunction call;
};

// value.method without the call.
class BoundMethod final : public Object {
 public:
  BoundMethod(Value value, MethodFunction function)
      : Object(ObjectKind::kBoundMethod), self(std::move(value)), call(function) {}

  void Release() override { self = Value(); }

  Value self;
  MethodFunction call;
};

// cycler(a, b, …): next() returns them in turn.
class Cycler final : public Object {
 public:
  explicit Cycler(std::vector<Value> values) : Object(ObjectKind::kCycler), items(std::move(values)) {}

  void Release() override { items.clear(); }

  std::vector<Value> items;
  std::size_t next = 0;
};

// joiner(separator): returns nothing at the first call, then the separator.
class Joiner final : public Object {
 public:
  explicit Joiner(Value text) : Object(ObjectKind::kJoiner), separator(std::move(text)) {}

  void Release() override { separator = Value(); }

  Value separator;
  bool was_called = false;
};

}  // namespace roost::jinja
