#include "common/text/jinja/percent_format.h"

#include <fmt/format.h>
#include <fmt/printf.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "common/base/utf8.h"
#include "common/text/jinja/operators.h"
#include "common/text/jinja/python_strings.h"
#include "common/text/jinja/text.h"

namespace roost::jinja {
namespace {

// Limits widths and precisions: no prompt pads a number to more characters.
constexpr int kMaxFieldWidth = 1'000;

// One conversion: %[(name)][flags][width][.precision]type
struct Conversion {
  std::optional<std::string> name;
  std::string flags;
  int width = 0;
  std::optional<int> precision;
  char type = 's';
};

class PercentFormatter {
 public:
  PercentFormatter(const Value& format, const Value& values, Runtime& runtime)
      : source_(format), format_(format.AsString()), values_(values), runtime_(runtime) {}

  Result<TracedText> Run() {
    while (place_ < format_.size()) {
      const char c = format_[place_++];
      if (c != '%') {
        out_.AppendPart(source_, format_.substr(place_ - 1, 1));
        continue;
      }
      ROOST_ASSIGN_OR_RETURN(const Conversion conversion, Parse());
      ROOST_RETURN_IF_ERROR(AppendConverted(conversion));
      ROOST_RETURN_IF_ERROR(runtime_.AllowText(out_.size()));
    }
    if (HasUnused()) return InvalidArgument("", "not all arguments converted during string formatting");
    return std::move(out_);
  }

 private:
  [[nodiscard]] bool IsTuple() const {
    return values_.is(Kind::kSequence) && values_.AsSequence().kind == SequenceKind::kTuple;
  }
  [[nodiscard]] bool HasUnused() const {
    if (IsTuple()) return used_ < values_.AsSequence().items.size();
    return used_ == 0 && !values_.is(Kind::kDict);
  }

  [[nodiscard]] char Peek() const { return place_ < format_.size() ? format_[place_] : '\0'; }

  Result<std::optional<int>> ParseNumber() {
    if (Peek() == '*') return InvalidArgument("", "a width of * is not supported in a % format");
    std::optional<int> number;
    while (Peek() >= '0' && Peek() <= '9') {
      number = number.value_or(0) * 10 + (format_[place_++] - '0');
      if (*number > kMaxFieldWidth) return InvalidArgument("", "a width in a % format is over {}", kMaxFieldWidth);
    }
    return number;
  }

  Result<Conversion> Parse() {
    Conversion conversion;
    if (Peek() == '(') {
      const std::size_t close = format_.find(')', place_);
      if (close == std::string_view::npos) return InvalidArgument("", "incomplete format key");
      conversion.name = std::string(format_.substr(place_ + 1, close - place_ - 1));
      place_ = close + 1;
    }
    while (Peek() != '\0' && std::string_view("-+ #0").find(Peek()) != std::string_view::npos) {
      conversion.flags += format_[place_++];
    }
    ROOST_ASSIGN_OR_RETURN(const std::optional<int> width, ParseNumber());
    conversion.width = width.value_or(0);
    if (Peek() == '.') {
      ++place_;
      ROOST_ASSIGN_OR_RETURN(const std::optional<int> precision, ParseNumber());
      conversion.precision = precision.value_or(0);
    }
    if (place_ >= format_.size()) return InvalidArgument("", "incomplete format");
    conversion.type = format_[place_++];
    return conversion;
  }

  Result<Value> NextValue(const Conversion& conversion) {
    if (conversion.name) {
      if (!values_.is(Kind::kDict)) return InvalidArgument("", "format requires a mapping");
      const Value* found = values_.AsDict().Find(std::string_view(*conversion.name));
      if (found == nullptr) return InvalidArgument("", "the format's key '{}' is missing", *conversion.name);
      used_ = 1;
      return *found;
    }
    const std::size_t count = IsTuple() ? values_.AsSequence().items.size() : 1;
    if (used_ >= count) return InvalidArgument("", "not enough arguments for format string");
    const std::size_t place = used_++;
    return IsTuple() ? values_.AsSequence().items[place] : values_;
  }

  Result<void> AppendConverted(const Conversion& conversion) {
    if (conversion.type == '%') {
      out_.AppendPart(source_, format_.substr(place_ - 1, 1));
      return {};
    }
    ROOST_ASSIGN_OR_RETURN(const Value value, NextValue(conversion));
    switch (conversion.type) {
      case 's':
      case 'r': return AppendAsText(conversion, value);
      case 'c': return AppendCharacter(conversion, value);
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o': return AppendInteger(conversion, value);
      case 'f':
      case 'F':
      case 'e':
      case 'E':
      case 'g':
      case 'G': return AppendFloat(conversion, value);
      default: return InvalidArgument("", "unsupported format character '{}'", conversion.type);
    }
  }

  void AppendPadded(const Conversion& conversion, std::string_view text) {
    const std::size_t length = CountCodePoints(text);
    const auto width = static_cast<std::size_t>(conversion.width);
    const std::string padding(width > length ? width - length : 0, ' ');
    const bool is_left = conversion.flags.find('-') != std::string::npos;
    if (!is_left) out_.AppendGiven(padding);
    out_.AppendGiven(text);
    if (is_left) out_.AppendGiven(padding);
  }

  Result<void> AppendAsText(const Conversion& conversion, const Value& value) {
    if (conversion.type == 's' && conversion.width == 0 && !conversion.precision) {
      return AppendText(value, runtime_, out_);
    }
    std::string text;
    ROOST_RETURN_IF_ERROR(conversion.type == 's' ? AppendText(value, runtime_, text)
                                                 : AppendRepr(value, runtime_, text));
    if (conversion.precision) text.resize(ByteOffset(text, static_cast<std::size_t>(*conversion.precision)));
    AppendPadded(conversion, text);
    return {};
  }

  Result<void> AppendCharacter(const Conversion& conversion, const Value& value) {
    if (value.is(Kind::kString) && CountCodePoints(value.AsString()) == 1) {
      AppendPadded(conversion, value.AsString());
      return {};
    }
    const std::int64_t code = value.ToInteger().value_or(-1);
    if (code < 0 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
      return InvalidArgument("", "%c requires an integer that is a code point, or one character");
    }
    std::string text;
    AppendUtf8(static_cast<char32_t>(code), text);
    AppendPadded(conversion, text);
    return {};
  }

  // The conversion in C's notation; Python formats numbers the same way.
  static std::string Specification(const Conversion& conversion, char type) {
    std::string text = "%" + conversion.flags;
    if (conversion.width > 0) text += std::to_string(conversion.width);
    if (conversion.precision) text += "." + std::to_string(*conversion.precision);
    return text + type;
  }

  Result<void> AppendInteger(const Conversion& conversion, const Value& value) {
    std::optional<std::int64_t> integer = value.ToInteger();
    const bool is_decimal = conversion.type == 'd' || conversion.type == 'i' || conversion.type == 'u';
    if (!integer && is_decimal && value.is(Kind::kFloat) && std::abs(value.AsFloat()) < 9.0e18) {
      integer = static_cast<std::int64_t>(value.AsFloat());
    }
    if (value.is(Kind::kUndefined)) return UndefinedError(value);
    if (!integer) {
      return InvalidArgument("", "%{} format: a number is required, not {}", conversion.type, value.TypeName());
    }
    if (!is_decimal && *integer < 0)
      return InvalidArgument("", "%{} of a negative number is not supported", conversion.type);
    out_.AppendWritten(fmt::sprintf(Specification(conversion, is_decimal ? 'd' : conversion.type), *integer));
    return {};
  }

  Result<void> AppendFloat(const Conversion& conversion, const Value& value) {
    if (value.is(Kind::kUndefined)) return UndefinedError(value);
    const auto number = value.ToDouble();
    if (!number) return InvalidArgument("", "must be real number, not {}", value.TypeName());
    out_.AppendWritten(fmt::sprintf(Specification(conversion, conversion.type), *number));
    return {};
  }

  const Value& source_;
  std::string_view format_;  // the bytes of the format
  const Value& values_;
  Runtime& runtime_;
  std::size_t place_ = 0;
  std::size_t used_ = 0;
  TracedText out_;
};

// The value of the field `name` in str.format; `next` counts the fields without a name.
Result<Value> FieldValue(std::string_view name, const Arguments& arguments, std::size_t& next) {
  if (name.find_first_of("!:.[") != std::string_view::npos) {
    return InvalidArgument("", "the format field '{}' is more than a name or number", name);
  }
  const bool is_number = !name.empty() && name.size() < 4 && name.find_first_not_of("0123456789") == name.npos;
  if (name.empty() || is_number) {
    const std::size_t place = is_number ? static_cast<std::size_t>(std::stoul(std::string(name))) : next++;
    if (place < arguments.positional.size()) return arguments.positional[place];
    return InvalidArgument("", "Replacement index {} out of range for positional args tuple", place);
  }
  const Value* found = arguments.FindNamed(name);
  if (found == nullptr) return InvalidArgument("", "the format field '{}' was not given", name);
  return *found;
}

}  // namespace

Result<Value> PercentFormat(const Value& format, const Value& values, Runtime& runtime) {
  ROOST_RETURN_IF_ERROR(runtime.SpendPerCharacter(format.AsString()));
  ROOST_ASSIGN_OR_RETURN(TracedText text, PercentFormatter(format, values, runtime).Run());
  return runtime.NewString(std::move(text), format.IsMarkup() ? Markup::kYes : Markup::kNo);
}

Result<Value> BraceFormat(const Value& format, const Arguments& arguments, Runtime& runtime) {
  const std::string_view text = format.AsString();
  ROOST_RETURN_IF_ERROR(runtime.SpendPerCharacter(text));
  TracedText out;
  std::size_t next = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c != '{' && c != '}') {
      out.AppendPart(format, text.substr(i, 1));
      continue;
    }
    if (i + 1 < text.size() && text[i + 1] == c) {
      out.AppendPart(format, text.substr(i, 1));
      ++i;
      continue;
    }
    if (c == '}') return InvalidArgument("", "Single '}}' encountered in format string");
    const std::size_t close = text.find_first_of("{}", i + 1);
    if (close == std::string_view::npos || text[close] == '{') {
      return InvalidArgument("", "a field of the format string does not end");
    }
    ROOST_ASSIGN_OR_RETURN(const Value value, FieldValue(text.substr(i + 1, close - i - 1), arguments, next));
    ROOST_RETURN_IF_ERROR(AppendText(value, runtime, out));
    ROOST_RETURN_IF_ERROR(runtime.AllowText(out.size()));
    i = close;
  }
  return runtime.NewString(std::move(out), format.IsMarkup() ? Markup::kYes : Markup::kNo);
}

}  // namespace roost::jinja
