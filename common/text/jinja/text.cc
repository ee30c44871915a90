#include "common/text/jinja/text.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iterator>

#include "common/base/utf8.h"
#include "common/text/jinja/python_strings.h"

namespace roost::jinja {
namespace {

// Containers are at most kMaxNesting deep when made, but a list can be put into itself later. A greater depth shows
// such a cycle.
constexpr int kMaxWriteDepth = 2 * kMaxNesting;

class ReprWriter {
 public:
  ReprWriter(Runtime& runtime, std::string& out) : runtime_(runtime), out_(out) {}

  Result<void> Write(const Value& value) {
    ROOST_RETURN_IF_ERROR(runtime_.SpendPerCharacter(value.is(Kind::kString) ? value.AsString() : std::string_view()));
    ROOST_RETURN_IF_ERROR(runtime_.AllowText(out_.size()));
    switch (value.kind()) {
      case Kind::kUndefined: out_ += "Undefined"; return {};
      case Kind::kNone: out_ += "None"; return {};
      case Kind::kBool: out_ += value.AsBool() ? "True" : "False"; return {};
      case Kind::kInt: fmt::format_to(std::back_inserter(out_), "{}", value.AsInt()); return {};
      case Kind::kFloat: out_ += value.FloatText(); return {};
      case Kind::kString: WriteString(value); return {};
      case Kind::kSequence: return Nested([&] { return WriteSequence(value.AsSequence()); });
      case Kind::kDict: return Nested([&] { return WriteDict(value.AsDict()); });
      case Kind::kObject: fmt::format_to(std::back_inserter(out_), "<{}>", value.TypeName()); return {};
    }
    return {};
  }

 private:
  template <typename Function>
  Result<void> Nested(Function function) {
    if (++depth_ > kMaxWriteDepth) return InvalidArgument("", "a container that holds itself can not be written");
    Result<void> result = function();
    --depth_;
    return result;
  }

  void WriteString(const Value& value) {
    if (value.IsMarkup()) out_ += "Markup(";
    AppendQuoted(value.AsString(), out_);
    if (value.IsMarkup()) out_ += ')';
  }

  Result<void> WriteItems(const std::vector<Value>& items, std::string_view open, std::string_view close) {
    out_ += open;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += ", ";
      ROOST_RETURN_IF_ERROR(Write(items[i]));
    }
    out_ += close;
    return {};
  }

  Result<void> WriteSequence(const Sequence& sequence) {
    switch (sequence.kind) {
      case SequenceKind::kList: return WriteItems(sequence.items, "[", "]");
      case SequenceKind::kTuple: return WriteItems(sequence.items, "(", sequence.items.size() == 1 ? ",)" : ")");
      case SequenceKind::kKeys: return WriteItems(sequence.items, "dict_keys([", "])");
      case SequenceKind::kValues: return WriteItems(sequence.items, "dict_values([", "])");
      case SequenceKind::kItems: return WriteItems(sequence.items, "dict_items([", "])");
      case SequenceKind::kGenerator: out_ += "<generator object>"; return {};
      case SequenceKind::kRange: WriteRange(sequence.items); return {};
    }
    return {};
  }

  // Python writes the bounds that the range was made with; this writes the tightest bounds with the same items.
  void WriteRange(const std::vector<Value>& items) {
    if (items.empty()) {
      out_ += "range(0, 0)";
      return;
    }
    const std::int64_t step = items.size() > 1 ? items[1].AsInt() - items[0].AsInt() : 1;
    fmt::format_to(std::back_inserter(out_), "range({}, {}", items.front().AsInt(), items.back().AsInt() + step);
    if (step != 1) fmt::format_to(std::back_inserter(out_), ", {}", step);
    out_ += ')';
  }

  Result<void> WriteDict(const Dict& dict) {
    out_ += '{';
    bool is_first = true;
    for (const Dict::Entry& entry : dict.entries()) {
      if (!is_first) out_ += ", ";
      is_first = false;
      ROOST_RETURN_IF_ERROR(Write(entry.key));
      out_ += ": ";
      ROOST_RETURN_IF_ERROR(Write(entry.value));
    }
    out_ += '}';
    return {};
  }

  Runtime& runtime_;
  std::string& out_;
  int depth_ = 0;
};

void AppendEscapedCodePoint(char32_t c, std::string& out) {
  const auto number = static_cast<std::uint32_t>(c);
  if (c < 0x100) {
    fmt::format_to(std::back_inserter(out), "\\x{:02x}", number);
  } else if (c < 0x10000) {
    fmt::format_to(std::back_inserter(out), "\\u{:04x}", number);
  } else {
    fmt::format_to(std::back_inserter(out), "\\U{:08x}", number);
  }
}

// "1.5e+16" from the digits "15" and exponent 16; like Python, with at least two digits of exponent.
std::string WithExponent(std::string_view digits, int exponent) {
  std::string out(digits.substr(0, 1));
  if (digits.size() > 1) out.append(".").append(digits.substr(1));
  return out + fmt::format("e{}{:02d}", exponent < 0 ? '-' : '+', std::abs(exponent));
}

std::string WithoutExponent(std::string_view digits, int exponent) {
  const auto count = static_cast<int>(digits.size());
  if (exponent < 0) return "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + std::string(digits);
  if (exponent >= count - 1) {
    return std::string(digits) + std::string(static_cast<std::size_t>(exponent - count + 1), '0') + ".0";
  }
  const auto point = static_cast<std::size_t>(exponent) + 1;
  return std::string(digits.substr(0, point)) + "." + std::string(digits.substr(point));
}

}  // namespace

std::string FormatFloat(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 64> buffer{};
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), std::abs(value), std::chars_format::scientific).ptr;
  const std::string_view scientific(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
  const std::size_t e = scientific.find('e');
  std::string digits(scientific.substr(0, e));
  if (digits.size() > 1) digits.erase(1, 1);  // the point
  const int exponent = std::atoi(std::string(scientific.substr(e + 1)).c_str());
  const bool is_plain = exponent >= -4 && exponent < 16;
  return (std::signbit(value) ? "-" : "") +
         (is_plain ? WithoutExponent(digits, exponent) : WithExponent(digits, exponent));
}

void AppendQuoted(std::string_view text, std::string& out) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  out += quote;
  for (std::size_t i = 0; i < text.size();) {
    const CodePoint point = DecodeUtf8(text.substr(i)).value_or(CodePoint{0xFFFD, 1});
    const char32_t c = point.value;
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\\' || c == static_cast<char32_t>(quote)) {
      out += '\\';
      out += static_cast<char>(c);
    } else if (IsPrintable(c)) {
      out += text.substr(i, point.length);
    } else {
      AppendEscapedCodePoint(c, out);
    }
    i += point.length;
  }
  out += quote;
}

Result<void> AppendText(const Value& value, Runtime& runtime, std::string& out) {
  if (value.is(Kind::kString)) {
    ROOST_RETURN_IF_ERROR(runtime.SpendOnCopy(value));
    out += value.AsString();
    return {};
  }
  if (value.is(Kind::kUndefined)) return {};
  return AppendRepr(value, runtime, out);
}

Result<void> AppendText(const Value& value, Runtime& runtime, TracedText& out) {
  if (value.is(Kind::kString)) {
    ROOST_RETURN_IF_ERROR(runtime.SpendOnCopy(value));
    out.Append(value);
    return {};
  }
  if (value.is(Kind::kUndefined)) return {};
  const std::size_t begin = out.size();
  ROOST_RETURN_IF_ERROR(AppendRepr(value, runtime, out.bytes));
  if (value.IsAllWritten()) out.MarkWritten(begin);
  return {};
}

Result<void> AppendRepr(const Value& value, Runtime& runtime, std::string& out) {
  return ReprWriter(runtime, out).Write(value);
}

Result<std::string> ToText(const Value& value, Runtime& runtime) {
  std::string out;
  ROOST_RETURN_IF_ERROR(AppendText(value, runtime, out));
  return out;
}

}  // namespace roost::jinja
