#include "common/base/json_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <utility>

#include "common/base/check.h"
#include "common/base/utf8.h"

namespace roost {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

void AppendEscaped(unsigned char byte, std::string& out) {
  switch (byte) {
    case '"': out += "\\\""; return;
    case '\\': out += "\\\\"; return;
    case '\n': out += "\\n"; return;
    case '\r': out += "\\r"; return;
    case '\t': out += "\\t"; return;
    default: fmt::format_to(std::back_inserter(out), "\\u{:04x}", byte); return;
  }
}

// Bytes at the start of `text` that need no escape.
std::size_t PlainLength(std::string_view text) {
  const auto end = std::find_if(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte >= 0x80 || byte == '"' || byte == '\\';
  });
  return static_cast<std::size_t>(end - text.begin());
}

bool NeedsEscape(unsigned char byte) { return byte < 0x20 || byte == '"' || byte == '\\'; }

}  // namespace

void AppendJsonString(std::string_view text, std::string& out) {
  out += '"';
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t plain = PlainLength(text.substr(i));
    out += text.substr(i, plain);
    i += plain;
    if (i == text.size()) break;
    const auto byte = static_cast<unsigned char>(text[i]);
    if (NeedsEscape(byte)) {
      AppendEscaped(byte, out);
      ++i;
      continue;
    }
    const std::size_t length = Utf8SequenceLength(text.substr(i));
    out += length == 0 ? kReplacement : text.substr(i, length);
    i += length == 0 ? 1 : length;
  }
  out += '"';
}

void JsonWriter::Separate() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (has_items_.empty()) return;
  if (has_items_.back()) out_ += ',';
  has_items_.back() = true;
}

void JsonWriter::Open(char bracket) {
  Separate();
  out_ += bracket;
  has_items_.push_back(false);
}

void JsonWriter::Close(char bracket) {
  ROOST_CHECK(!has_items_.empty() && !after_key_);
  out_ += bracket;
  has_items_.pop_back();
}

JsonWriter& JsonWriter::BeginObject() {
  Open('{');
  return *this;
}
JsonWriter& JsonWriter::EndObject() {
  Close('}');
  return *this;
}
JsonWriter& JsonWriter::BeginArray() {
  Open('[');
  return *this;
}
JsonWriter& JsonWriter::EndArray() {
  Close(']');
  return *this;
}

JsonWriter& JsonWriter::Key(std::string_view name) {
  ROOST_CHECK(!has_items_.empty() && !after_key_);
  Separate();
  AppendJsonString(name, out_);
  out_ += ':';
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::String(std::string_view text) {
  Separate();
  AppendJsonString(text, out_);
  return *this;
}
JsonWriter& JsonWriter::Number(std::int64_t value) {
  Separate();
  fmt::format_to(std::back_inserter(out_), "{}", value);
  return *this;
}
JsonWriter& JsonWriter::Number(std::uint64_t value) {
  Separate();
  fmt::format_to(std::back_inserter(out_), "{}", value);
  return *this;
}
JsonWriter& JsonWriter::Number(double value) {
  if (!std::isfinite(value)) return Null();
  Separate();
  fmt::format_to(std::back_inserter(out_), "{}", value);
  return *this;
}
JsonWriter& JsonWriter::Bool(bool value) {
  Separate();
  out_ += value ? "true" : "false";
  return *this;
}
JsonWriter& JsonWriter::Null() {
  Separate();
  out_ += "null";
  return *this;
}
JsonWriter& JsonWriter::Raw(std::string_view json) {
  Separate();
  out_ += json;
  return *this;
}

std::string JsonWriter::Take() {
  ROOST_CHECK(has_items_.empty() && !after_key_);
  return std::exchange(out_, {});
}

}  // namespace roost
