#include "common/text/jinja/globals.h"

#include <array>
#include <cstdint>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "common/text/jinja/lookup_table.h"
#include "common/text/jinja/operators.h"
#include "common/text/jinja/text.h"

namespace roost::jinja {
namespace {

constexpr std::size_t kMaxDateText = 1'024;

Result<Value> Range(Runtime& runtime, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("range", {"start", "stop", "step"}, 1));
  const bool has_start = bound.Has(1);
  ROOST_ASSIGN_OR_RETURN(const std::int64_t start, has_start ? bound.Int(0, 0) : Result<std::int64_t>(0));
  ROOST_ASSIGN_OR_RETURN(const std::int64_t stop, bound.Int(has_start ? 1 : 0, 0));
  ROOST_ASSIGN_OR_RETURN(const std::int64_t step, bound.Int(2, 1));
  if (step == 0) return InvalidArgument("", "range() arg 3 must not be zero");
  // 128 bits can not overflow here.
  const __int128 distance = step > 0 ? static_cast<__int128>(stop) - start : static_cast<__int128>(start) - stop;
  const __int128 stride = step > 0 ? static_cast<__int128>(step) : -static_cast<__int128>(step);
  const __int128 count = distance <= 0 ? 0 : (distance + stride - 1) / stride;
  if (count > kMaxRangeItems) return InvalidArgument("", "range() has more than {} items", kMaxRangeItems);
  ROOST_RETURN_IF_ERROR(runtime.Spend(static_cast<std::uint64_t>(count)));
  std::vector<Value> items;
  items.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(count); ++i) items.push_back(Value::Int(start + i * step));
  return runtime.NewSequence(SequenceKind::kRange, std::move(items));
}

// The arguments of dict(…) and namespace(…): a dict or pairs, and named values.
Result<Dict> CollectEntries(Runtime& runtime, const Arguments& arguments, std::string_view function) {
  if (arguments.positional.size() > 1) return InvalidArgument("", "{}() takes at most 1 positional argument", function);
  Dict dict;
  if (!arguments.positional.empty() && arguments.positional[0].is(Kind::kDict)) {
    for (const Dict::Entry& entry : arguments.positional[0].AsDict().entries()) {
      ROOST_RETURN_IF_ERROR(runtime.SpendOn(entry.key));
      dict.Set(entry.key, entry.value);
    }
  } else if (!arguments.positional.empty()) {
    ROOST_ASSIGN_OR_RETURN(const std::vector<Value> pairs, Items(arguments.positional[0], runtime));
    for (const Value& pair : pairs) {
      ROOST_ASSIGN_OR_RETURN(const std::vector<Value> parts, Items(pair, runtime));
      if (parts.size() != 2) return InvalidArgument("", "{}() needs pairs of key and value", function);
      if (!Dict::IsKey(parts[0])) return InvalidArgument("", "a '{}' can not be a key", parts[0].TypeName());
      ROOST_RETURN_IF_ERROR(runtime.SpendOnCopy(parts[0]));
      dict.Set(parts[0], parts[1]);
    }
  }
  for (const auto& [name, value] : arguments.named) dict.Set(name, value);
  ROOST_RETURN_IF_ERROR(runtime.Spend(dict.entries().size()));
  return dict;
}

Result<Value> MakeDict(Runtime& runtime, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(Dict dict, CollectEntries(runtime, arguments, "dict"));
  return runtime.NewDict(std::move(dict));
}

Result<Value> MakeNamespace(Runtime& runtime, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(Dict dict, CollectEntries(runtime, arguments, "namespace"));
  auto made = std::make_shared<Namespace>();
  made->attributes = std::move(dict);
  return runtime.NewObject(std::move(made));
}

Result<Value> MakeCycler(Runtime& runtime, const Arguments& arguments) {
  if (arguments.positional.empty()) return InvalidArgument("", "at least one item has to be provided");
  ROOST_RETURN_IF_ERROR(runtime.SpendBytes(arguments.positional.size() * sizeof(Value)));
  return runtime.NewObject(std::make_shared<Cycler>(arguments.positional));
}

Result<Value> MakeJoiner(Runtime& runtime, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("joiner", {"sep"}, 0));
  return runtime.NewObject(std::make_shared<Joiner>(bound.Or(0, Value::String(", "))));
}

Result<Value> RaiseException(Runtime& runtime, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("raise_exception", {"message"}, 1));
  ROOST_ASSIGN_OR_RETURN(const std::string message, ToText(bound[0], runtime));
  return InvalidArgument("", "{}", message);
}

// Python's %f means microseconds, which C does not have; the time here has none.
std::string WithoutMicroseconds(std::string_view format) {
  std::string out;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      out += format[i];
    } else if (format[++i] == 'f') {
      out += "000000";
    } else {
      out.append("%").append(1, format[i]);
    }
  }
  return out;
}

Result<Value> StrftimeNow(Runtime& runtime, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("strftime_now", {"format"}, 1));
  ROOST_ASSIGN_OR_RETURN(const std::string format, bound.String(0, ""));
  if (format.empty()) return Value::String("");
  if (format.size() > kMaxDateText || format.find('\0') != std::string::npos) {
    return InvalidArgument("", "strftime_now(): the format is too long or has a zero character");
  }
  std::array<char, kMaxDateText> buffer{};
  const std::size_t length =
      std::strftime(buffer.data(), buffer.size(), WithoutMicroseconds(format).c_str(), &runtime.now());
  if (length == 0) return InvalidArgument("", "strftime_now(): the date is empty or over {} bytes", kMaxDateText);
  return runtime.NewString(std::string(buffer.data(), length));
}

constexpr std::array<NamedFunction<GlobalFunction>, 7> kGlobals = {{
    {"cycler", MakeCycler},
    {"dict", MakeDict},
    {"joiner", MakeJoiner},
    {"namespace", MakeNamespace},
    {"raise_exception", RaiseException},
    {"range", Range},
    {"strftime_now", StrftimeNow},
}};

}  // namespace

Value FindGlobal(std::string_view name) {
  const GlobalFunction function = FindIn(kGlobals, name);
  if (function == nullptr) return Value();
  return Value::Of(std::make_shared<Function>(name, function));
}

}  // namespace roost::jinja
