// A list of Python calls with keyword arguments, [f(a=1, b=["x", None]), g()], as calls with JSON arguments.

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/json_writer.h"
#include "common/base/utf8.h"
#include "router/api/answer.h"
#include "router/api/tool_parsers/call_form.h"
#include "router/api/tool_parsers/partial_text.h"

namespace roost::router {
namespace {

constexpr std::string_view kListBegin = "<|tool_call_start|>";
constexpr std::string_view kListEnd = "<|tool_call_end|>";

// [f(a=1, b="x"), g()]
class PythonicForm final : public CallForm {
 public:
  [[nodiscard]] std::vector<std::string_view> Begins() const override;
  [[nodiscard]] std::vector<std::string_view> Strays() const override;
  [[nodiscard]] bool MayBeginBare(char c) const override { return c == '['; }
  [[nodiscard]] BareCall ReadBare(std::string_view text, BarePlace place, const ToolSet& tools) const override;
  void Reset(std::string_view) override { *this = PythonicForm(); }
  [[nodiscard]] bool is_whole() const override { return true; }
  [[nodiscard]] CallHead ReadHead(std::string_view text) override;
  [[nodiscard]] CallTail ReadTail(std::string_view text) override;

 private:
  // Up to the bracket that closes the list; false while it is open. A marker outside of strings ends it too.
  bool Scan(std::string_view text);

  std::size_t begin_ = 0;
  std::size_t scanned_ = 0;
  std::size_t depth_ = 0;
  char quote_ = '\0';
  bool escaped_ = false;
};

constexpr int kMaxPythonDepth = 64;

void AppendCodePoint(std::uint32_t code, std::string& out) {
  const auto byte = [&](std::uint32_t value) { out.push_back(static_cast<char>(value)); };
  if (code < 0x80) return byte(code);
  if (code < 0x800) {
    byte(0xC0 | code >> 6U);
  } else if (code < 0x10000) {
    byte(0xE0 | code >> 12U);
    byte(0x80 | (code >> 6U & 0x3FU));
  } else {
    byte(0xF0 | code >> 18U);
    byte(0x80 | (code >> 12U & 0x3FU));
    byte(0x80 | (code >> 6U & 0x3FU));
  }
  byte(0x80 | (code & 0x3FU));
}

class PythonReader {
 public:
  explicit PythonReader(std::string_view text) : text_(text) {}

  bool Calls(std::vector<ToolCall>& calls) {
    if (!Is('[')) return false;
    while (true) {
      ToolCall call;
      if (!Call(call)) return false;
      calls.push_back(std::move(call));
      if (Is(',')) continue;
      return Is(']') && Rest().empty();
    }
  }

 private:
  std::string_view Rest() {
    while (!text_.empty() && IsSpace(text_.front())) text_.remove_prefix(1);
    return text_;
  }
  bool Is(char c) {
    if (Rest().empty() || text_.front() != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  std::string_view Before(std::string_view ends) {
    const std::string_view word = Rest().substr(0, text_.find_first_of(ends));
    text_.remove_prefix(word.size());
    return word;
  }

  bool Call(ToolCall& call) {
    call.name = std::string(Before("([])=,\"' \n"));
    if (!IsFunctionName(call.name) || !Is('(')) return false;
    call.arguments = '{';
    std::set<std::string_view> keys;
    while (!Is(')')) {
      if (call.arguments.size() > 1) call.arguments += ',';
      const std::string_view key = Before("([])=,\"' \n");
      if (key.empty() || !Is('=') || !keys.insert(key).second) return false;
      AppendJsonString(key, call.arguments);
      call.arguments += ':';
      if (!Value(call.arguments, 0)) return false;
      if (!Is(',') && (Rest().empty() || text_.front() != ')')) return false;
    }
    call.arguments += '}';
    return true;
  }

  bool Value(std::string& out, int depth) {
    if (depth >= kMaxPythonDepth || Rest().empty()) return false;
    const char c = text_.front();
    if (c == '"' || c == '\'') return Text(out);
    if (c == '[') return Items(']', out, depth);
    if (c == '(') return Items(')', out, depth);
    if (c == '{') return Members(out, depth);
    return Word(out);
  }

  bool Items(char close, std::string& out, int depth) {
    text_.remove_prefix(1);
    out += '[';
    for (bool first = true; !Is(close); first = false) {
      if (!first) out += ',';
      if (!Value(out, depth + 1)) return false;
      if (!Is(',') && (Rest().empty() || text_.front() != close)) return false;
    }
    out += ']';
    return true;
  }

  bool Members(std::string& out, int depth) {
    text_.remove_prefix(1);
    out += '{';
    for (bool first = true; !Is('}'); first = false) {
      if (!first) out += ',';
      if (Rest().empty() || (text_.front() != '"' && text_.front() != '\'') || !Text(out)) return false;
      if (!Is(':')) return false;
      out += ':';
      if (!Value(out, depth + 1)) return false;
      if (!Is(',') && (Rest().empty() || text_.front() != '}')) return false;
    }
    out += '}';
    return true;
  }

  // A number, or one of Python's and JSON's names.
  bool Word(std::string& out) {
    const std::string_view word = Before(",)]} \n\t\r:");
    if (word == "True" || word == "False" || word == "None") {
      out += word == "True" ? "true" : word == "False" ? "false" : "null";
      return true;
    }
    const std::optional<std::string> json = CompactJson(word);
    if (!json) return false;
    out += word;
    return true;
  }

  bool Text(std::string& out) {
    const char quote = text_.front();
    text_.remove_prefix(1);
    std::string value;
    while (!text_.empty() && text_.front() != quote) {
      const char c = text_.front();
      text_.remove_prefix(1);
      if (c != '\\') {
        value += c;
      } else if (!Escape(value)) {
        return false;
      }
    }
    if (text_.empty()) return false;
    text_.remove_prefix(1);
    AppendJsonString(value, out);
    return true;
  }

  bool Escape(std::string& value) {
    if (text_.empty()) return false;
    const char c = text_.front();
    text_.remove_prefix(1);
    constexpr std::string_view kLetters = "ntr0bf\\'\"";
    constexpr std::string_view kMeanings("\n\t\r\0\b\f\\'\"", 9);
    if (c == 'u') return Hex(4, value);
    if (c == 'x') return Hex(2, value);
    if (c == 'U') return Hex(8, value);
    const std::size_t letter = kLetters.find(c);
    if (letter != std::string_view::npos) {
      value += kMeanings[letter];
    } else if (c != '\n') {
      value += '\\';
      value += c;
    }
    return true;
  }

  bool Hex(std::size_t digits, std::string& value) {
    std::uint32_t code = 0;
    if (text_.size() < digits) return false;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + digits, code, 16);
    if (error != std::errc() || end != text_.data() + digits || code > 0x10FFFF) return false;
    text_.remove_prefix(digits);
    AppendCodePoint(code, value);
    return true;
  }

  std::string_view text_;
};

// Empty when `text` is anything else, or nests deeper than 64 levels. Linear time.
std::optional<std::vector<ToolCall>> ReadPythonCalls(std::string_view text) {
  std::vector<ToolCall> calls;
  if (!PythonReader(text).Calls(calls)) return std::nullopt;
  return calls;
}

}  // namespace

std::vector<std::string_view> PythonicForm::Begins() const { return {kListBegin, "<|python_start|>"}; }
std::vector<std::string_view> PythonicForm::Strays() const { return {kListEnd, "<|python_end|>"}; }

// [f( at the beginning of an answer.
BareCall PythonicForm::ReadBare(std::string_view bytes, BarePlace place, const ToolSet& tools) const {
  if (place == BarePlace::kLine) return {};
  BareCall bare;
  for (const ToolFunction& function : tools.functions) {
    PartialText text(bytes);
    const bool is_list = text.Take("[");
    text.SkipSpace();
    if (is_list && text.Take(function.name) && text.Take("(")) return {.verdict = FormVerdict::kFound};
    if (text.cut()) bare.verdict = FormVerdict::kMore;
  }
  return bare;
}

bool PythonicForm::Scan(std::string_view text) {
  while (scanned_ < text.size()) {
    const char c = text[scanned_++];
    if (quote_ != '\0') {
      if (c == quote_ && !escaped_) quote_ = '\0';
      escaped_ = c == '\\' && !escaped_;
    } else if (c == '"' || c == '\'') {
      quote_ = c;
    } else if (c == '[' || c == '(' || c == '{') {
      ++depth_;
    } else if (c == '<') {
      --scanned_;
      return true;
    } else if ((c == ']' || c == ')' || c == '}') && --depth_ == 0) {
      return true;
    }
  }
  return false;
}

CallHead PythonicForm::ReadHead(std::string_view text) {
  if (scanned_ == 0) {
    PartialText begin(text);
    begin.SkipAll(kListBegin);
    if (!begin.IsAt('[')) return {.verdict = begin.cut() ? FormVerdict::kMore : FormVerdict::kNone};
    scanned_ = begin_ = begin.position();
  }
  if (!Scan(text)) return {.verdict = FormVerdict::kMore};
  CallHead head{.verdict = FormVerdict::kNone, .size = std::exchange(scanned_, 0)};
  std::optional<std::vector<ToolCall>> calls = ReadPythonCalls(text.substr(begin_, head.size - begin_));
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

std::unique_ptr<CallForm> MakePythonicForm() { return std::make_unique<PythonicForm>(); }

}  // namespace roost::router
