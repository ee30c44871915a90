#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/text/jinja/lookup_table.h"
#include "common/text/jinja/methods.h"
#include "common/text/jinja/operators.h"

namespace roost::jinja {
namespace {

std::vector<Value>& ItemsOf(const Value& list) { return list.AsSequence().items; }

Result<Value> Append(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("append", {"object"}, 1));
  ROOST_RETURN_IF_ERROR(runtime.BeginChange(self.SharedSequence(), bound[0]));
  ItemsOf(self).push_back(bound[0]);
  return Value::None();
}

Result<Value> Extend(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("extend", {"iterable"}, 1));
  ROOST_ASSIGN_OR_RETURN(const std::vector<Value> added, Items(bound[0], runtime));
  ROOST_RETURN_IF_ERROR(runtime.BeginChange(self.SharedSequence(), Value::List(added)));
  ItemsOf(self).insert(ItemsOf(self).end(), added.begin(), added.end());
  return Value::None();
}

Result<Value> Insert(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("insert", {"index", "object"}, 2));
  ROOST_ASSIGN_OR_RETURN(std::int64_t index, bound.Int(0, 0));
  ROOST_RETURN_IF_ERROR(runtime.BeginChange(self.SharedSequence(), bound[1]));
  const auto size = static_cast<std::int64_t>(ItemsOf(self).size());
  ROOST_RETURN_IF_ERROR(runtime.Spend(static_cast<std::uint64_t>(size) / 16));
  if (index < 0) index = std::max<std::int64_t>(index, -size) + size;
  ItemsOf(self).insert(ItemsOf(self).begin() + std::min(index, size), bound[1]);
  return Value::None();
}

Result<Value> PopItem(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("pop", {"index"}, 0));
  ROOST_ASSIGN_OR_RETURN(std::int64_t index, bound.Int(0, -1));
  ROOST_RETURN_IF_ERROR(runtime.BeginChange(self.SharedSequence(), Value()));
  const auto size = static_cast<std::int64_t>(ItemsOf(self).size());
  if (size == 0) return InvalidArgument("", "pop from empty list");
  if (index < 0) index += size;
  if (index < 0 || index >= size) return InvalidArgument("", "pop index out of range");
  ROOST_RETURN_IF_ERROR(runtime.Spend(static_cast<std::uint64_t>(size - index) / 16));
  Value popped = ItemsOf(self)[static_cast<std::size_t>(index)];
  ItemsOf(self).erase(ItemsOf(self).begin() + index);
  return popped;
}

Result<Value> ReverseInPlace(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("reverse", {}, 0));
  ROOST_RETURN_IF_ERROR(runtime.BeginChange(self.SharedSequence(), Value()));
  ROOST_RETURN_IF_ERROR(runtime.Spend(ItemsOf(self).size()));
  std::reverse(ItemsOf(self).begin(), ItemsOf(self).end());
  return Value::None();
}

Result<Value> SortInPlace(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("sort", {"key", "reverse"}, 0));
  if (bound.HasNotNone(0)) return InvalidArgument("", "sort() with a key is not supported; use the filter");
  ROOST_RETURN_IF_ERROR(runtime.BeginChange(self.SharedSequence(), Value()));
  std::vector<Sortable> sortable;
  for (const Value& item : ItemsOf(self)) sortable.push_back(Sortable{item, item});
  ROOST_RETURN_IF_ERROR(Sort(sortable, bound.IsTrue(1) ? SortOrder::kDescending : SortOrder::kAscending, runtime));
  std::transform(sortable.begin(), sortable.end(), ItemsOf(self).begin(),
                 [](const Sortable& entry) { return entry.value; });
  return Value::None();
}

Result<Value> ClearList(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("clear", {}, 0));
  ROOST_RETURN_IF_ERROR(runtime.BeginChange(self.SharedSequence(), Value()));
  ItemsOf(self).clear();
  return Value::None();
}

Result<Value> CopyList(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("copy", {}, 0));
  ROOST_ASSIGN_OR_RETURN(std::vector<Value> items, Items(self, runtime));
  return runtime.NewSequence(SequenceKind::kList, std::move(items));
}

Result<std::optional<std::size_t>> PlaceOf(const Value& list, const Value& wanted, Runtime& runtime) {
  for (std::size_t i = 0; i < ItemsOf(list).size(); ++i) {
    ROOST_ASSIGN_OR_RETURN(const bool is_equal, Equals(ItemsOf(list)[i], wanted, runtime));
    if (is_equal) return std::optional(i);
  }
  return std::optional<std::size_t>();
}

Result<Value> IndexOf(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("index", {"value"}, 1));
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::size_t> place, PlaceOf(self, bound[0], runtime));
  if (!place) return InvalidArgument("", "the value is not in the list");
  return Value::Int(static_cast<std::int64_t>(*place));
}

Result<Value> RemoveItem(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("remove", {"value"}, 1));
  ROOST_RETURN_IF_ERROR(runtime.BeginChange(self.SharedSequence(), Value()));
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::size_t> place, PlaceOf(self, bound[0], runtime));
  if (!place) return InvalidArgument("", "list.remove(x): x not in list");
  ItemsOf(self).erase(ItemsOf(self).begin() + static_cast<std::ptrdiff_t>(*place));
  return Value::None();
}

Result<Value> CountItem(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("count", {"value"}, 1));
  std::int64_t count = 0;
  for (const Value& item : ItemsOf(self)) {
    ROOST_ASSIGN_OR_RETURN(const bool is_equal, Equals(item, bound[0], runtime));
    count += is_equal ? 1 : 0;
  }
  return Value::Int(count);
}

Result<Value> Keys(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("keys", {}, 0));
  std::vector<Value> keys;
  for (const Dict::Entry& entry : self.AsDict().entries()) keys.push_back(entry.key);
  ROOST_RETURN_IF_ERROR(runtime.Spend(keys.size()));
  return runtime.NewSequence(SequenceKind::kKeys, std::move(keys));
}

Result<Value> Values(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("values", {}, 0));
  std::vector<Value> values;
  for (const Dict::Entry& entry : self.AsDict().entries()) values.push_back(entry.value);
  ROOST_RETURN_IF_ERROR(runtime.Spend(values.size()));
  return runtime.NewSequence(SequenceKind::kValues, std::move(values));
}

Result<Value> ItemPairs(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("items", {}, 0));
  std::vector<Value> pairs;
  ROOST_RETURN_IF_ERROR(runtime.Spend(self.AsDict().entries().size()));
  for (const Dict::Entry& entry : self.AsDict().entries()) {
    ROOST_ASSIGN_OR_RETURN(Value pair, runtime.NewSequence(SequenceKind::kTuple, {entry.key, entry.value}));
    pairs.push_back(std::move(pair));
  }
  return runtime.NewSequence(SequenceKind::kItems, std::move(pairs));
}

Result<void> CheckKey(const Value& key) {
  if (Dict::IsKey(key)) return {};
  return InvalidArgument("", "a '{}' can not be a key", key.TypeName());
}

Result<Value> Get(Runtime& /*runtime*/, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("get", {"key", "default"}, 1));
  const Value* found = Dict::IsKey(bound[0]) ? self.AsDict().Find(bound[0]) : nullptr;
  return found != nullptr ? *found : bound.Or(1, Value::None());
}

Result<Value> PopEntry(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("pop", {"key", "default"}, 1));
  ROOST_RETURN_IF_ERROR(CheckKey(bound[0]));
  ROOST_RETURN_IF_ERROR(runtime.BeginChange(self.SharedDict(), Value()));
  ROOST_RETURN_IF_ERROR(runtime.Spend(self.AsDict().entries().size()));
  if (auto removed = self.AsDict().Remove(bound[0])) return *std::move(removed);
  if (bound.Has(1)) return bound[1];
  return InvalidArgument("", "pop(): the key is not in the dict");
}

Result<Value> SetDefault(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("setdefault", {"key", "default"}, 1));
  ROOST_RETURN_IF_ERROR(CheckKey(bound[0]));
  if (const Value* found = self.AsDict().Find(bound[0])) return *found;
  const Value fallback = bound.Or(1, Value::None());
  ROOST_RETURN_IF_ERROR(runtime.BeginChange(self.SharedDict(), fallback));
  self.AsDict().Set(bound[0], fallback);
  return fallback;
}

// dict.update: takes a dict or a list of pairs, and named values.
Result<Value> Update(Runtime& runtime, const Value& self, const Arguments& arguments) {
  if (arguments.positional.size() > 1) return InvalidArgument("", "update() takes at most 1 positional argument");
  std::vector<std::pair<Value, Value>> added;
  if (!arguments.positional.empty() && arguments.positional[0].is(Kind::kDict)) {
    for (const Dict::Entry& entry : arguments.positional[0].AsDict().entries()) {
      added.emplace_back(entry.key, entry.value);
    }
  } else if (!arguments.positional.empty()) {
    ROOST_ASSIGN_OR_RETURN(const std::vector<Value> pairs, Items(arguments.positional[0], runtime));
    for (const Value& pair : pairs) {
      ROOST_ASSIGN_OR_RETURN(const std::vector<Value> parts, Items(pair, runtime));
      if (parts.size() != 2) return InvalidArgument("", "update() needs pairs of key and value");
      ROOST_RETURN_IF_ERROR(CheckKey(parts[0]));
      added.emplace_back(parts[0], parts[1]);
    }
  }
  for (const auto& [name, value] : arguments.named) added.emplace_back(Value::String(name), value);
  for (auto& [key, value] : added) {
    ROOST_RETURN_IF_ERROR(runtime.SpendOn(key));
    ROOST_RETURN_IF_ERROR(runtime.BeginChange(self.SharedDict(), value));
    self.AsDict().Set(std::move(key), std::move(value));
  }
  return Value::None();
}

Result<Value> ClearDict(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("clear", {}, 0));
  ROOST_RETURN_IF_ERROR(runtime.BeginChange(self.SharedDict(), Value()));
  self.AsDict().Clear();
  return Value::None();
}

Result<Value> CopyDict(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("copy", {}, 0));
  ROOST_RETURN_IF_ERROR(runtime.Spend(self.AsDict().entries().size()));
  return runtime.NewDict(self.AsDict());
}

constexpr std::array<NamedFunction<MethodFunction>, 11> kListMethods = {{
    {"append", Append},
    {"clear", ClearList},
    {"copy", CopyList},
    {"count", CountItem},
    {"extend", Extend},
    {"index", IndexOf},
    {"insert", Insert},
    {"pop", PopItem},
    {"remove", RemoveItem},
    {"reverse", ReverseInPlace},
    {"sort", SortInPlace},
}};

constexpr std::array<NamedFunction<MethodFunction>, 2> kTupleMethods = {{{"count", CountItem}, {"index", IndexOf}}};

constexpr std::array<NamedFunction<MethodFunction>, 11> kDictMethods = {{
    {"clear", ClearDict},
    {"copy", CopyDict},
    {"fromkeys", UnsupportedMethod},
    {"get", Get},
    {"items", ItemPairs},
    {"keys", Keys},
    {"pop", PopEntry},
    {"popitem", UnsupportedMethod},
    {"setdefault", SetDefault},
    {"update", Update},
    {"values", Values},
}};

}  // namespace

MethodFunction FindListMethod(std::string_view name) { return FindIn(kListMethods, name); }
MethodFunction FindTupleMethod(std::string_view name) { return FindIn(kTupleMethods, name); }
MethodFunction FindDictMethod(std::string_view name) { return FindIn(kDictMethods, name); }

MethodSet FindMethods(std::string_view name) {
  return MethodSet{FindStringMethod(name), FindListMethod(name), FindTupleMethod(name), FindDictMethod(name)};
}

MethodFunction MethodSet::For(const Value& value) const {
  if (value.is(Kind::kString)) return of_string;
  if (value.is(Kind::kDict)) return of_dict;
  if (!value.is(Kind::kSequence)) return nullptr;
  switch (value.AsSequence().kind) {
    case SequenceKind::kList: return of_list;
    case SequenceKind::kTuple: return of_tuple;
    default: return nullptr;
  }
}

Result<Value> UnsupportedMethod(Runtime& /*runtime*/, const Value& self, const Arguments& /*arguments*/) {
  return InvalidArgument("", "this method of '{}' is not supported", self.TypeName());
}

}  // namespace roost::jinja
