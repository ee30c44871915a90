// Python's operators on values, and Jinja's two kinds of lookup in a value. Errors have Python's messages.
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

// Stable. An error in a comparison ends the sort.
enum class SortOrder { kAscending, kDescending };
struct Sortable {
  Value key;
  Value value;
};
Result<void> Sort(std::vector<Sortable>& items, SortOrder order, Runtime& runtime);

// Charges the steps for copying the arguments of a call that are strings.
Result<void> SpendOnCopies(const Arguments& arguments, Runtime& runtime);

// The iterable of a `for`: the items of a sequence, the keys of a dict, the code points of a string, nothing for an
// undefined value. A list is shared, not copied; a generator is emptied.
Result<std::shared_ptr<Sequence>> AsIterable(const Value& value, Runtime& runtime);
Result<std::vector<Value>> Items(const Value& value, Runtime& runtime);
// Python's len().
Result<std::int64_t> Length(const Value& value);

// The error when a template uses an undefined value.
[[nodiscard]] Error UndefinedError(const Value& value);

// object.name without methods: an entry of a dict, an attribute of a namespace, else undefined. object[index]: the
// same, or an item by number, or a method. Neither handles the interpreter's other objects.
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

// Escapes & < > ' " as Jinja does for HTML; marked text stays unchanged.
Result<Value> EscapeMarkup(const Value& value, Runtime& runtime);

}  // namespace roost::jinja
