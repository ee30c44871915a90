#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include "common/base/utf8.h"
#include "common/text/jinja/text.h"

namespace roost::jinja {
namespace {

constexpr int kMaxJsonWriteDepth = 2 * kMaxNesting;

void AppendAsciiEscape(char32_t c, std::string& out) {
  auto number = static_cast<std::uint32_t>(c);
  if (number >= 0x10000) {
    number -= 0x10000;
    fmt::format_to(std::back_inserter(out), "\\u{:04x}", 0xD800U + (number >> 10U));
    number = 0xDC00U + (number & 0x3FFU);
  }
  fmt::format_to(std::back_inserter(out), "\\u{:04x}", number);
}

// Like Python, escapes quotes, backslashes and control characters, the five usual ones by letter; not DEL.
void AppendEscaped(char32_t c, std::string_view bytes, Charset charset, std::string& out) {
  switch (c) {
    case '"': out += "\\\""; return;
    case '\\': out += "\\\\"; return;
    case '\n': out += "\\n"; return;
    case '\r': out += "\\r"; return;
    case '\t': out += "\\t"; return;
    case '\f': out += "\\f"; return;
    case '\b': out += "\\b"; return;
    default: break;
  }
  if (c < 0x20 || (c > 0x7E && charset == Charset::kAscii)) return AppendAsciiEscape(c, out);
  out += bytes;
}

std::string JsonFloat(const Value& number) {
  const double value = number.AsFloat();
  std::string text = number.FloatText();
  if (std::isnan(value)) return "NaN";
  if (text == "inf" || text == "-inf") return value < 0 ? "-Infinity" : "Infinity";
  return text;
}

class JsonTextWriter {
 public:
  JsonTextWriter(const JsonStyle& style, Runtime& runtime, std::string& out)
      : style_(style), runtime_(runtime), out_(out) {}

  Result<void> Write(const Value& value) {
    ROOST_RETURN_IF_ERROR(runtime_.SpendPerCharacter(value.is(Kind::kString) ? value.AsString() : std::string_view()));
    ROOST_RETURN_IF_ERROR(runtime_.AllowText(out_.size()));
    switch (value.kind()) {
      case Kind::kString: WriteString(value.AsString()); return {};
      case Kind::kNone:
      case Kind::kBool:
      case Kind::kInt:
      case Kind::kFloat: out_ += ScalarText(value); return {};
      case Kind::kSequence: return WriteSequence(value);
      case Kind::kDict: return WriteDict(value.AsDict());
      case Kind::kUndefined:
      case Kind::kObject: return NotSerializable(value);
    }
    return {};
  }

 private:
  static Error NotSerializable(const Value& value) {
    return InvalidArgument("", "Object of type {} is not JSON serializable", value.TypeName());
  }

  // The text of a scalar, as a key or as a value: None, bools and numbers.
  static std::string ScalarText(const Value& value) {
    if (value.is(Kind::kNone)) return "null";
    if (value.is(Kind::kBool)) return value.AsBool() ? "true" : "false";
    if (value.is(Kind::kInt)) return std::to_string(value.AsInt());
    return JsonFloat(value);
  }

  void WriteString(std::string_view text) {
    out_ += '"';
    for (std::size_t i = 0; i < text.size();) {
      const CodePoint point = DecodeUtf8(text.substr(i)).value_or(CodePoint{0xFFFD, 1});
      AppendEscaped(point.value, text.substr(i, point.length), style_.charset, out_);
      i += point.length;
    }
    out_ += '"';
  }

  void NewLine() {
    if (!style_.indent) return;
    out_ += '\n';
    for (int level = 0; level < depth_; ++level) out_ += *style_.indent;
  }

  Result<void> Open(char bracket) {
    if (++depth_ > kMaxJsonWriteDepth) return InvalidArgument("", "a container that holds itself can not be written");
    out_ += bracket;
    return {};
  }

  void Close(char bracket, bool is_empty) {
    --depth_;
    if (!is_empty) NewLine();
    out_ += bracket;
  }

  Result<void> WriteSequence(const Value& value) {
    const Sequence& sequence = value.AsSequence();
    if (sequence.kind != SequenceKind::kList && sequence.kind != SequenceKind::kTuple) return NotSerializable(value);
    ROOST_RETURN_IF_ERROR(Open('['));
    for (std::size_t i = 0; i < sequence.items.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      NewLine();
      ROOST_RETURN_IF_ERROR(Write(sequence.items[i]));
    }
    Close(']', sequence.items.empty());
    return {};
  }

  Result<std::vector<const Dict::Entry*>> Ordered(const Dict& dict) {
    std::vector<const Dict::Entry*> entries;
    for (const Dict::Entry& entry : dict.entries()) entries.push_back(&entry);
    if (style_.key_order == KeyOrder::kInsertion) return entries;
    for (const Dict::Entry* entry : entries) {
      if (!entry->key.is(Kind::kString)) return InvalidArgument("", "only string keys can be sorted for JSON");
    }
    std::sort(entries.begin(), entries.end(),
              [](const auto* a, const auto* b) { return a->key.AsString() < b->key.AsString(); });
    return entries;
  }

  Result<void> WriteDict(const Dict& dict) {
    ROOST_ASSIGN_OR_RETURN(const std::vector<const Dict::Entry*> entries, Ordered(dict));
    ROOST_RETURN_IF_ERROR(Open('{'));
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      NewLine();
      const Value& key = entries[i]->key;
      ROOST_RETURN_IF_ERROR(runtime_.SpendPerCharacter(key.is(Kind::kString) ? key.AsString() : std::string_view()));
      WriteString(key.is(Kind::kString) ? key.AsString() : ScalarText(key));
      out_ += style_.key_separator;
      ROOST_RETURN_IF_ERROR(Write(entries[i]->value));
    }
    Close('}', entries.empty());
    return {};
  }

  const JsonStyle& style_;
  Runtime& runtime_;
  std::string& out_;
  int depth_ = 0;
};

}  // namespace

Result<void> AppendJson(const Value& value, const JsonStyle& style, Runtime& runtime, std::string& out) {
  return JsonTextWriter(style, runtime, out).Write(value);
}

}  // namespace roost::jinja
