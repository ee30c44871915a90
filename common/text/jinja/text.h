// Values as Python writes them: str(), repr(), and json.dumps with ensure_ascii=False, which chat templates' tojson
// uses. Each item written costs a step, and no text grows beyond the runtime's limit.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/text/jinja/runtime.h"
#include "common/text/jinja/value.h"

namespace roost::jinja {

// repr(float): the shortest digits that read back as the same value, with an exponent below 1e-4 and from 1e16.
[[nodiscard]] std::string FormatFloat(double value);

// repr(str): single quotes unless the text has single quotes and no double quotes; unprintable code points escaped.
void AppendQuoted(std::string_view text, std::string& out);

// str(value), for output. Numbers and None count as written; other values that are not strings count as given.
Result<void> AppendText(const Value& value, Runtime& runtime, std::string& out);
Result<void> AppendText(const Value& value, Runtime& runtime, TracedText& out);
Result<void> AppendRepr(const Value& value, Runtime& runtime, std::string& out);
Result<std::string> ToText(const Value& value, Runtime& runtime);

enum class KeyOrder { kInsertion, kSorted };
enum class Charset { kUtf8, kAscii };

struct JsonStyle {
  std::optional<std::string> indent;  // of one level; without it, all on one line
  std::string item_separator = ", ";  // json.dumps uses "," when there is an indent
  std::string key_separator = ": ";
  KeyOrder key_order = KeyOrder::kInsertion;
  Charset charset = Charset::kUtf8;
};

// Values that JSON does not have (undefined, macros…) are an error.
Result<void> AppendJson(const Value& value, const JsonStyle& style, Runtime& runtime, std::string& out);

}  // namespace roost::jinja
