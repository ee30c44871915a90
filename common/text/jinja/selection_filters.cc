#include <array>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/text/jinja/filters.h"
#include "common/text/jinja/lookup_table.h"
#include "common/text/jinja/operators.h"
#include "common/text/jinja/python_strings.h"
#include "common/text/jinja/tests.h"

namespace roost::jinja {
namespace {

enum class Case { kFolded, kSensitive };

Case CaseOf(const BoundArguments& bound, std::size_t i) { return bound.IsTrue(i) ? Case::kSensitive : Case::kFolded; }

// "a.b.0" as the steps a, b and item 0; an integer as one step; None as no step.
std::vector<Value> PathOf(const Value& attribute) {
  std::vector<Value> path;
  if (!attribute.is(Kind::kString)) {
    if (!attribute.is(Kind::kNone)) path.push_back(attribute);
    return path;
  }
  std::string_view rest = attribute.AsString();
  while (true) {
    const std::size_t dot = rest.find('.');
    const std::string_view step = rest.substr(0, dot);
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(step.data(), step.data() + step.size(), number);
    const bool is_number = error == std::errc() && end == step.data() + step.size() && step.front() != '-';
    path.push_back(is_number ? Value::Int(number) : Value::String(std::string(step)));
    if (dot == std::string_view::npos) return path;
    rest.remove_prefix(dot + 1);
  }
}

Result<Value> Walk(Value item, const std::vector<Value>& path, Runtime& runtime) {
  for (const Value& step : path) {
    ROOST_ASSIGN_OR_RETURN(item, GetItem(item, step, runtime));
  }
  return item;
}

Result<Value> Folded(Value key, Case sensitivity, Runtime& runtime) {
  if (sensitivity == Case::kSensitive || !key.is(Kind::kString)) return key;
  ROOST_RETURN_IF_ERROR(runtime.SpendPerCharacter(key.AsString()));
  return runtime.NewString(ToLower(key.AsString()));
}

// The items of `input`, each with its key: the value at the path `attribute`.
Result<std::vector<Sortable>> Keyed(const Value& input, const Value& attribute, Case sensitivity, Runtime& runtime) {
  const std::vector<Value> path = PathOf(attribute);
  ROOST_ASSIGN_OR_RETURN(std::vector<Value> items, Items(input, runtime));
  std::vector<Sortable> keyed;
  keyed.reserve(items.size());
  for (Value& item : items) {
    ROOST_ASSIGN_OR_RETURN(Value key, Walk(item, path, runtime));
    ROOST_ASSIGN_OR_RETURN(key, Folded(std::move(key), sensitivity, runtime));
    keyed.push_back(Sortable{std::move(key), std::move(item)});
  }
  return keyed;
}

std::vector<Value> ValuesOf(std::vector<Sortable> sorted) {
  std::vector<Value> values;
  values.reserve(sorted.size());
  for (Sortable& entry : sorted) values.push_back(std::move(entry.value));
  return values;
}

SortOrder OrderOf(const BoundArguments& bound, std::size_t i) {
  return bound.IsTrue(i) ? SortOrder::kDescending : SortOrder::kAscending;
}

// "a,b.c" as the paths a and b.c.
std::vector<std::vector<Value>> PathsOf(const Value& attributes) {
  if (!attributes.is(Kind::kString)) return {PathOf(attributes)};
  std::vector<std::vector<Value>> paths;
  std::string_view rest = attributes.AsString();
  while (true) {
    const std::size_t comma = rest.find(',');
    paths.push_back(PathOf(Value::String(std::string(rest.substr(0, comma)))));
    if (comma == std::string_view::npos) return paths;
    rest.remove_prefix(comma + 1);
  }
}

// Each item's key is the list of the values at its paths. A list even for one path: then items with equal keys are not
// compared.
Result<Value> SortFilter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound,
                         arguments.Bind("sort", {"reverse", "case_sensitive", "attribute"}, 0));
  const std::vector<std::vector<Value>> paths = PathsOf(bound.Or(2, Value::None()));
  ROOST_ASSIGN_OR_RETURN(std::vector<Value> items, Items(input, runtime));
  std::vector<Sortable> keyed;
  for (Value& item : items) {
    std::vector<Value> keys;
    for (const std::vector<Value>& path : paths) {
      ROOST_ASSIGN_OR_RETURN(Value key, Walk(item, path, runtime));
      ROOST_ASSIGN_OR_RETURN(key, Folded(std::move(key), CaseOf(bound, 1), runtime));
      keys.push_back(std::move(key));
    }
    ROOST_ASSIGN_OR_RETURN(Value key, runtime.NewSequence(SequenceKind::kList, std::move(keys)));
    keyed.push_back(Sortable{std::move(key), std::move(item)});
  }
  ROOST_RETURN_IF_ERROR(Sort(keyed, OrderOf(bound, 0), runtime));
  return runtime.NewSequence(SequenceKind::kList, ValuesOf(std::move(keyed)));
}

Result<Value> DictSort(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound,
                         arguments.Bind("dictsort", {"case_sensitive", "by", "reverse"}, 0));
  ROOST_ASSIGN_OR_RETURN(const std::string by, bound.String(1, "key"));
  if (by != "key" && by != "value") return InvalidArgument("", "dictsort(): by must be key or value, not '{}'", by);
  if (input.is(Kind::kUndefined)) return UndefinedError(input);
  if (!input.is(Kind::kDict)) return InvalidArgument("", "dictsort() needs a dict, not '{}'", input.TypeName());
  std::vector<Sortable> keyed;
  for (const Dict::Entry& entry : input.AsDict().entries()) {
    ROOST_ASSIGN_OR_RETURN(Value key, Folded(by == "key" ? entry.key : entry.value, CaseOf(bound, 0), runtime));
    ROOST_ASSIGN_OR_RETURN(Value pair, runtime.NewSequence(SequenceKind::kTuple, {entry.key, entry.value}));
    keyed.push_back(Sortable{std::move(key), std::move(pair)});
  }
  ROOST_RETURN_IF_ERROR(Sort(keyed, OrderOf(bound, 2), runtime));
  return runtime.NewSequence(SequenceKind::kList, ValuesOf(std::move(keyed)));
}

bool IsHashable(const Value& value) {
  return !value.is(Kind::kDict) && !(value.is(Kind::kSequence) && value.AsSequence().kind == SequenceKind::kList);
}

Result<Value> Unique(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("unique", {"case_sensitive", "attribute"}, 0));
  ROOST_ASSIGN_OR_RETURN(const std::vector<Sortable> keyed,
                         Keyed(input, bound.Or(1, Value::None()), CaseOf(bound, 0), runtime));
  std::vector<Value> kept;
  std::vector<Value> seen;
  for (const Sortable& entry : keyed) {
    if (!IsHashable(entry.key)) return InvalidArgument("", "unhashable type: '{}'", entry.key.TypeName());
    bool is_new = true;
    for (const Value& key : seen) {
      ROOST_ASSIGN_OR_RETURN(const bool is_equal, Equals(key, entry.key, runtime));
      if (is_equal) is_new = false;
    }
    if (!is_new) continue;
    seen.push_back(entry.key);
    kept.push_back(entry.value);
  }
  return runtime.NewSequence(SequenceKind::kGenerator, std::move(kept));
}

// The first item with the least, or the greatest, key.
Result<Value> Extreme(Runtime& runtime, const Value& input, const Arguments& arguments, SortOrder order) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("min or max", {"case_sensitive", "attribute"}, 0));
  ROOST_ASSIGN_OR_RETURN(std::vector<Sortable> keyed,
                         Keyed(input, bound.Or(1, Value::None()), CaseOf(bound, 0), runtime));
  if (keyed.empty()) return Value::Undefined("No aggregated item, sequence was empty.");
  std::size_t best = 0;
  for (std::size_t i = 1; i < keyed.size(); ++i) {
    const bool is_ascending = order == SortOrder::kAscending;
    ROOST_ASSIGN_OR_RETURN(const bool is_better, is_ascending ? IsLess(keyed[i].key, keyed[best].key, runtime)
                                                              : IsLess(keyed[best].key, keyed[i].key, runtime));
    if (is_better) best = i;
  }
  return keyed[best].value;
}

Result<Value> Min(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return Extreme(runtime, input, arguments, SortOrder::kAscending);
}
Result<Value> Max(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return Extreme(runtime, input, arguments, SortOrder::kDescending);
}

Result<Value> Sum(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("sum", {"attribute", "start"}, 0));
  Value total = bound.Or(1, Value::Int(0));
  if (total.is(Kind::kString)) return InvalidArgument("", "sum() can't sum strings");
  const std::vector<Value> path = PathOf(bound.Or(0, Value::None()));
  ROOST_ASSIGN_OR_RETURN(const std::vector<Value> items, Items(input, runtime));
  for (const Value& item : items) {
    ROOST_ASSIGN_OR_RETURN(const Value term, Walk(item, path, runtime));
    ROOST_ASSIGN_OR_RETURN(total, Apply(BinaryOperator::kAdd, total, term, runtime));
  }
  return total;
}

// Pairs of a key and the list of items with that key, in order of the keys.
Result<Value> GroupBy(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound,
                         arguments.Bind("groupby", {"attribute", "default", "case_sensitive"}, 1));
  const std::vector<Value> path = PathOf(bound[0]);
  ROOST_ASSIGN_OR_RETURN(std::vector<Sortable> keyed, Keyed(input, bound[0], CaseOf(bound, 2), runtime));
  for (Sortable& entry : keyed) {
    if (entry.key.is(Kind::kUndefined) && bound.HasNotNone(1)) {
      ROOST_ASSIGN_OR_RETURN(entry.key, Folded(bound[1], CaseOf(bound, 2), runtime));
    }
  }
  ROOST_RETURN_IF_ERROR(Sort(keyed, SortOrder::kAscending, runtime));
  std::vector<Value> groups;
  for (std::size_t begin = 0; begin < keyed.size();) {
    std::vector<Value> members;
    std::size_t end = begin;
    for (; end < keyed.size(); ++end) {
      ROOST_ASSIGN_OR_RETURN(const bool is_member, Equals(keyed[begin].key, keyed[end].key, runtime));
      if (!is_member) break;
      members.push_back(keyed[end].value);
    }
    ROOST_ASSIGN_OR_RETURN(Value key, Walk(members[0], path, runtime));
    if (key.is(Kind::kUndefined) && bound.HasNotNone(1)) key = bound[1];
    ROOST_ASSIGN_OR_RETURN(Value list, runtime.NewSequence(SequenceKind::kList, std::move(members)));
    ROOST_ASSIGN_OR_RETURN(Value group, runtime.NewSequence(SequenceKind::kTuple, {std::move(key), std::move(list)}));
    groups.push_back(std::move(group));
    begin = end;
  }
  return runtime.NewSequence(SequenceKind::kList, std::move(groups));
}

Arguments WithoutFirst(const Arguments& arguments, std::size_t count) {
  Arguments rest = arguments;
  rest.positional.erase(rest.positional.begin(), rest.positional.begin() + static_cast<std::ptrdiff_t>(count));
  return rest;
}

Result<Value> MapAttribute(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("map", {"attribute", "default"}, 1));
  const std::vector<Value> path = PathOf(bound[0]);
  ROOST_ASSIGN_OR_RETURN(std::vector<Value> items, Items(input, runtime));
  for (Value& item : items) {
    for (const Value& step : path) {
      ROOST_ASSIGN_OR_RETURN(item, GetItem(item, step, runtime));
      if (item.is(Kind::kUndefined) && bound.HasNotNone(1)) item = bound[1];
    }
  }
  return runtime.NewSequence(SequenceKind::kGenerator, std::move(items));
}

Result<Value> Map(Runtime& runtime, const Value& input, const Arguments& arguments) {
  if (!input.IsTrue()) return runtime.NewSequence(SequenceKind::kGenerator, {});
  if (arguments.positional.empty() && arguments.FindNamed("attribute") != nullptr) {
    return MapAttribute(runtime, input, arguments);
  }
  if (arguments.positional.empty() || !arguments.positional[0].is(Kind::kString)) {
    return InvalidArgument("", "map requires a filter argument");
  }
  const std::string& name = arguments.positional[0].AsString();
  const FilterFunction filter = FindFilter(name);
  if (filter == nullptr) return InvalidArgument("", "No filter named '{}'.", name);
  const Arguments rest = WithoutFirst(arguments, 1);
  ROOST_ASSIGN_OR_RETURN(std::vector<Value> items, Items(input, runtime));
  for (Value& item : items) {
    ROOST_RETURN_IF_ERROR(runtime.SpendOn(item));
    ROOST_RETURN_IF_ERROR(SpendOnCopies(rest, runtime));
    ROOST_ASSIGN_OR_RETURN(item, filter(runtime, item, rest));
  }
  return runtime.NewSequence(SequenceKind::kGenerator, std::move(items));
}

enum class Keep { kIfTrue, kIfFalse };

// The common part of select, reject, selectattr and rejectattr: keeps the items for which the test (or the truth) of
// the value at `path` is as wanted. The first of `arguments` is the test's name.
Result<Value> KeepItems(Runtime& runtime, const Value& input, const std::vector<Value>& path,
                        const Arguments& arguments, Keep keep) {
  TestFunction test = nullptr;
  if (!arguments.positional.empty()) {
    const Value& name = arguments.positional[0];
    test = name.is(Kind::kString) ? FindTest(name.AsString()) : nullptr;
    if (test == nullptr) {
      return InvalidArgument("", "No test named '{}'.", name.is(Kind::kString) ? name.AsString() : "");
    }
  }
  const Arguments rest = test == nullptr ? Arguments{} : WithoutFirst(arguments, 1);
  ROOST_ASSIGN_OR_RETURN(const std::vector<Value> items, Items(input, runtime));
  std::vector<Value> kept;
  for (const Value& item : items) {
    ROOST_ASSIGN_OR_RETURN(const Value tested, Walk(item, path, runtime));
    ROOST_RETURN_IF_ERROR(runtime.SpendOn(tested));
    ROOST_RETURN_IF_ERROR(SpendOnCopies(rest, runtime));
    Result<bool> holds = test == nullptr ? Result<bool>(tested.IsTrue()) : test(runtime, tested, rest);
    if (!holds.ok()) return std::move(holds).error();
    if (*holds == (keep == Keep::kIfTrue)) kept.push_back(item);
  }
  return runtime.NewSequence(SequenceKind::kGenerator, std::move(kept));
}

Result<Value> SelectItems(Runtime& runtime, const Value& input, const Arguments& arguments, Keep keep) {
  if (!input.IsTrue()) return runtime.NewSequence(SequenceKind::kGenerator, {});
  return KeepItems(runtime, input, {}, arguments, keep);
}

Result<Value> SelectByAttribute(Runtime& runtime, const Value& input, const Arguments& arguments, Keep keep) {
  if (!input.IsTrue()) return runtime.NewSequence(SequenceKind::kGenerator, {});
  if (arguments.positional.empty()) return InvalidArgument("", "Missing parameter for attribute name");
  return KeepItems(runtime, input, PathOf(arguments.positional[0]), WithoutFirst(arguments, 1), keep);
}

Result<Value> Select(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return SelectItems(runtime, input, arguments, Keep::kIfTrue);
}
Result<Value> Reject(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return SelectItems(runtime, input, arguments, Keep::kIfFalse);
}
Result<Value> SelectAttr(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return SelectByAttribute(runtime, input, arguments, Keep::kIfTrue);
}
Result<Value> RejectAttr(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return SelectByAttribute(runtime, input, arguments, Keep::kIfFalse);
}

Result<Value> Attr(Runtime& /*runtime*/, const Value& input, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("attr", {"name"}, 1));
  ROOST_ASSIGN_OR_RETURN(const std::string name, bound.String(0, ""));
  if (input.is(Kind::kUndefined)) return UndefinedError(input);
  if (input.is(Kind::kObject)) return GetAttribute(input, bound[0]);
  return MissingAttribute(input, name);
}

constexpr std::array<NamedFunction<FilterFunction>, 13> kSelectionFilters = {{
    {"attr", Attr},
    {"dictsort", DictSort},
    {"groupby", GroupBy},
    {"map", Map},
    {"max", Max},
    {"min", Min},
    {"reject", Reject},
    {"rejectattr", RejectAttr},
    {"select", Select},
    {"selectattr", SelectAttr},
    {"sort", SortFilter},
    {"sum", Sum},
    {"unique", Unique},
}};

}  // namespace

FilterFunction FindSelectionFilter(std::string_view name) { return FindIn(kSelectionFilters, name); }

}  // namespace roost::jinja
