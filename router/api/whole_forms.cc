#include "router/api/whole_forms.h"

#include <algorithm>
#include <utility>

#include "common/base/json_writer.h"
#include "router/api/argument_value.h"
#include "router/api/partial_text.h"
#include "router/api/python_calls.h"

namespace roost::router {
namespace {

constexpr std::string_view kCallEnd = "</tool_call>";
constexpr std::string_view kListBegin = "<|tool_call_start|>";
constexpr std::string_view kListEnd = "<|tool_call_end|>";

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && IsSpace(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
  return text;
}

// Removes one line break at each end, which belongs to the family's syntax; others belong to the value.
std::string_view WithoutLineBreaks(std::string_view text) {
  if (!text.empty() && text.front() == '\n') text.remove_prefix(1);
  if (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  return text;
}

}  // namespace

// ---- XML ----

std::vector<std::string_view> XmlForm::Begins() const { return {"<tool_call>"}; }
std::vector<std::string_view> XmlForm::Strays() const { return {kCallEnd}; }

CallHead XmlForm::ReadHead(std::string_view text) {
  const std::size_t end = text.find(kCallEnd, searched_);
  if (end == std::string_view::npos) {
    searched_ = text.size() - std::min(text.size(), kCallEnd.size() - 1);
    return {.verdict = FormVerdict::kMore};
  }
  searched_ = 0;
  const std::string_view body = Trimmed(text.substr(0, end));
  std::optional<ToolCall> call = dialect_ == Dialect::kGlm ? ReadGlm(body) : ReadQwen(body);
  CallHead head{.verdict = FormVerdict::kNone, .size = end + kCallEnd.size()};
  if (!call || !IsFunctionName(call->name)) return head;
  head.verdict = FormVerdict::kFound;
  head.whole.push_back(std::move(*call));
  return head;
}

CallTail XmlForm::ReadTail(std::string_view) { return {.verdict = FormVerdict::kFound}; }

std::string XmlForm::ValueOf(const ToolFunction* function, std::string_view key, std::string_view value) const {
  return ArgumentJson(function == nullptr ? std::string_view() : std::string_view(function->schema), key, value);
}

std::optional<ToolCall> XmlForm::ReadGlm(std::string_view body) const {
  const std::size_t keys = std::min(body.size(), body.find("<arg_key>"));
  ToolCall call{.id = {}, .name = std::string(Trimmed(body.substr(0, keys))), .arguments = {}};
  JsonWriter json;
  json.BeginObject();
  PartialText text(body.substr(keys));
  while (text.position() < body.size() - keys) {
    if (!text.Take("<arg_key>")) return std::nullopt;
    const std::optional<std::string_view> key = text.Until("</arg_key>");
    text.SkipSpace();
    if (!key || !text.Take("<arg_value>")) return std::nullopt;
    const std::optional<std::string_view> value = text.Until("</arg_value>");
    if (!value) return std::nullopt;
    json.Key(*key).Raw(ValueOf(tools_.Find(call.name), *key, *value));
    text.SkipSpace();
  }
  call.arguments = json.EndObject().Take();
  return call;
}

std::optional<ToolCall> XmlForm::ReadQwen(std::string_view body) const {
  PartialText text(body);
  if (!text.Take("<function=")) return std::nullopt;
  const std::optional<std::string_view> name = text.Until(">");
  if (!name) return std::nullopt;
  ToolCall call{.id = {}, .name = std::string(*name), .arguments = {}};
  JsonWriter json;
  json.BeginObject();
  text.SkipSpace();
  while (!text.Take("</function>")) {
    if (!text.Take("<parameter=")) return std::nullopt;
    const std::optional<std::string_view> key = text.Until(">");
    if (!key) return std::nullopt;
    const std::optional<std::string_view> value = text.Until("</parameter>");
    if (!value) return std::nullopt;
    json.Key(*key).Raw(ValueOf(tools_.Find(call.name), *key, WithoutLineBreaks(*value)));
    text.SkipSpace();
  }
  if (text.position() != body.size()) return std::nullopt;
  call.arguments = json.EndObject().Take();
  return call;
}

// ---- Python ----

std::vector<std::string_view> PythonicForm::Begins() const { return {kListBegin, "<|python_start|>"}; }
std::vector<std::string_view> PythonicForm::Strays() const { return {kListEnd, "<|python_end|>"}; }

// Scans up to the bracket that closes the list.
void PythonicForm::Scan(std::string_view text) {
  while (scanned_ < text.size()) {
    const char c = text[scanned_++];
    if (quote_ != '\0') {
      if (c == quote_ && !escaped_) quote_ = '\0';
      escaped_ = c == '\\' && !escaped_;
    } else if (c == '"' || c == '\'') {
      quote_ = c;
    } else if (c == '[' || c == '(' || c == '{') {
      ++depth_;
    } else if ((c == ']' || c == ')' || c == '}') && --depth_ == 0) {
      return;
    }
  }
}

CallHead PythonicForm::ReadHead(std::string_view text) {
  if (scanned_ == 0) {
    PartialText begin(text);
    begin.SkipSpace();
    if (!begin.IsAt('[')) return {.verdict = begin.cut() ? FormVerdict::kMore : FormVerdict::kNone};
  }
  Scan(text);
  if (depth_ > 0 || scanned_ == 0) return {.verdict = FormVerdict::kMore};
  CallHead head{.verdict = FormVerdict::kNone, .size = std::exchange(scanned_, 0)};
  std::optional<std::vector<ToolCall>> calls = ReadPythonCalls(Trimmed(text.substr(0, head.size)));
  if (!calls) return head;
  head.verdict = FormVerdict::kFound;
  head.whole = std::move(*calls);
  return head;
}

CallTail PythonicForm::ReadTail(std::string_view bytes) {
  PartialText text(bytes);
  text.SkipSpace();
  if (text.Take(kListEnd) || text.Take("<|python_end|>")) {
    return {.verdict = FormVerdict::kFound, .size = text.position()};
  }
  if (text.cut()) return {.verdict = FormVerdict::kMore};
  return {.verdict = FormVerdict::kFound};
}

}  // namespace roost::router
