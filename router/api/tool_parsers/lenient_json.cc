#include "router/api/tool_parsers/lenient_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/json/kept_numbers.h"
#include "router/api/tool_parsers/partial_text.h"

namespace roost::router {
namespace {

constexpr std::size_t kMaxLenientDepth = 1024;

bool IsWordByte(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '+' || c == '-' || c == '.';
}

bool IsHexDigit(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

// The JSON of a word; empty if it has none.
std::string_view JsonOfWord(std::string_view word) {
  if (word == "True") return "true";
  if (word == "False") return "false";
  if (word == "None") return "null";
  return word == "true" || word == "false" || word == "null" || json::IsNumber(word) ? word : std::string_view();
}

}  // namespace

std::size_t LenientJson::Read(std::string_view text, std::string& out) {
  std::size_t at = 0;
  while (at < text.size() && state_ != State::kEnded) {
    if (state_ == State::kString) {
      at += ReadString(text.substr(at), out);
    } else if (Step(text[at], out)) {
      ++at;
    }
  }
  return at;
}

void LenientJson::Finish(std::string& out) {
  if (state_ == State::kWord && open_.empty()) EndWord(out);
  if (state_ != State::kWord || is_python_) out += held_;
  held_.clear();
}

bool LenientJson::Step(char c, std::string& out) {
  switch (state_) {
    case State::kPlain: return Plain(c, out);
    case State::kEscape: return Escape(c, out);
    case State::kHex: return Hex(c, out);
    case State::kRaw: return Raw(c, out);
    case State::kWord:
      if (IsWordByte(c)) {
        held_ += c;
        if (!is_python_) out += c;
        return true;
      }
      EndWord(out);
      return false;
    case State::kString:
    case State::kEnded: break;
  }
  return false;
}

// ---- between strings and words ----

bool LenientJson::Plain(char c, std::string& out) {
  if (IsSpace(c)) {
    out += c;
    return true;
  }
  if (c == '{' || c == '[') return Open(c, out);
  if (c == '}' || c == ']') return Close(c, out);
  if ((c == '"' || c == '\'') && (wants_value() || wants_key())) {
    quote_ = c;
    state_ = State::kString;
    out += '"';
    return true;
  }
  if (wants_value() && IsWordByte(c)) {
    state_ = State::kWord;
    is_python_ = c == 'T' || c == 'F' || c == 'N';
    return false;
  }
  return Mark(c, out);
}

bool LenientJson::Mark(char c, std::string& out) {
  if (c == ':' && next_ == Next::kColon) {
    next_ = Next::kValue;
  } else if (c == ',' && next_ == Next::kCommaOrEnd) {
    next_ = open_.back() == '{' ? Next::kKey : Next::kValue;
  } else {
    Break();
    return false;
  }
  out += c;
  return true;
}

bool LenientJson::Open(char c, std::string& out) {
  if (!wants_value() || open_.size() >= kMaxLenientDepth) {
    Break();
    return false;
  }
  open_.push_back(c);
  next_ = c == '{' ? Next::kKeyOrEnd : Next::kValueOrEnd;
  out += c;
  return true;
}

bool LenientJson::Close(char c, std::string& out) {
  const bool may_end = next_ == Next::kKeyOrEnd || next_ == Next::kValueOrEnd || next_ == Next::kCommaOrEnd;
  if (!may_end || open_.empty() || open_.back() != (c == '}' ? '{' : '[')) {
    Break();
    return false;
  }
  open_.pop_back();
  out += c;
  EndValue();
  return true;
}

void LenientJson::EndValue() {
  next_ = Next::kCommaOrEnd;
  state_ = open_.empty() ? State::kEnded : State::kPlain;
}

void LenientJson::EndWord(std::string& out) {
  const std::string word = std::exchange(held_, {});
  const std::string_view json = JsonOfWord(word);
  if (is_python_) out += json.empty() ? word : json;
  json.empty() ? Break() : EndValue();
}

// ---- strings ----

std::size_t LenientJson::ReadString(std::string_view text, std::string& out) {
  std::size_t at = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == quote_) {
      out += '"';
      if (wants_key()) {
        next_ = Next::kColon;
        state_ = State::kPlain;
      } else {
        EndValue();
      }
      return at + 1;
    }
    if (c == '\\') {
      held_ = c;
      state_ = State::kEscape;
      return at + 1;
    }
    ++at;
    if (c == '"') {
      out += "\\\"";
    } else if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) < ' ') {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return at;
}

// Behind a backslash. One that begins no escape stands for itself.
bool LenientJson::Escape(char c, std::string& out) {
  state_ = State::kString;
  if (c == 'u' || (c == 'x' && quote_ == '\'')) {
    held_ += c;
    hex_digits_ = c == 'u' ? 4 : 2;
    state_ = State::kHex;
    return true;
  }
  held_.clear();
  if (c == '\'') {
    out += c;
    return true;
  }
  const bool is_known = std::string_view("\"\\/bfnrt").find(c) != std::string_view::npos;
  out += is_known ? "\\" : "\\\\";
  if (is_known) out += c;
  return is_known;
}

bool LenientJson::Hex(char c, std::string& out) {
  if (IsHexDigit(c)) {
    held_ += c;
    if (--hex_digits_ > 0) return true;
    if (held_[1] == 'x') held_.replace(1, 1, "u00");
    out += std::exchange(held_, {});
    state_ = State::kString;
    return true;
  }
  out += '\\';
  out += std::exchange(held_, {});
  state_ = State::kString;
  return false;
}

// ---- what is broken ----

void LenientJson::Break() {
  broken_ = true;
  state_ = open_.empty() ? State::kEnded : State::kRaw;
  quote_ = '\0';
}

bool LenientJson::Raw(char c, std::string& out) {
  if (quote_ != '\0') {
    if (c == quote_ && !escaped_) quote_ = '\0';
    escaped_ = c == '\\' && !escaped_;
    out += c;
    return true;
  }
  const bool closes = c == '}' || c == ']';
  if (c == '<' || (closes && open_.back() != (c == '}' ? '{' : '['))) {
    state_ = State::kEnded;
    return false;
  }
  if (c == '"') quote_ = c;
  if (closes) open_.pop_back();
  if (c == '{' || c == '[') {
    open_.push_back(c);
    if (open_.size() > 2 * kMaxLenientDepth) state_ = State::kEnded;
  }
  out += c;
  if (open_.empty()) state_ = State::kEnded;
  return true;
}

std::optional<std::string> JsonOfLenient(std::string_view text) {
  LenientJson reader;
  std::string json;
  text = Trimmed(text);
  const std::size_t size = reader.Read(text, json);
  reader.Finish(json);
  if (size != text.size() || !reader.is_whole()) return std::nullopt;
  return json;
}

std::optional<std::string> ArgumentsOf(std::string value) {
  const std::string_view trimmed = Trimmed(value);
  if (trimmed.starts_with('{')) return IsJsonObject(trimmed) ? std::optional(std::move(value)) : std::nullopt;
  if (trimmed == "null") return "{}";
  if (!trimmed.starts_with('"')) return std::nullopt;
  const json::Document document(trimmed);
  if (!document.ok()) return std::nullopt;
  const std::string_view text = Trimmed(std::string_view(document.root()));
  if (text.empty()) return "{}";
  std::optional<std::string> object = text.starts_with('{') ? JsonOfLenient(text) : std::nullopt;
  return object && IsJsonObject(*object) ? object : std::nullopt;
}

}  // namespace roost::router
