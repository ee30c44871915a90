// Fields of a request's body as tables: a row has a field's name, the values that it accepts, and where they are
// stored. The same rows parse the body (ReadFields) and describe it in /openapi.json (openapi.h), so the two always
// agree.
//
//   constexpr auto kFields = std::to_array<RequestField<Sampling>>({
//       {"temperature", "0 is greedy.", Real<Sampling>{0, 2, [](Sampling& s, float value) { s.temperature = value; }}},
//   });
//
// Null counts as absent (json_object.h). An error names the field.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "common/base/result.h"
#include "router/api/json_object.h"

namespace roost::router {

enum class LowEnd : std::uint8_t { kIncluded, kExcluded };

template <typename Request>
struct Real {
  float low;
  float high;
  void (*set)(Request&, float);
  LowEnd low_end = LowEnd::kIncluded;
};

template <typename Request>
struct Whole {
  std::int64_t low;
  std::int64_t high;
  void (*set)(Request&, std::int64_t);
};

template <typename Request>
struct Flag {
  void (*set)(Request&, bool);
};

template <typename Request>
struct Text {
  std::size_t min_bytes;
  std::size_t max_bytes;
  void (*set)(Request&, std::string_view);
};

// Read by a function of its own; `schema` is the JSON Schema of what it accepts.
template <typename Request>
struct Own {
  std::string_view schema;
  Result<void> (*read)(JsonElement element, const std::string& path, Request&);
};

// A field without effect on this server: any value is accepted.
struct Ignored {};

// A feature that this server does not have. Only a value that asks for what happens anyway is accepted. Any other is an
// error; otherwise the client would believe that it got what it asked for.
struct Refused {
  enum class Accepts : std::uint8_t { kNothing, kFalse, kTrue, kEmpty };
  Accepts accepts = Accepts::kNothing;
};

template <typename Request>
struct RequestField {
  std::string_view name;
  std::string_view description;
  std::variant<Real<Request>, Whole<Request>, Flag<Request>, Text<Request>, Own<Request>, Ignored, Refused> rule;
};

[[nodiscard]] Result<float> RealOf(JsonElement element, const std::string& path, float low, float high, LowEnd low_end);
[[nodiscard]] Result<bool> BoolOf(JsonElement element, const std::string& path);
[[nodiscard]] Result<std::string_view> TextOf(JsonElement element, const std::string& path, std::size_t min_bytes,
                                              std::size_t max_bytes);
[[nodiscard]] Result<void> CheckRefused(JsonElement element, const std::string& path, Refused rule);

// Reads one field that is present.
template <typename Request>
Result<void> ReadField(const JsonObject& body, const RequestField<Request>& field, JsonElement element,
                       Request& request) {
  const std::string path = body.PathOf(field.name);
  if (const auto* real = std::get_if<Real<Request>>(&field.rule)) {
    ROOST_ASSIGN_OR_RETURN(const float value, RealOf(element, path, real->low, real->high, real->low_end));
    real->set(request, value);
  } else if (const auto* whole = std::get_if<Whole<Request>>(&field.rule)) {
    ROOST_ASSIGN_OR_RETURN(const std::int64_t value, IntegerOf(element, path, whole->low, whole->high));
    whole->set(request, value);
  } else if (const auto* flag = std::get_if<Flag<Request>>(&field.rule)) {
    ROOST_ASSIGN_OR_RETURN(const bool value, BoolOf(element, path));
    flag->set(request, value);
  } else if (const auto* text = std::get_if<Text<Request>>(&field.rule)) {
    ROOST_ASSIGN_OR_RETURN(const std::string_view value, TextOf(element, path, text->min_bytes, text->max_bytes));
    text->set(request, value);
  } else if (const auto* own = std::get_if<Own<Request>>(&field.rule)) {
    return own->read(element, path, request);
  } else if (const auto* refused = std::get_if<Refused>(&field.rule)) {
    return CheckRefused(element, path, *refused);
  }
  return {};
}

// Reads all fields of the table that the body has, in the table's order.
template <typename Request>
Result<void> ReadFields(const JsonObject& body, std::span<const RequestField<Request>> fields, Request& request) {
  for (const RequestField<Request>& field : fields) {
    const std::optional<JsonElement> element = body.Find(field.name);
    if (element) ROOST_RETURN_IF_ERROR(ReadField(body, field, *element, request));
  }
  return {};
}

// The number of members of the body that are in none of the tables.
template <typename... Requests>
[[nodiscard]] std::uint32_t CountUnknown(const JsonObject& body, std::span<const RequestField<Requests>>... tables) {
  std::uint32_t count = 0;
  for (const auto& member : body.members()) {
    const auto has = [&member](const auto& table) {
      return std::any_of(table.begin(), table.end(), [&](const auto& field) { return field.name == member.first; });
    };
    if (!(has(tables) || ...)) ++count;
  }
  return count;
}

}  // namespace roost::router
