// Python's operators over values, and Jinja's two ways to look something up in a value. Errors say what Python's would.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/text/jinja/arguments.h"
#include "common/text/jinja/runtime.h"
#include "common/text/jinja/value.h"

namespace roost::jinja {

enum class BinaryOperator { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };
enum class UnaryOperator { kMinus, kPlus };
enum class CompareOperator { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kIn, kNotIn };

Result<Value> Apply(BinaryOperator op, const Value& left, const Value& right, Runtime& runtime);
Result<Value> Apply(UnaryOperator op, const Value& operand);
Result<bool> Compare(CompareOperator op, const Value& left, const Value& right, Runtime& runtime);

Result<bool> Equals(const Value& left, const Value& right, Runtime& runtime);
// left < right
Result<bool> IsLess(const Value& left, const Value& right, Runtime& runtime);

// Stable. An error of the comparison ends the sort.
enum class SortOrder { kAscending, kDescending };
struct Sortable {
  Value key;
  Value value;
};
Result<void> Sort(std::vector<Sortable>& items, SortOrder order, Runtime& runtime);

// For one use of the arguments of a call: what copying those that are strings takes.
Result<void> SpendOnCopies(const Arguments& arguments, Runtime& runtime);

// What `for` walks over: the items of a sequence, the keys of a dict, the code points of a string, nothing of an
// undefined value. A list is shared, not copied; a generator is emptied.
Result<std::shared_ptr<Sequence>> AsIterable(const Value& value, Runtime& runtime);
Result<std::vector<Value>> Items(const Value& value, Runtime& runtime);
// Python's len().
Result<std::int64_t> Length(const Value& value);

// The error for asking an undefined value for more.
[[nodiscard]] Error UndefinedError(const Value& value);

// object.name apart from methods: an entry of a dict, an attribute of a namespace, else undefined.
// object[index]: that, or an item by number, or a method. Neither knows the interpreter's other objects.
Result<Value> GetAttribute(const Value& object, const Value& name);
Result<Value> GetItem(const Value& object, const Value& index, Runtime& runtime);

// object[start:stop:step]; None means absent.
struct SliceBounds {
  Value start;
  Value stop;
  Value step;
};
Result<Value> GetSlice(const Value& object, const SliceBounds& bounds, Runtime& runtime);

// The undefined value of a failed lookup.
[[nodiscard]] Value MissingAttribute(const Value& object, std::string_view name);

// Escapes & < > ' " as Jinja does for HTML; markup stays as it is.
Result<Value> EscapeMarkup(const Value& value, Runtime& runtime);

}  // namespace roost::jinja
