#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "common/text/jinja/methods.h"
#include "common/text/jinja/objects.h"
#include "common/text/jinja/operators.h"
#include "common/text/jinja/python_strings.h"
#include "common/text/jinja/text.h"

namespace roost::jinja {
namespace {

// `part` of a string, as a string that keeps the written ranges.
Result<Value> PartOf(const Value& text, std::string_view part, Runtime& runtime) {
  TracedText traced;
  traced.AppendPart(text, part);
  return runtime.NewString(std::move(traced), text.IsMarkup() ? Markup::kYes : Markup::kNo);
}

Result<std::vector<Value>> CodePointValues(const Value& text, Runtime& runtime) {
  ROOST_RETURN_IF_ERROR(runtime.Spend(text.AsString().size()));
  std::vector<Value> items;
  for (const std::string_view point : SplitCodePoints(text.AsString())) {
    TracedText traced;
    traced.AppendPart(text, point);
    ROOST_ASSIGN_OR_RETURN(Value item, runtime.NewString(std::move(traced)));
    items.push_back(std::move(item));
  }
  return items;
}

std::vector<Value> Keys(const Dict& dict) {
  std::vector<Value> keys;
  keys.reserve(dict.entries().size());
  for (const Dict::Entry& entry : dict.entries()) keys.push_back(entry.key);
  return keys;
}

bool HasItemsByNumber(const Sequence& sequence) {
  return sequence.kind == SequenceKind::kList || sequence.kind == SequenceKind::kTuple ||
         sequence.kind == SequenceKind::kRange;
}

// The place of item `index` among `count`; negative numbers count from the end.
std::optional<std::size_t> Place(std::int64_t index, std::size_t count) {
  const auto size = static_cast<std::int64_t>(count);
  if (index < 0) index += size;
  if (index < 0 || index >= size) return std::nullopt;
  return static_cast<std::size_t>(index);
}

// As in Jinja2, a name without an entry may still be a method.
Result<Value> MissingItem(const Value& object, const Value& index, Runtime& runtime) {
  if (index.is(Kind::kString)) {
    const MethodFunction method = FindMethods(index.AsString()).For(object);
    if (method == nullptr) return MissingAttribute(object, index.AsString());
    return runtime.NewObject(std::make_shared<BoundMethod>(object, method));
  }
  std::string shown;
  ROOST_RETURN_IF_ERROR(AppendRepr(index, runtime, shown));
  return Value::Undefined(fmt::format("'{} object' has no element {}", object.TypeName(), shown));
}

Result<Value> CodePointAt(const Value& text, std::int64_t index, Runtime& runtime) {
  const std::string& bytes = text.AsString();
  ROOST_RETURN_IF_ERROR(runtime.Spend(bytes.size() / 256));
  const auto place = Place(index, CountCodePoints(bytes));
  if (!place) return MissingItem(text, Value::Int(index), runtime);
  const std::size_t begin = ByteOffset(bytes, *place);
  const std::size_t length = ByteOffset(std::string_view(bytes).substr(begin), 1);
  return PartOf(text, std::string_view(bytes).substr(begin, length), runtime);
}

// The integers of a slice, as Python's slice.indices() gives them: items first, first + step, … `count` of them.
struct SliceRange {
  std::int64_t first;
  std::int64_t step;
  std::int64_t count;
};

Result<std::optional<std::int64_t>> Bound(const Value& value) {
  if (value.is(Kind::kNone)) return std::optional<std::int64_t>();
  if (value.is(Kind::kUndefined)) return UndefinedError(value);
  const auto integer = value.ToInteger();
  if (!integer) return InvalidArgument("", "slice indices must be integers or None, not '{}'", value.TypeName());
  return integer;
}

Result<SliceRange> Resolve(const SliceBounds& bounds, std::int64_t size) {
  ROOST_ASSIGN_OR_RETURN(const auto given_start, Bound(bounds.start));
  ROOST_ASSIGN_OR_RETURN(const auto given_stop, Bound(bounds.stop));
  ROOST_ASSIGN_OR_RETURN(const auto given_step, Bound(bounds.step));
  // A step larger than the size takes at most one item, so it may be clamped.
  const std::int64_t step = std::clamp(given_step.value_or(1), -size - 1, size + 1);
  if (given_step == 0) return InvalidArgument("", "slice step cannot be zero");
  const std::int64_t lowest = step < 0 ? -1 : 0;
  const std::int64_t highest = step < 0 ? size - 1 : size;
  const auto clamp = [&](std::int64_t bound) {
    if (bound < 0) bound = bound < -size ? lowest : bound + size;
    return std::clamp(bound, lowest, highest);
  };
  const std::int64_t start = given_start ? clamp(*given_start) : (step < 0 ? highest : lowest);
  const std::int64_t stop = given_stop ? clamp(*given_stop) : (step < 0 ? lowest : highest);
  const std::int64_t distance = step < 0 ? start - stop : stop - start;
  const std::int64_t stride = step < 0 ? -step : step;
  return SliceRange{start, step, distance <= 0 ? 0 : (distance + stride - 1) / stride};
}

Result<Value> SliceText(const Value& text, const SliceBounds& bounds, Runtime& runtime) {
  const std::string& bytes = text.AsString();
  ROOST_RETURN_IF_ERROR(runtime.Spend(bytes.size() / 64));
  const std::size_t size = CountCodePoints(bytes);
  ROOST_ASSIGN_OR_RETURN(const SliceRange range, Resolve(bounds, static_cast<std::int64_t>(size)));
  const Markup markup = text.IsMarkup() ? Markup::kYes : Markup::kNo;
  if (range.count == 0) return runtime.NewString("", markup);
  if (range.step == 1) {
    const std::size_t begin = ByteOffset(bytes, static_cast<std::size_t>(range.first));
    const std::size_t length = ByteOffset(std::string_view(bytes).substr(begin), static_cast<std::size_t>(range.count));
    return PartOf(text, std::string_view(bytes).substr(begin, length), runtime);
  }
  ROOST_RETURN_IF_ERROR(runtime.Spend(bytes.size()));
  const std::vector<std::string_view> points = SplitCodePoints(bytes);
  TracedText out;
  for (std::int64_t i = 0; i < range.count; ++i) {
    out.AppendPart(text, points[static_cast<std::size_t>(range.first + i * range.step)]);
  }
  return runtime.NewString(std::move(out), markup);
}

void AppendEscaped(std::string_view text, std::string& out) {
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '\'': out += "&#39;"; break;
      case '"': out += "&#34;"; break;
      default: out += c; break;
    }
  }
}

}  // namespace

Error UndefinedError(const Value& value) { return InvalidArgument("", "{}", value.UndefinedReason()); }

Value MissingAttribute(const Value& object, std::string_view name) {
  if (object.is(Kind::kNone)) return Value::Undefined(fmt::format("None has no attribute '{}'", name));
  return Value::Undefined(fmt::format("'{} object' has no attribute '{}'", object.TypeName(), name));
}

Result<void> SpendOnCopies(const Arguments& arguments, Runtime& runtime) {
  for (const Value& value : arguments.positional) ROOST_RETURN_IF_ERROR(runtime.SpendOnCopy(value));
  for (const auto& [name, value] : arguments.named) ROOST_RETURN_IF_ERROR(runtime.SpendOnCopy(value));
  return {};
}

Result<std::shared_ptr<Sequence>> AsIterable(const Value& value, Runtime& runtime) {
  std::vector<Value> items;
  switch (value.kind()) {
    case Kind::kSequence:
      if (value.AsSequence().kind != SequenceKind::kGenerator) return value.SharedSequence();
      items = value.AsSequence().TakeRest();
      break;
    case Kind::kDict: items = Keys(value.AsDict()); break;
    case Kind::kString: {
      ROOST_ASSIGN_OR_RETURN(items, CodePointValues(value, runtime));
      break;
    }
    case Kind::kUndefined: break;
    default: return InvalidArgument("", "'{}' object is not iterable", value.TypeName());
  }
  ROOST_RETURN_IF_ERROR(runtime.Spend(items.size()));
  ROOST_ASSIGN_OR_RETURN(const Value sequence, runtime.NewSequence(SequenceKind::kList, std::move(items)));
  return sequence.SharedSequence();
}

Result<std::vector<Value>> Items(const Value& value, Runtime& runtime) {
  ROOST_ASSIGN_OR_RETURN(const std::shared_ptr<Sequence> sequence, AsIterable(value, runtime));
  ROOST_RETURN_IF_ERROR(runtime.Spend(sequence->items.size()));
  ROOST_RETURN_IF_ERROR(runtime.SpendBytes(sequence->items.size() * sizeof(Value)));
  return sequence->items;
}

Result<std::int64_t> Length(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined: return 0;
    case Kind::kString: return static_cast<std::int64_t>(CountCodePoints(value.AsString()));
    case Kind::kDict: return static_cast<std::int64_t>(value.AsDict().entries().size());
    case Kind::kSequence:
      if (value.AsSequence().kind == SequenceKind::kGenerator) break;
      return static_cast<std::int64_t>(value.AsSequence().items.size());
    default: break;
  }
  return InvalidArgument("", "object of type '{}' has no len()", value.TypeName());
}

Result<Value> GetAttribute(const Value& object, const Value& name) {
  if (object.is(Kind::kUndefined)) return UndefinedError(object);
  const Value* found = nullptr;
  if (object.is(Kind::kDict)) found = object.AsDict().Find(name);
  if (object.is(Kind::kObject) && object.AsObject().object_kind() == ObjectKind::kNamespace) {
    found = static_cast<const Namespace&>(object.AsObject()).attributes.Find(name);
  }
  return found != nullptr ? *found : MissingAttribute(object, name.AsString());
}

Result<Value> GetItem(const Value& object, const Value& index, Runtime& runtime) {
  if (object.is(Kind::kUndefined)) return UndefinedError(object);
  if (object.is(Kind::kDict)) {
    ROOST_RETURN_IF_ERROR(runtime.SpendOn(index));
    const Value* found = Dict::IsKey(index) ? object.AsDict().Find(index) : nullptr;
    if (found != nullptr) return *found;
    return MissingItem(object, index, runtime);
  }
  const auto number = index.ToInteger();
  if (object.is(Kind::kString) && number) return CodePointAt(object, *number, runtime);
  if (object.is(Kind::kSequence) && number && HasItemsByNumber(object.AsSequence())) {
    const auto place = Place(*number, object.AsSequence().items.size());
    if (place) return object.AsSequence().items[*place];
  }
  if (object.is(Kind::kObject) && object.AsObject().object_kind() == ObjectKind::kNamespace &&
      index.is(Kind::kString)) {
    return GetAttribute(object, index);
  }
  return MissingItem(object, index, runtime);
}

Result<Value> GetSlice(const Value& object, const SliceBounds& bounds, Runtime& runtime) {
  if (object.is(Kind::kUndefined)) return UndefinedError(object);
  if (object.is(Kind::kString)) return SliceText(object, bounds, runtime);
  if (!object.is(Kind::kSequence) || !HasItemsByNumber(object.AsSequence())) {
    return InvalidArgument("", "'{}' object can not be sliced", object.TypeName());
  }
  const std::vector<Value>& items = object.AsSequence().items;
  ROOST_ASSIGN_OR_RETURN(const SliceRange range, Resolve(bounds, static_cast<std::int64_t>(items.size())));
  ROOST_RETURN_IF_ERROR(runtime.Spend(static_cast<std::uint64_t>(range.count)));
  std::vector<Value> taken;
  taken.reserve(static_cast<std::size_t>(range.count));
  for (std::int64_t i = 0; i < range.count; ++i) {
    taken.push_back(items[static_cast<std::size_t>(range.first + i * range.step)]);
  }
  return runtime.NewSequence(object.AsSequence().kind, std::move(taken));
}

Result<Value> EscapeMarkup(const Value& value, Runtime& runtime) {
  if (value.IsMarkup()) return value;
  ROOST_ASSIGN_OR_RETURN(const std::string text, ToText(value, runtime));
  ROOST_RETURN_IF_ERROR(runtime.SpendPerCharacter(text));
  std::string escaped;
  AppendEscaped(text, escaped);
  return runtime.NewString(std::move(escaped), Markup::kYes);
}

}  // namespace roost::jinja
