// A JSON object of a request. Its accessors read a member by name and check its type and range. An error names the
// member by its path, "messages[0].content[1].type", which becomes `param` of the answer.
//
// Null counts as absent, because clients send null for unset fields. If a name is repeated, the last member counts.
//
// Numbers that a parser can not hold keep their text (kept_numbers.h).
//
// A view: the parser and the body outlive it. Reading a member costs O(log members).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/json/kept_numbers.h"
#include "common/text/jinja/value.h"

namespace roost::router {

using JsonElement = json::Element;

// The most that arrays and objects may nest in a request.
inline constexpr std::size_t kMaxJsonDepth = 600;
// The maximum number of members of one object; no real request has more.
inline constexpr std::size_t kMaxJsonMembers = 4096;

class JsonObject {
 public:
  // `path` names the element, "" for the body itself.
  [[nodiscard]] static Result<JsonObject> From(JsonElement element, std::string path);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string PathOf(std::string_view name) const;
  // Sorted by name, without duplicates and nulls.
  [[nodiscard]] const std::vector<std::pair<std::string_view, JsonElement>>& members() const { return members_; }

  [[nodiscard]] std::optional<JsonElement> Find(std::string_view name) const;

  // Empty when the member is absent. An error when it has another type or is out of range.
  [[nodiscard]] Result<std::optional<std::string_view>> String(std::string_view name) const;
  [[nodiscard]] Result<std::optional<bool>> Bool(std::string_view name) const;
  [[nodiscard]] Result<std::optional<std::int64_t>> Integer(std::string_view name, std::int64_t low,
                                                            std::int64_t high) const;
  [[nodiscard]] Result<std::optional<double>> Number(std::string_view name) const;
  [[nodiscard]] Result<std::optional<JsonObject>> Object(std::string_view name) const;
  [[nodiscard]] Result<std::optional<std::vector<JsonElement>>> Array(std::string_view name) const;

 private:
  JsonObject(std::string path, std::vector<std::pair<std::string_view, JsonElement>> members)
      : path_(std::move(path)), members_(std::move(members)) {}

  std::string path_;
  std::vector<std::pair<std::string_view, JsonElement>> members_;
};

// "a string", "an object", …, for error messages.
[[nodiscard]] std::string_view TypeName(JsonElement element);

// False for a kept number.
[[nodiscard]] bool IsString(JsonElement element);

// The result is valid UTF-8, because the parser rejects anything else. `path` names the element in the error.
[[nodiscard]] Result<std::string_view> StringOf(JsonElement element, std::string_view path);

// An integer within [low, high]; 5.0 counts as an integer.
[[nodiscard]] Result<std::int64_t> IntegerOf(JsonElement element, std::string_view path, std::int64_t low,
                                             std::int64_t high);

[[nodiscard]] Result<std::vector<JsonElement>> ElementsOf(JsonElement array, std::string_view path);

// The element as a value for templates.
[[nodiscard]] Result<jinja::Value> TemplateValueOf(JsonElement element, std::string_view path);

// A request's body and its parsed form. It can not be copied or moved, because JsonObjects refer to it.
class JsonBody {
 public:
  // Parse needs this much room after the body's text; if the string's capacity has it, the text is not copied.
  static constexpr std::size_t kPadding = simdjson::SIMDJSON_PADDING;

  explicit JsonBody(std::string body);
  JsonBody(const JsonBody&) = delete;
  JsonBody& operator=(const JsonBody&) = delete;

  // Call once.
  [[nodiscard]] Result<JsonObject> Parse();

  // Only after Parse: the body's text again. The objects of Parse are void then.
  [[nodiscard]] std::string Release() {
    body_.resize(body_.size() - kPadding);
    return std::move(body_);
  }

  // The number of values, names and container ends in the body. Only after Parse.
  [[nodiscard]] std::size_t node_count() const;

 private:
  std::string body_;
  simdjson::dom::parser parser_;
};

}  // namespace roost::router
