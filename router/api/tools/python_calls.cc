#include "router/api/tools/python_calls.h"

#include <charconv>
#include <string>
#include <utility>

#include "common/base/json_writer.h"
#include "common/base/utf8.h"
#include "router/api/tools/call_form.h"
#include "router/api/tools/partial_text.h"

namespace roost::router {
namespace {

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
    call.arguments = "{";
    while (!Is(')')) {
      if (call.arguments.size() > 1) call.arguments += ',';
      const std::string_view key = Before("([])=,\"' \n");
      if (key.empty() || !Is('=')) return false;
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

}  // namespace

std::optional<std::vector<ToolCall>> ReadPythonCalls(std::string_view text) {
  std::vector<ToolCall> calls;
  if (!PythonReader(text).Calls(calls)) return std::nullopt;
  return calls;
}

}  // namespace roost::router
