#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "common/text/jinja/lookup_table.h"
#include "common/text/jinja/python_strings.h"
#include "common/text/jinja/strings/string_methods.h"

namespace roost::jinja {
namespace {

Result<Value> Upper(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("upper", {}, 0));
  ROOST_RETURN_IF_ERROR(runtime.SpendPerCharacter(self.AsString()));
  return Made(runtime, self, ToUpper(self.AsString()));
}
Result<Value> Lower(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("lower", {}, 0));
  ROOST_RETURN_IF_ERROR(runtime.SpendPerCharacter(self.AsString()));
  return Made(runtime, self, ToLower(self.AsString()));
}
Result<Value> CapitalizeMethod(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("capitalize", {}, 0));
  ROOST_RETURN_IF_ERROR(runtime.SpendPerCharacter(self.AsString()));
  return Made(runtime, self, Capitalize(self.AsString()));
}

// Every letter behind a non-letter starts a word.
Result<Value> TitleMethod(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("title", {}, 0));
  ROOST_RETURN_IF_ERROR(runtime.Spend(self.AsString().size()));
  std::string out;
  bool in_word = false;
  for (const std::string_view point : SplitCodePoints(self.AsString())) {
    out += in_word ? ToLower(point) : Capitalize(point);
    in_word = ToLower(point) != ToUpper(point);
  }
  return Made(runtime, self, std::move(out));
}

Result<Value> SwapCase(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("swapcase", {}, 0));
  ROOST_RETURN_IF_ERROR(runtime.Spend(self.AsString().size()));
  std::string out;
  for (const std::string_view point : SplitCodePoints(self.AsString())) {
    const std::string upper = ToUpper(point);
    out += upper == point ? ToLower(point) : upper;
  }
  return Made(runtime, self, std::move(out));
}

Result<Value> StripSide(Runtime& runtime, const Value& self, const Arguments& arguments, Side side) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("strip", {"chars"}, 0));
  if (!bound.HasNotNone(0)) return MadePart(runtime, self, StripSpace(self.AsString(), side));
  ROOST_ASSIGN_OR_RETURN(const std::string chars, bound.String(0, ""));
  ROOST_RETURN_IF_ERROR(runtime.Spend(chars.size()));
  return MadePart(runtime, self, StripChars(self.AsString(), chars, side));
}
Result<Value> Strip(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return StripSide(runtime, self, arguments, Side::kBoth);
}
Result<Value> LStrip(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return StripSide(runtime, self, arguments, Side::kLeft);
}
Result<Value> RStrip(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return StripSide(runtime, self, arguments, Side::kRight);
}

// Adds spaces (or `fill`) up to `width`; `text_side` decides how many go to the left.
Result<Value> Pad(Runtime& runtime, const Value& self, const Arguments& arguments, Side text_side) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("center", {"width", "fillchar"}, 1));
  ROOST_ASSIGN_OR_RETURN(const std::int64_t width, bound.Int(0, 0));
  ROOST_ASSIGN_OR_RETURN(const std::string fill, bound.String(1, " "));
  if (CountCodePoints(fill) != 1) return InvalidArgument("", "The fill character must be exactly one character long");
  const auto length = static_cast<std::int64_t>(CountCodePoints(self.AsString()));
  if (width <= length) return self;
  ROOST_RETURN_IF_ERROR(runtime.AllowText(static_cast<std::uint64_t>(width)));
  const std::int64_t total = width - length;
  std::int64_t left = 0;
  if (text_side == Side::kRight) left = total;
  if (text_side == Side::kBoth) left = total / 2 + (total & width & 1);
  std::string out;
  for (std::int64_t i = 0; i < left; ++i) out += fill;
  out += self.AsString();
  for (std::int64_t i = left; i < total; ++i) out += fill;
  return Made(runtime, self, std::move(out));
}
Result<Value> CenterMethod(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return Pad(runtime, self, arguments, Side::kBoth);
}
Result<Value> LJust(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return Pad(runtime, self, arguments, Side::kLeft);
}
Result<Value> RJust(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return Pad(runtime, self, arguments, Side::kRight);
}

Result<Value> ZFill(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("zfill", {"width"}, 1));
  ROOST_ASSIGN_OR_RETURN(const std::int64_t width, bound.Int(0, 0));
  const auto length = static_cast<std::int64_t>(CountCodePoints(self.AsString()));
  if (width <= length) return self;
  ROOST_RETURN_IF_ERROR(runtime.AllowText(static_cast<std::uint64_t>(width)));
  std::string out = self.AsString();
  const std::size_t sign = !out.empty() && (out[0] == '-' || out[0] == '+') ? 1 : 0;
  out.insert(sign, static_cast<std::size_t>(width - length), '0');
  return Made(runtime, self, std::move(out));
}

constexpr std::array<NamedFunction<MethodFunction>, 13> kShapeMethods = {{
    {"capitalize", CapitalizeMethod},
    {"casefold", Lower},
    {"center", CenterMethod},
    {"ljust", LJust},
    {"lower", Lower},
    {"lstrip", LStrip},
    {"rjust", RJust},
    {"rstrip", RStrip},
    {"strip", Strip},
    {"swapcase", SwapCase},
    {"title", TitleMethod},
    {"upper", Upper},
    {"zfill", ZFill},
}};

}  // namespace

MethodFunction FindShapeMethod(std::string_view name) { return FindIn(kShapeMethods, name); }

}  // namespace roost::jinja
