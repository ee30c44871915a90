#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <utility>

#include "common/text/jinja/filters.h"
#include "common/text/jinja/lookup_table.h"
#include "common/text/jinja/methods.h"
#include "common/text/jinja/operators.h"
#include "common/text/jinja/percent_format.h"
#include "common/text/jinja/python_strings.h"
#include "common/text/jinja/text.h"

namespace roost::jinja {
namespace {

constexpr std::size_t kMaxJsonIndent = 256;

Markup MarkupOf(const Value& value) { return value.IsMarkup() ? Markup::kYes : Markup::kNo; }

// The input as a string, as most text filters need it.
Result<Value> AsText(Runtime& runtime, const Value& input) {
  if (input.is(Kind::kString)) return input;
  TracedText text;
  ROOST_RETURN_IF_ERROR(AppendText(input, runtime, text));
  return runtime.NewString(std::move(text));
}

// A filter that is a method of str.
Result<Value> CallStringMethod(std::string_view name, Runtime& runtime, const Value& input,
                               const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const Value text, AsText(runtime, input));
  return FindStringMethod(name)(runtime, text, arguments);
}

Result<Value> UpperFilter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return CallStringMethod("upper", runtime, input, arguments);
}
Result<Value> LowerFilter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return CallStringMethod("lower", runtime, input, arguments);
}
Result<Value> CapitalizeText(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return CallStringMethod("capitalize", runtime, input, arguments);
}
Result<Value> Trim(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("trim", {"chars"}, 0));
  Arguments chars;
  if (bound.Has(0)) chars.positional.push_back(bound[0]);
  return CallStringMethod("strip", runtime, input, chars);
}
Result<Value> Center(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("center", {"width"}, 0));
  Arguments width;
  width.positional.push_back(bound.Or(0, Value::Int(80)));
  return CallStringMethod("center", runtime, input, width);
}
Result<Value> Replace(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("replace", {"old", "new", "count"}, 2));
  Arguments converted;
  for (const std::size_t i : {0U, 1U}) {
    ROOST_ASSIGN_OR_RETURN(Value text, AsText(runtime, bound[i]));
    converted.positional.push_back(std::move(text));
  }
  if (bound.HasNotNone(2)) converted.positional.push_back(bound[2]);
  // Unlike the method, the filter removes the mark.
  TracedText text;
  ROOST_RETURN_IF_ERROR(AppendText(input, runtime, text));
  ROOST_ASSIGN_OR_RETURN(const Value plain, runtime.NewString(std::move(text)));
  return CallStringMethod("replace", runtime, plain, converted);
}

bool EndsWord(char32_t c) { return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || IsSpace(c); }

// First letters of words in upper case, the rest in lower case. Unlike in str.title, digits and quotes do not start
// words.
Result<Value> Title(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("title", {}, 0));
  ROOST_ASSIGN_OR_RETURN(const Value text, AsText(runtime, input));
  ROOST_RETURN_IF_ERROR(runtime.Spend(text.AsString().size()));
  std::string out;
  bool is_first = true;
  for (const std::string_view point : SplitCodePoints(text.AsString())) {
    const bool ends_word =
        point.size() > 1 ? StripSpace(point, Side::kLeft).empty() : EndsWord(static_cast<unsigned char>(point[0]));
    out += is_first ? ToUpper(point) : ToLower(point);
    is_first = ends_word;
  }
  return runtime.NewString(std::move(out));
}

Result<Value> AsString(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("string", {}, 0));
  return AsText(runtime, input);
}

Result<Value> Safe(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("safe", {}, 0));
  TracedText text;
  ROOST_RETURN_IF_ERROR(AppendText(input, runtime, text));
  return runtime.NewString(std::move(text), Markup::kYes);
}

Result<Value> Escape(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("escape", {}, 0));
  return EscapeMarkup(input, runtime);
}

Result<Value> ForceEscape(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("forceescape", {}, 0));
  ROOST_ASSIGN_OR_RETURN(std::string text, ToText(input, runtime));
  return EscapeMarkup(Value::String(std::move(text)), runtime);
}

Result<Value> FormatFilter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    return InvalidArgument("", "format() takes positional or named arguments, not both");
  }
  ROOST_ASSIGN_OR_RETURN(const Value text, AsText(runtime, input));
  if (arguments.named.empty()) return PercentFormat(text, Value::Tuple(arguments.positional), runtime);
  Dict values;
  for (const auto& [name, value] : arguments.named) values.Set(name, value);
  return PercentFormat(text, Value::Mapping(std::move(values)), runtime);
}

Result<Value> Indention(const BoundArguments& bound) {
  if (bound.Has(0) && bound[0].is(Kind::kString)) return bound[0];
  ROOST_ASSIGN_OR_RETURN(const std::int64_t width, bound.Int(0, 4));
  if (width > static_cast<std::int64_t>(kMaxJsonIndent)) {
    return InvalidArgument("", "indent() takes at most {} spaces", kMaxJsonIndent);
  }
  return Value::WrittenString(std::string(static_cast<std::size_t>(width < 0 ? 0 : width), ' '));
}

// Indents each line except the first (unless `first`) and empty ones (unless `blank`).
Result<Value> Indent(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("indent", {"width", "first", "blank"}, 0));
  ROOST_ASSIGN_OR_RETURN(const Value indention, Indention(bound));
  if (input.is(Kind::kUndefined)) return UndefinedError(input);
  if (!input.is(Kind::kString)) return InvalidArgument("", "indent() needs a string, not '{}'", input.TypeName());
  // Splits like Jinja2, which first appends a newline: so a newline at the end makes an empty last line.
  ROOST_RETURN_IF_ERROR(runtime.SpendPerCharacter(input.AsString()));
  TracedText with_end;
  with_end.Append(input);
  with_end.AppendWritten("\n");
  const Value text = Value::String(std::move(with_end));
  TracedText out;
  bool is_first = true;
  for (const std::string_view line : SplitLines(text.AsString(), LineEnds::kDrop)) {
    if (!is_first) out.AppendWritten("\n");
    const bool is_indented = is_first ? bound.IsTrue(1) : (!line.empty() || bound.IsTrue(2));
    if (is_indented) out.Append(indention);
    out.AppendPart(text, line);
    is_first = false;
    ROOST_RETURN_IF_ERROR(runtime.AllowText(out.size()));
  }
  return runtime.NewString(std::move(out), MarkupOf(input));
}

Result<Value> Truncate(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound,
                         arguments.Bind("truncate", {"length", "killwords", "end", "leeway"}, 0));
  ROOST_ASSIGN_OR_RETURN(const std::int64_t length, bound.Int(0, 255));
  ROOST_ASSIGN_OR_RETURN(const std::string end, bound.String(2, "..."));
  ROOST_ASSIGN_OR_RETURN(const std::int64_t leeway, bound.HasNotNone(3) ? bound.Int(3, 5) : Result<std::int64_t>(5));
  const auto end_length = static_cast<std::int64_t>(CountCodePoints(end));
  if (length < end_length || leeway < 0) return InvalidArgument("", "truncate(): length or leeway is too small");
  if (!input.is(Kind::kString)) return InvalidArgument("", "truncate() needs a string, not '{}'", input.TypeName());
  const std::string& text = input.AsString();
  const auto size = static_cast<std::int64_t>(CountCodePoints(text));
  if (size <= leeway || size - leeway <= length) return input;
  std::string kept = text.substr(0, ByteOffset(text, static_cast<std::size_t>(length - end_length)));
  if (!bound.IsTrue(1)) kept = kept.substr(0, kept.rfind(' '));
  return runtime.NewString(kept + end, MarkupOf(input));
}

// Words of letters, digits and underscores.
Result<Value> WordCount(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("wordcount", {}, 0));
  ROOST_ASSIGN_OR_RETURN(const Value text, AsText(runtime, input));
  ROOST_RETURN_IF_ERROR(runtime.Spend(text.AsString().size()));
  std::int64_t count = 0;
  bool in_word = false;
  for (const std::string_view point : SplitCodePoints(text.AsString())) {
    const bool is_word =
        point == "_" || FindStringMethod("isalnum")(runtime, Value::String(std::string(point)), {}).value().IsTrue();
    if (is_word && !in_word) ++count;
    in_word = is_word;
  }
  return Value::Int(count);
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Python's float(text): allows white space around, and single underscores between digits.
std::optional<double> ParseDouble(std::string_view text) {
  const std::string_view written = StripSpace(text, Side::kBoth);
  std::string digits;
  for (std::size_t i = 0; i < written.size(); ++i) {
    const bool is_between = i > 0 && i + 1 < written.size() && IsDigit(written[i - 1]) && IsDigit(written[i + 1]);
    if (written[i] != '_' || !is_between) digits += written[i];
  }
  if (!digits.empty() && digits[0] == '+' && digits.substr(0, 2) != "+-") digits.erase(0, 1);
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool is_whole = end == digits.data() + digits.size() && !digits.empty();
  if (error == std::errc::result_out_of_range && is_whole) return std::strtod(digits.c_str(), nullptr);
  if (error != std::errc() || !is_whole || digits.find('(') != std::string::npos) return std::nullopt;
  return value;
}

// Digits of `base`, with an optional sign and, if it fits the base, the prefix 0x, 0o or 0b.
std::optional<std::int64_t> ParseInteger(std::string_view text, std::int64_t given_base) {
  if (given_base < 2 || given_base > 36) return std::nullopt;
  const int base = static_cast<int>(given_base);
  std::string digits(StripSpace(text, Side::kBoth));
  const bool is_negative = !digits.empty() && digits[0] == '-';
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) digits.erase(0, 1);
  const std::string_view prefix = base == 16 ? "0x" : base == 8 ? "0o" : base == 2 ? "0b" : "";
  if (!prefix.empty() && ToLower(digits.substr(0, 2)) == prefix) digits.erase(0, 2);
  std::string grouped = std::exchange(digits, {});
  for (std::size_t i = 0; i < grouped.size(); ++i) {
    const bool is_between = i > 0 && i + 1 < grouped.size() && grouped[i + 1] != '_';
    if (grouped[i] != '_' || !is_between) digits += grouped[i];
  }
  if (digits.empty() || digits[0] == '-' || digits[0] == '+') return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return is_negative ? -value : value;
}

std::optional<std::int64_t> Truncated(double value) {
  if (!(std::abs(value) < 9.2e18)) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

Result<Value> ToInt(Runtime& /*runtime*/, const Value& input, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("int", {"default", "base"}, 0));
  const std::int64_t base = bound.Or(1, Value::Int(10)).ToInteger().value_or(0);
  const Value fallback = bound.Or(0, Value::Int(0));
  if (input.is(Kind::kUndefined)) return UndefinedError(input);
  if (const auto integer = input.ToInteger()) return Value::Int(*integer);
  std::optional<double> number;
  if (input.is(Kind::kFloat)) number = input.AsFloat();
  if (input.is(Kind::kString)) {
    if (const auto integer = ParseInteger(input.AsString(), base)) return Value::Int(*integer);
    number = ParseDouble(input.AsString());
  }
  if (!number || std::isnan(*number)) return fallback;
  const auto truncated = Truncated(*number);
  if (!truncated) return InvalidArgument("", "{} has no integer of 64 bits", FormatFloat(*number));
  return Value::Int(*truncated);
}

Result<Value> ToFloat(Runtime& /*runtime*/, const Value& input, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("float", {"default"}, 0));
  if (input.is(Kind::kUndefined)) return UndefinedError(input);
  if (const auto number = input.ToDouble()) return Value::Float(*number);
  const auto parsed = input.is(Kind::kString) ? ParseDouble(input.AsString()) : std::nullopt;
  return parsed ? Value::Float(*parsed) : bound.Or(0, Value::Float(0));
}

Result<Value> Abs(Runtime& /*runtime*/, const Value& input, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("abs", {}, 0));
  if (input.is(Kind::kFloat)) return Value::Float(std::abs(input.AsFloat()));
  if (const auto integer = input.ToInteger())
    return *integer < 0 ? Apply(UnaryOperator::kMinus, input) : Value::Int(*integer);
  if (input.is(Kind::kUndefined)) return UndefinedError(input);
  return InvalidArgument("", "bad operand type for abs(): '{}'", input.TypeName());
}

// Rounds half to even at decimal digit `precision`, exactly, through the decimal text, as Python does.
double RoundDecimal(double value, std::int64_t precision) {
  if (!std::isfinite(value) || precision > 300) return value;
  if (precision < 0) {
    const double unit = std::pow(10.0, static_cast<double>(-precision));
    return std::nearbyint(value / unit) * unit;
  }
  return std::strtod(fmt::format("{:.{}f}", value, precision).c_str(), nullptr);
}

Result<Value> Round(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("round", {"precision", "method"}, 0));
  ROOST_ASSIGN_OR_RETURN(const std::int64_t precision, bound.Int(0, 0));
  ROOST_ASSIGN_OR_RETURN(const std::string method, bound.String(1, "common"));
  if (input.is(Kind::kUndefined)) return UndefinedError(input);
  const auto number = input.ToDouble();
  if (!number) return InvalidArgument("", "round() needs a number, not '{}'", input.TypeName());
  if (method == "common") {
    if (input.is(Kind::kFloat)) return Value::Float(RoundDecimal(*number, precision));
    if (precision >= 0) return Value::Int(*input.ToInteger());
    return Value::Int(static_cast<std::int64_t>(RoundDecimal(*number, precision)));
  }
  if (method != "ceil" && method != "floor")
    return InvalidArgument("", "round(): method must be common, ceil or floor");
  const Value ten = Value::Int(10);
  ROOST_ASSIGN_OR_RETURN(const Value unit, Apply(BinaryOperator::kPower, ten, Value::Int(precision), runtime));
  ROOST_ASSIGN_OR_RETURN(const Value scaled, Apply(BinaryOperator::kMultiply, input, unit, runtime));
  const double moved = method == "ceil" ? std::ceil(*scaled.ToDouble()) : std::floor(*scaled.ToDouble());
  return Apply(BinaryOperator::kDivide, Value::Float(moved), unit, runtime);
}

Result<std::optional<std::string>> JsonIndent(const Value& indent) {
  if (indent.is(Kind::kString)) {
    if (indent.AsString().size() <= kMaxJsonIndent) return std::optional(indent.AsString());
  } else if (const auto width = indent.ToInteger()) {
    if (*width <= static_cast<std::int64_t>(kMaxJsonIndent)) {
      return std::optional(std::string(static_cast<std::size_t>(*width < 0 ? 0 : *width), ' '));
    }
  } else {
    return InvalidArgument("", "tojson(): indent must be an integer or a string, not '{}'", indent.TypeName());
  }
  return InvalidArgument("", "tojson() indents by at most {} characters", kMaxJsonIndent);
}

Result<void> SetSeparators(const Value& separators, JsonStyle& style) {
  const bool is_pair = separators.is(Kind::kSequence) && separators.AsSequence().items.size() == 2 &&
                       separators.AsSequence().items[0].is(Kind::kString) &&
                       separators.AsSequence().items[1].is(Kind::kString);
  if (!is_pair) return InvalidArgument("", "tojson(): separators must be two strings");
  style.item_separator = separators.AsSequence().items[0].AsString();
  style.key_separator = separators.AsSequence().items[1].AsString();
  return {};
}

// As Hugging Face defines it: json.dumps with ensure_ascii=False, without HTML escapes.
Result<Value> ToJson(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound,
                         arguments.Bind("tojson", {"ensure_ascii", "indent", "separators", "sort_keys"}, 0));
  JsonStyle style;
  if (bound.IsTrue(0)) style.charset = Charset::kAscii;
  if (bound.IsTrue(3)) style.key_order = KeyOrder::kSorted;
  if (bound.HasNotNone(1)) {
    ROOST_ASSIGN_OR_RETURN(style.indent, JsonIndent(bound[1]));
    style.item_separator.assign(1, ',');
  }
  if (bound.HasNotNone(2)) ROOST_RETURN_IF_ERROR(SetSeparators(bound[2], style));
  std::string json;
  ROOST_RETURN_IF_ERROR(AppendJson(input, style, runtime, json));
  return runtime.NewString(std::move(json));
}

Result<Value> Default(Runtime& /*runtime*/, const Value& input, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("default", {"default_value", "boolean"}, 0));
  const bool is_replaced = input.is(Kind::kUndefined) || (bound.IsTrue(1) && !input.IsTrue());
  return is_replaced ? bound.Or(0, Value::String("")) : input;
}

constexpr std::array<NamedFunction<FilterFunction>, 23> kTextFilters = {{
    {"abs", Abs},
    {"capitalize", CapitalizeText},
    {"center", Center},
    {"d", Default},
    {"default", Default},
    {"e", Escape},
    {"escape", Escape},
    {"float", ToFloat},
    {"forceescape", ForceEscape},
    {"format", FormatFilter},
    {"indent", Indent},
    {"int", ToInt},
    {"lower", LowerFilter},
    {"replace", Replace},
    {"round", Round},
    {"safe", Safe},
    {"string", AsString},
    {"title", Title},
    {"tojson", ToJson},
    {"trim", Trim},
    {"truncate", Truncate},
    {"upper", UpperFilter},
    {"wordcount", WordCount},
}};

}  // namespace

FilterFunction FindTextFilter(std::string_view name) { return FindIn(kTextFilters, name); }

FilterFunction FindFilter(std::string_view name) {
  if (const FilterFunction function = FindTextFilter(name)) return function;
  if (const FilterFunction function = FindSequenceFilter(name)) return function;
  return FindSelectionFilter(name);
}

}  // namespace roost::jinja
