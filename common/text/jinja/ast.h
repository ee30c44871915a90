// The syntax tree of a template. Immutable after parsing, so many renders may walk it at once. The parser limits its
// depth (kMaxTreeDepth), so walking and destroying it may recurse.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/text/jinja/methods.h"
#include "common/text/jinja/objects.h"
#include "common/text/jinja/operators.h"
#include "common/text/jinja/value.h"

namespace roost::jinja {

// A name of the template, numbered from 0 in order of first use.
using Symbol = std::uint32_t;

struct Expression;
struct Statement;
using ExpressionPtr = std::unique_ptr<const Expression>;
using Body = std::vector<Statement>;

// ---- expressions ----

struct Literal {
  Value value;
};
struct Name {
  Symbol symbol;
};
struct ListLiteral {
  std::vector<ExpressionPtr> items;
};
struct TupleLiteral {
  std::vector<ExpressionPtr> items;
};
struct DictLiteral {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
};
struct Unary {
  UnaryOperator op;
  ExpressionPtr operand;
};
struct Binary {
  BinaryOperator op;
  ExpressionPtr left;
  ExpressionPtr right;
};
struct Not {
  ExpressionPtr operand;
};
enum class LogicalOperator { kAnd, kOr };
struct Logical {
  LogicalOperator op;
  ExpressionPtr left;
  ExpressionPtr right;
};
// a ~ b ~ c
struct Concatenation {
  std::vector<ExpressionPtr> parts;
};
// a < b <= c: every neighbouring pair holds
struct Comparison {
  ExpressionPtr first;
  std::vector<std::pair<CompareOperator, ExpressionPtr>> rest;
};
// a if condition else b; undefined when there is no else and the condition is false
struct Conditional {
  ExpressionPtr condition;
  ExpressionPtr chosen;
  ExpressionPtr otherwise;  // may be null
};
struct Attribute {
  ExpressionPtr object;
  Value name;
  MethodSet methods;  // the methods with this name, by type of object
};
struct Subscript {
  ExpressionPtr object;
  ExpressionPtr index;
};
// null bounds are absent
struct Slice {
  ExpressionPtr object;
  ExpressionPtr start;
  ExpressionPtr stop;
  ExpressionPtr step;
};
struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr more_positional;  // *args; may be null
  ExpressionPtr more_named;       // **kwargs; may be null
};
struct Call {
  ExpressionPtr callee;
  CallArguments arguments;
};
// An unknown filter or test is an error only when it is reached, because a template may guard it.
struct FilterCall {
  ExpressionPtr input;  // null: the output of the filter block or block set
  std::string name;
  FilterFunction function;  // null when unknown
  CallArguments arguments;
};
struct TestCall {
  ExpressionPtr input;
  std::string name;
  TestFunction function;  // null when unknown
  CallArguments arguments;
};

struct Expression {
  using Node =
      std::variant<Literal, Name, ListLiteral, TupleLiteral, DictLiteral, Unary, Binary, Not, Logical, Concatenation,
                   Comparison, Conditional, Attribute, Subscript, Slice, Call, FilterCall, TestCall>;
  int line;
  int depth;  // of the tree below, including this node
  Node node;
};

// ---- statements ----

// The target of an assignment by set, for or with.
struct Target {
  enum class Form { kName, kAttribute, kTuple };
  Form form;
  Symbol symbol = 0;          // the name, or the namespace that has the attribute
  std::string attribute;      // for kAttribute
  std::vector<Target> parts;  // for kTuple
};

struct TextOutput {
  std::string text;
};
struct Print {
  ExpressionPtr value;
};
struct If {
  struct Branch {
    ExpressionPtr condition;
    Body body;
  };
  std::vector<Branch> branches;
  Body otherwise;
};
struct For {
  Target target;
  ExpressionPtr iterable;
  ExpressionPtr filter;  // may be null
  Body body;
  Body otherwise;
  enum class Form { kPlain, kRecursive } form;
};
struct Set {
  Target target;
  ExpressionPtr value;
};
// {% set x %}…{% endset %}
struct SetBlock {
  Target target;
  ExpressionPtr filters;  // FilterCalls down to one whose input is null; or null
  Body body;
};
struct MacroDefinition {
  struct Parameter {
    Symbol symbol;
    std::string name;
    ExpressionPtr fallback;  // may be null
  };
  std::string name;  // "caller" for the body of a call block
  Symbol symbol = 0;
  std::vector<Parameter> parameters;
  Body body;
  // Symbols of the special names that the body uses.
  std::optional<Symbol> caller;
  std::optional<Symbol> more_positional;  // varargs
  std::optional<Symbol> more_named;       // kwargs
};
struct DefineMacro {
  std::shared_ptr<const MacroDefinition> macro;
};
// {% call(args) callee(…) %}body{% endcall %}
struct CallBlock {
  std::shared_ptr<const MacroDefinition> caller;
  ExpressionPtr call;
};
struct FilterBlock {
  ExpressionPtr filters;
  Body body;
};
// {% with a = 1 %}; also used for {% generation %}, which assigns nothing
struct With {
  std::vector<std::pair<Target, ExpressionPtr>> assignments;
  Body body;
};
struct Break {};
struct Continue {};

struct Statement {
  using Node = std::variant<TextOutput, Print, If, For, Set, SetBlock, DefineMacro, CallBlock, FilterBlock, With, Break,
                            Continue>;
  int line;
  Node node;
};

struct TemplateTree {
  Body body;
  std::vector<std::string> names;  // by Symbol
};

}  // namespace roost::jinja
