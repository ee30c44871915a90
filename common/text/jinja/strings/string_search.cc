#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/text/jinja/lookup_table.h"
#include "common/text/jinja/operators.h"
#include "common/text/jinja/python_strings.h"
#include "common/text/jinja/strings/string_methods.h"
#include "common/text/jinja/text.h"

namespace roost::jinja {
namespace {

// An empty `old` matches before every code point and at the end.
Result<Value> ReplaceEmpty(Runtime& runtime, const Value& self, const std::string& fresh, std::size_t limit) {
  const std::vector<std::string_view> points = SplitCodePoints(self.AsString());
  const std::size_t times = std::min(limit, points.size() + 1);
  ROOST_RETURN_IF_ERROR(runtime.Spend(points.size()));
  ROOST_RETURN_IF_ERROR(runtime.AllowText(static_cast<std::uint64_t>(times) * fresh.size()));
  std::string out;
  for (std::size_t i = 0; i <= points.size(); ++i) {
    if (i < times) out += fresh;
    if (i < points.size()) out += points[i];
  }
  return Made(runtime, self, std::move(out));
}

// A string argument, escaped if `self` is marked, so that the result may be marked.
Result<std::string> TextArgument(Runtime& runtime, const Value& self, const BoundArguments& bound, std::size_t i) {
  ROOST_ASSIGN_OR_RETURN(std::string text, bound.String(i, ""));
  if (!self.IsMarkup()) return text;
  ROOST_ASSIGN_OR_RETURN(const Value escaped, EscapeMarkup(bound[i], runtime));
  return escaped.AsString();
}

Result<Value> ReplaceMethod(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("replace", {"old", "new", "count"}, 2));
  ROOST_ASSIGN_OR_RETURN(const std::string old, TextArgument(runtime, self, bound, 0));
  ROOST_ASSIGN_OR_RETURN(const std::string fresh, TextArgument(runtime, self, bound, 1));
  ROOST_ASSIGN_OR_RETURN(const std::int64_t count, bound.Int(2, -1));
  const std::size_t limit = count < 0 ? std::string::npos : static_cast<std::size_t>(count);
  const std::string_view text = self.AsString();
  if (old.empty()) return ReplaceEmpty(runtime, self, fresh, limit);
  const Value replacement = self.IsMarkup() ? Value::String(fresh) : bound[1];
  TracedText out;
  std::size_t begin = 0;
  for (std::size_t replaced = 0; replaced < limit; ++replaced) {
    const std::size_t place = FindText(text, old, begin);
    if (place == std::string_view::npos) break;
    out.AppendPart(self, text.substr(begin, place - begin));
    out.Append(replacement);
    begin = place + old.size();
    ROOST_RETURN_IF_ERROR(runtime.AllowText(out.size()));
  }
  out.AppendPart(self, text.substr(begin));
  return runtime.NewString(std::move(out), self.IsMarkup() ? Markup::kYes : Markup::kNo);
}

// The argument of startswith and endswith: a string or a tuple of strings.
Result<bool> HasAffix(std::string_view text, const Value& affix, Side side) {
  if (affix.is(Kind::kSequence) && affix.AsSequence().kind == SequenceKind::kTuple) {
    for (const Value& item : affix.AsSequence().items) {
      if (item.is(Kind::kSequence)) break;
      ROOST_ASSIGN_OR_RETURN(const bool has, HasAffix(text, item, side));
      if (has) return true;
    }
    return false;
  }
  if (!affix.is(Kind::kString)) {
    return InvalidArgument("", "{}with first arg must be str or a tuple of str, not {}",
                           side == Side::kLeft ? "starts" : "ends", affix.TypeName());
  }
  const std::string_view wanted = affix.AsString();
  if (wanted.size() > text.size()) return false;
  return (side == Side::kLeft ? text.substr(0, wanted.size()) : text.substr(text.size() - wanted.size())) == wanted;
}

// self[start:end] with arguments 1 and 2, as find, count, startswith and others take them.
Result<Value> Range(Runtime& runtime, const Value& self, const BoundArguments& bound) {
  if (!bound.Has(1) && !bound.Has(2)) return self;
  return GetSlice(self, SliceBounds{bound.Or(1, Value::None()), bound.Or(2, Value::None()), Value::None()}, runtime);
}

Result<Value> AffixTest(Runtime& runtime, const Value& self, const Arguments& arguments, Side side) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("startswith", {"prefix", "start", "end"}, 1));
  ROOST_ASSIGN_OR_RETURN(const Value range, Range(runtime, self, bound));
  ROOST_ASSIGN_OR_RETURN(const bool has, HasAffix(range.AsString(), bound[0], side));
  return Value::Bool(has);
}
Result<Value> StartsWith(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return AffixTest(runtime, self, arguments, Side::kLeft);
}
Result<Value> EndsWith(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return AffixTest(runtime, self, arguments, Side::kRight);
}

Result<Value> RemovePrefix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("removeprefix", {"prefix"}, 1));
  ROOST_ASSIGN_OR_RETURN(const std::string prefix, bound.String(0, ""));
  ROOST_ASSIGN_OR_RETURN(const bool has, HasAffix(self.AsString(), bound[0], Side::kLeft));
  return MadePart(runtime, self, std::string_view(self.AsString()).substr(has ? prefix.size() : 0));
}
Result<Value> RemoveSuffix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("removesuffix", {"suffix"}, 1));
  ROOST_ASSIGN_OR_RETURN(const std::string suffix, bound.String(0, ""));
  ROOST_ASSIGN_OR_RETURN(const bool has, HasAffix(self.AsString(), bound[0], Side::kRight));
  const std::string_view text = self.AsString();
  return MadePart(runtime, self, text.substr(0, text.size() - (has ? suffix.size() : 0)));
}

// Code point index of the first or last occurrence in self[start:end].
Result<std::optional<std::int64_t>> Search(Runtime& runtime, const Value& self, const Arguments& arguments, From from) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("find", {"sub", "start", "end"}, 1));
  ROOST_ASSIGN_OR_RETURN(const std::string wanted, bound.String(0, ""));
  ROOST_ASSIGN_OR_RETURN(const Value range, Range(runtime, self, bound));
  const std::string& text = range.AsString();
  if (from == From::kRight) ROOST_RETURN_IF_ERROR(SpendOnBackwardSearch(runtime, text, wanted));
  const std::size_t place = from == From::kLeft ? FindText(text, wanted, 0) : text.rfind(wanted);
  if (place == std::string::npos) return std::optional<std::int64_t>();
  const auto size = static_cast<std::int64_t>(CountCodePoints(self.AsString()));
  ROOST_ASSIGN_OR_RETURN(std::int64_t start, bound.HasNotNone(1) ? bound.Int(1, 0) : Result<std::int64_t>(0));
  if (start < 0) start = std::max<std::int64_t>(0, start + size);
  if (start > size) return std::optional<std::int64_t>();
  return std::optional(start + static_cast<std::int64_t>(CountCodePoints(std::string_view(text).substr(0, place))));
}

template <From kFrom>
Result<Value> Find(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::int64_t> place, Search(runtime, self, arguments, kFrom));
  return Value::Int(place.value_or(-1));
}
template <From kFrom>
Result<Value> Index(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::int64_t> place, Search(runtime, self, arguments, kFrom));
  if (!place) return InvalidArgument("", "substring not found");
  return Value::Int(*place);
}

Result<Value> Count(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("count", {"sub", "start", "end"}, 1));
  ROOST_ASSIGN_OR_RETURN(const std::string wanted, bound.String(0, ""));
  ROOST_ASSIGN_OR_RETURN(const Value range, Range(runtime, self, bound));
  const std::string& text = range.AsString();
  if (wanted.empty()) return Value::Int(static_cast<std::int64_t>(CountCodePoints(text)) + 1);
  std::int64_t count = 0;
  for (std::size_t i = FindText(text, wanted, 0); i != std::string::npos; i = FindText(text, wanted, i)) {
    ++count;
    i += wanted.size();
  }
  return Value::Int(count);
}

constexpr std::array<NamedFunction<MethodFunction>, 10> kSearchMethods = {{
    {"count", Count},
    {"endswith", EndsWith},
    {"find", Find<From::kLeft>},
    {"index", Index<From::kLeft>},
    {"removeprefix", RemovePrefix},
    {"removesuffix", RemoveSuffix},
    {"replace", ReplaceMethod},
    {"rfind", Find<From::kRight>},
    {"rindex", Index<From::kRight>},
    {"startswith", StartsWith},
}};

}  // namespace

MethodFunction FindSearchMethod(std::string_view name) { return FindIn(kSearchMethods, name); }

}  // namespace roost::jinja
