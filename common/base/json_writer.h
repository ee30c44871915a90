// Writes JSON text, one value at a time. It writes commas and quotes; the caller must nest correctly (checked).
//
//   JsonWriter json;
//   json.BeginObject().Key("id").String(id).Key("tokens").Number(count).EndObject();
//   Send(json.Take());
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace roost {

// Appends `text` as a JSON string with its quotes. Bytes that are not valid UTF-8 become U+FFFD, one per bad byte.
void AppendJsonString(std::string_view text, std::string& out);

class JsonWriter {
 public:
  // Room for this many bytes, so that a long text is not copied as it grows.
  void Reserve(std::size_t bytes) { out_.reserve(bytes); }

  JsonWriter& BeginObject();
  JsonWriter& EndObject();
  JsonWriter& BeginArray();
  JsonWriter& EndArray();
  JsonWriter& Key(std::string_view name);
  JsonWriter& String(std::string_view text);
  JsonWriter& Number(std::int64_t value);
  JsonWriter& Number(std::uint64_t value);
  JsonWriter& Number(int value) { return Number(static_cast<std::int64_t>(value)); }
  JsonWriter& Number(std::uint32_t value) { return Number(static_cast<std::uint64_t>(value)); }
  // Shortest text that reads back equal; NaN and infinities become null.
  JsonWriter& Number(double value);
  JsonWriter& Bool(bool value);
  JsonWriter& Null();
  // `json` must be one valid JSON value already.
  JsonWriter& Raw(std::string_view json);

  // The text so far; all objects and arrays must be closed. Leaves the writer empty.
  [[nodiscard]] std::string Take();

 private:
  void Separate();
  void Open(char bracket);
  void Close(char bracket);

  std::string out_;
  std::vector<bool> has_items_;  // one per open object or array
  bool after_key_ = false;
};

}  // namespace roost
