#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "common/text/jinja/operators.h"
#include "common/text/jinja/python_strings.h"

namespace roost::jinja {
namespace {

// Limits the comparison of containers that contain themselves, which would not end; see kMaxWriteDepth in text.cc.
constexpr int kMaxCompareDepth = 2 * kMaxNesting;

// In Python, keys and items views are sets and compare by content. Here they compare as sequences, in order.
bool AreSameKind(const Sequence& a, const Sequence& b) {
  return a.kind == b.kind && a.kind != SequenceKind::kGenerator && a.kind != SequenceKind::kValues;
}

class Comparer {
 public:
  explicit Comparer(Runtime& runtime) : runtime_(runtime) {}

  Result<bool> Equal(const Value& a, const Value& b) {
    ROOST_RETURN_IF_ERROR(runtime_.Spend(1));
    if (a.is_number() && b.is_number()) return EqualNumbers(a, b);
    if (a.kind() != b.kind()) return false;
    if (a.is(Kind::kString)) {
      if (a.AsString().size() == b.AsString().size()) ROOST_RETURN_IF_ERROR(runtime_.SpendOn(a));
      return a.AsString() == b.AsString();
    }
    if (a.IsSameAs(b)) return true;
    if (!a.is(Kind::kSequence) && !a.is(Kind::kDict)) return false;
    if (depth_ >= kMaxCompareDepth) return InvalidArgument("", "containers that hold themselves can not be compared");
    ++depth_;
    Result<bool> result =
        a.is(Kind::kDict) ? EqualDicts(a.AsDict(), b.AsDict()) : EqualSequences(a.AsSequence(), b.AsSequence());
    --depth_;
    return result;
  }

  Result<bool> Less(const Value& a, const Value& b) {
    ROOST_RETURN_IF_ERROR(runtime_.Spend(1));
    if (a.is_number() && b.is_number()) return LessNumbers(a, b);
    if (a.is(Kind::kString) && b.is(Kind::kString)) {
      ROOST_RETURN_IF_ERROR(runtime_.SpendOn(a));
      return a.AsString() < b.AsString();
    }
    if (a.is(Kind::kSequence) && b.is(Kind::kSequence) && AreSameKind(a.AsSequence(), b.AsSequence()) &&
        (a.AsSequence().kind == SequenceKind::kList || a.AsSequence().kind == SequenceKind::kTuple)) {
      return LessSequences(a.AsSequence().items, b.AsSequence().items);
    }
    return NotOrdered(a, b);
  }

 private:
  static Error NotOrdered(const Value& a, const Value& b) {
    if (a.is(Kind::kUndefined)) return UndefinedError(a);
    if (b.is(Kind::kUndefined)) return UndefinedError(b);
    return InvalidArgument("", "'{}' and '{}' have no order", a.TypeName(), b.TypeName());
  }

  static bool EqualNumbers(const Value& a, const Value& b) {
    if (a.is(Kind::kFloat) || b.is(Kind::kFloat)) return *a.ToDouble() == *b.ToDouble();
    return *a.ToInteger() == *b.ToInteger();
  }

  static bool LessNumbers(const Value& a, const Value& b) {
    if (a.is(Kind::kFloat) || b.is(Kind::kFloat)) return *a.ToDouble() < *b.ToDouble();
    return *a.ToInteger() < *b.ToInteger();
  }

  Result<bool> EqualSequences(const Sequence& a, const Sequence& b) {
    if (!AreSameKind(a, b) || a.items.size() != b.items.size()) return false;
    for (std::size_t i = 0; i < a.items.size(); ++i) {
      ROOST_ASSIGN_OR_RETURN(const bool is_equal, Equal(a.items[i], b.items[i]));
      if (!is_equal) return false;
    }
    return true;
  }

  Result<bool> EqualDicts(const Dict& a, const Dict& b) {
    if (a.entries().size() != b.entries().size()) return false;
    for (const Dict::Entry& entry : a.entries()) {
      const Value* other = b.Find(entry.key);
      if (other == nullptr) return false;
      ROOST_ASSIGN_OR_RETURN(const bool is_equal, Equal(entry.value, *other));
      if (!is_equal) return false;
    }
    return true;
  }

  // Decided by the first pair that differs, else by length.
  Result<bool> LessSequences(const std::vector<Value>& a, const std::vector<Value>& b) {
    if (depth_ >= kMaxCompareDepth) return InvalidArgument("", "containers that hold themselves can not be compared");
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      ROOST_ASSIGN_OR_RETURN(const bool is_equal, Equal(a[i], b[i]));
      if (is_equal) continue;
      ++depth_;
      Result<bool> result = Less(a[i], b[i]);
      --depth_;
      return result;
    }
    return a.size() < b.size();
  }

  Runtime& runtime_;
  int depth_ = 0;
};

Result<bool> ContainsItem(const Sequence& sequence, const Value& wanted, Runtime& runtime) {
  for (const Value& item : sequence.items) {
    ROOST_ASSIGN_OR_RETURN(const bool is_equal, Equals(item, wanted, runtime));
    if (is_equal) return true;
  }
  return false;
}

Error NoContainer(const Value& container) {
  return InvalidArgument("", "argument of type '{}' is not iterable", container.TypeName());
}

Result<bool> Contains(const Value& container, const Value& wanted, Runtime& runtime) {
  if (container.is(Kind::kDict)) {
    ROOST_RETURN_IF_ERROR(runtime.SpendOn(wanted));
    if (Dict::IsKey(wanted)) return container.AsDict().Find(wanted) != nullptr;
    if (wanted.is(Kind::kDict) || (wanted.is(Kind::kSequence) && wanted.AsSequence().kind == SequenceKind::kList)) {
      return InvalidArgument("", "unhashable type: '{}'", wanted.TypeName());
    }
    return false;
  }
  if (container.is(Kind::kString)) {
    if (!wanted.is(Kind::kString)) {
      return InvalidArgument("", "'in <string>' requires string as left operand, not {}", wanted.TypeName());
    }
    ROOST_RETURN_IF_ERROR(runtime.SpendOn(container));
    return FindText(container.AsString(), wanted.AsString(), 0) != std::string_view::npos;
  }
  if (container.is(Kind::kSequence)) return ContainsItem(container.AsSequence(), wanted, runtime);
  if (container.is(Kind::kUndefined)) return false;
  return NoContainer(container);
}

// Merges the sorted halves [begin, middle) and [middle, end); stable. The sorts of std can not stop at an error.
Result<void> Merge(std::vector<Sortable>& items, std::size_t begin, std::size_t middle, std::size_t end,
                   SortOrder order, Runtime& runtime) {
  std::vector<Sortable> merged;
  merged.reserve(end - begin);
  std::size_t left = begin;
  std::size_t right = middle;
  while (left < middle && right < end) {
    const bool is_ascending = order == SortOrder::kAscending;
    Result<bool> takes_right = is_ascending ? IsLess(items[right].key, items[left].key, runtime)
                                            : IsLess(items[left].key, items[right].key, runtime);
    if (!takes_right.ok()) return std::move(takes_right).error();
    merged.push_back(std::move(items[*takes_right ? right++ : left++]));
  }
  while (left < middle) merged.push_back(std::move(items[left++]));
  while (right < end) merged.push_back(std::move(items[right++]));
  std::move(merged.begin(), merged.end(), items.begin() + static_cast<std::ptrdiff_t>(begin));
  return {};
}

}  // namespace

Result<bool> Equals(const Value& left, const Value& right, Runtime& runtime) {
  return Comparer(runtime).Equal(left, right);
}

Result<bool> IsLess(const Value& left, const Value& right, Runtime& runtime) {
  return Comparer(runtime).Less(left, right);
}

Result<bool> Compare(CompareOperator op, const Value& left, const Value& right, Runtime& runtime) {
  switch (op) {
    case CompareOperator::kEqual: return Equals(left, right, runtime);
    case CompareOperator::kLess: return IsLess(left, right, runtime);
    case CompareOperator::kGreater: return IsLess(right, left, runtime);
    case CompareOperator::kIn: return Contains(right, left, runtime);
    case CompareOperator::kNotEqual: {
      ROOST_ASSIGN_OR_RETURN(const bool is_equal, Equals(left, right, runtime));
      return !is_equal;
    }
    case CompareOperator::kNotIn: {
      ROOST_ASSIGN_OR_RETURN(const bool is_in, Contains(right, left, runtime));
      return !is_in;
    }
    case CompareOperator::kLessEqual:
    case CompareOperator::kGreaterEqual: break;
  }
  // a <= b is "a < b or a == b", which also holds for NaN.
  const bool is_less_equal = op == CompareOperator::kLessEqual;
  ROOST_ASSIGN_OR_RETURN(const bool is_less,
                         is_less_equal ? IsLess(left, right, runtime) : IsLess(right, left, runtime));
  if (is_less) return true;
  return Equals(left, right, runtime);
}

Result<void> Sort(std::vector<Sortable>& items, SortOrder order, Runtime& runtime) {
  ROOST_RETURN_IF_ERROR(runtime.SpendBytes(items.size() * sizeof(Sortable)));
  for (std::size_t width = 1; width < items.size(); width *= 2) {
    for (std::size_t begin = 0; begin + width < items.size(); begin += 2 * width) {
      const std::size_t end = std::min(begin + 2 * width, items.size());
      ROOST_RETURN_IF_ERROR(Merge(items, begin, begin + width, end, order, runtime));
    }
  }
  return {};
}

}  // namespace roost::jinja
