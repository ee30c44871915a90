#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/text/jinja/filters.h"
#include "common/text/jinja/lookup_table.h"
#include "common/text/jinja/operators.h"
#include "common/text/jinja/python_strings.h"
#include "common/text/jinja/text.h"

namespace roost::jinja {
namespace {

Result<Value> LengthFilter(Runtime& /*runtime*/, const Value& input, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("length", {}, 0));
  ROOST_ASSIGN_OR_RETURN(const std::int64_t length, Length(input));
  return Value::Int(length);
}

Result<Value> First(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("first", {}, 0));
  if (input.is(Kind::kString) && !input.AsString().empty()) return GetItem(input, Value::Int(0), runtime);
  ROOST_ASSIGN_OR_RETURN(const std::shared_ptr<Sequence> items, AsIterable(input, runtime));
  return items->items.empty() ? Value::Undefined("No first item, sequence was empty.") : items->items.front();
}

Result<Value> Last(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("last", {}, 0));
  if (input.is(Kind::kString) && !input.AsString().empty()) return GetItem(input, Value::Int(-1), runtime);
  if (input.is(Kind::kSequence) && input.AsSequence().kind == SequenceKind::kGenerator) {
    return InvalidArgument("", "'generator' object is not reversible");
  }
  ROOST_ASSIGN_OR_RETURN(const std::shared_ptr<Sequence> items, AsIterable(input, runtime));
  return items->items.empty() ? Value::Undefined("No last item, sequence was empty.") : items->items.back();
}

Result<Value> ListFilter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("list", {}, 0));
  ROOST_ASSIGN_OR_RETURN(std::vector<Value> items, Items(input, runtime));
  return runtime.NewSequence(SequenceKind::kList, std::move(items));
}

Result<Value> Reverse(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("reverse", {}, 0));
  if (input.is(Kind::kString)) {
    return GetSlice(input, SliceBounds{Value::None(), Value::None(), Value::Int(-1)}, runtime);
  }
  ROOST_ASSIGN_OR_RETURN(std::vector<Value> items, Items(input, runtime));
  std::reverse(items.begin(), items.end());
  const bool becomes_list = input.is(Kind::kSequence) && input.AsSequence().kind == SequenceKind::kGenerator;
  return runtime.NewSequence(becomes_list ? SequenceKind::kList : SequenceKind::kGenerator, std::move(items));
}

Result<Value> JoinFilter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("join", {"d", "attribute"}, 0));
  const Value separator = bound.Or(0, Value::String(""));
  ROOST_RETURN_IF_ERROR(runtime.SpendOn(separator));
  ROOST_ASSIGN_OR_RETURN(const std::shared_ptr<Sequence> items, AsIterable(input, runtime));
  TracedText out;
  for (std::size_t i = 0; i < items->items.size(); ++i) {
    if (i > 0) ROOST_RETURN_IF_ERROR(AppendText(separator, runtime, out));
    Value item = items->items[i];
    if (bound.HasNotNone(1)) {
      ROOST_ASSIGN_OR_RETURN(item, GetItem(item, bound[1], runtime));
    }
    ROOST_RETURN_IF_ERROR(runtime.Spend(1));
    ROOST_RETURN_IF_ERROR(AppendText(item, runtime, out));
    ROOST_RETURN_IF_ERROR(runtime.AllowText(out.size()));
  }
  return runtime.NewString(std::move(out));
}

Result<Value> ItemsFilter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("items", {}, 0));
  std::vector<Value> pairs;
  if (!input.is(Kind::kUndefined)) {
    if (!input.is(Kind::kDict)) return InvalidArgument("", "Can only get item pairs from a mapping.");
    ROOST_RETURN_IF_ERROR(runtime.Spend(input.AsDict().entries().size()));
    for (const Dict::Entry& entry : input.AsDict().entries()) {
      ROOST_ASSIGN_OR_RETURN(Value pair, runtime.NewSequence(SequenceKind::kTuple, {entry.key, entry.value}));
      pairs.push_back(std::move(pair));
    }
  }
  return runtime.NewSequence(SequenceKind::kGenerator, std::move(pairs));
}

Result<std::int64_t> PositiveCount(const BoundArguments& bound, std::string_view filter) {
  ROOST_ASSIGN_OR_RETURN(const std::int64_t count, bound.Int(0, 1));
  if (count < 1) return InvalidArgument("", "{}() needs a count over 0", filter);
  return count;
}

// Lists of `linecount` items each; the last is filled up if a fill value was given.
Result<Value> Batch(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("batch", {"linecount", "fill_with"}, 1));
  ROOST_ASSIGN_OR_RETURN(const std::int64_t line_count, PositiveCount(bound, "batch"));
  const auto width = static_cast<std::size_t>(line_count);
  ROOST_ASSIGN_OR_RETURN(const std::vector<Value> items, Items(input, runtime));
  std::vector<Value> rows;
  for (std::size_t begin = 0; begin < items.size();) {
    const std::size_t end = begin + std::min(width, items.size() - begin);
    std::vector<Value> row(items.begin() + static_cast<std::ptrdiff_t>(begin),
                           items.begin() + static_cast<std::ptrdiff_t>(end));
    if (bound.HasNotNone(1) && row.size() < width) {
      ROOST_RETURN_IF_ERROR(runtime.SpendBytes((width - row.size()) * sizeof(Value)));
      row.resize(width, bound[1]);
    }
    ROOST_ASSIGN_OR_RETURN(Value list, runtime.NewSequence(SequenceKind::kList, std::move(row)));
    rows.push_back(std::move(list));
    begin = end;
  }
  return runtime.NewSequence(SequenceKind::kGenerator, std::move(rows));
}

// `slices` lists; the first ones have one more item if the items do not divide evenly.
Result<Value> SliceFilter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("slice", {"slices", "fill_with"}, 1));
  ROOST_ASSIGN_OR_RETURN(const std::int64_t slice_count, PositiveCount(bound, "slice"));
  ROOST_RETURN_IF_ERROR(runtime.Spend(static_cast<std::uint64_t>(slice_count)));
  ROOST_ASSIGN_OR_RETURN(const std::vector<Value> items, Items(input, runtime));
  const auto slices = static_cast<std::size_t>(slice_count);
  const std::size_t shorter = items.size() / slices;
  const std::size_t longer_count = items.size() % slices;
  std::vector<Value> columns;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < slices; ++i) {
    const std::size_t end = begin + shorter + (i < longer_count ? 1 : 0);
    std::vector<Value> column(items.begin() + static_cast<std::ptrdiff_t>(begin),
                              items.begin() + static_cast<std::ptrdiff_t>(end));
    if (bound.HasNotNone(1) && i >= longer_count) column.push_back(bound[1]);
    ROOST_ASSIGN_OR_RETURN(Value list, runtime.NewSequence(SequenceKind::kList, std::move(column)));
    columns.push_back(std::move(list));
    begin = end;
  }
  return runtime.NewSequence(SequenceKind::kGenerator, std::move(columns));
}

constexpr std::array<NamedFunction<FilterFunction>, 10> kSequenceFilters = {{
    {"batch", Batch},
    {"count", LengthFilter},
    {"first", First},
    {"items", ItemsFilter},
    {"join", JoinFilter},
    {"last", Last},
    {"length", LengthFilter},
    {"list", ListFilter},
    {"reverse", Reverse},
    {"slice", SliceFilter},
}};

}  // namespace

FilterFunction FindSequenceFilter(std::string_view name) { return FindIn(kSequenceFilters, name); }

}  // namespace roost::jinja
