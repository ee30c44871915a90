#include "router/api/requests/request_field.h"

namespace roost::router {
namespace {

using Accepts = Refused::Accepts;

bool IsBool(JsonElement element, bool wanted) {
  bool value = false;
  return element.get(value) == simdjson::SUCCESS && value == wanted;
}

bool IsEmpty(JsonElement element) {
  if (element.is_array()) return simdjson::dom::array(element).size() == 0;
  if (element.is_object()) return simdjson::dom::object(element).size() == 0;
  return IsString(element) && std::string_view(element).empty();
}

bool IsNeutral(JsonElement element, Accepts accepts) {
  switch (accepts) {
    case Accepts::kNothing: return false;
    case Accepts::kFalse: return IsBool(element, false);
    case Accepts::kTrue: return IsBool(element, true);
    case Accepts::kEmpty: return IsEmpty(element);
  }
  return false;
}

std::string_view NeutralText(Accepts accepts) {
  switch (accepts) {
    case Accepts::kNothing: return "leave it out";
    case Accepts::kFalse: return "leave it out or send false";
    case Accepts::kTrue: return "leave it out or send true";
    case Accepts::kEmpty: return "leave it out or send it empty";
  }
  return "leave it out";
}

}  // namespace

Result<float> RealOf(JsonElement element, const std::string& path, float low, float high, LowEnd low_end) {
  const std::optional<double> number = json::NumberOf(element);
  if (!number) return InvalidArgument(path, "must be a number, not {}", TypeName(element));
  const double value = *number;
  const bool excluded = low_end == LowEnd::kExcluded;
  const bool above_low = excluded ? value > low : value >= low;
  if (!above_low || value > high) {
    return InvalidArgument(path, "must be {} {} and at most {}, not {}", excluded ? "greater than" : "at least", low,
                           high, value);
  }
  // Rounding to float must not turn a value above the excluded zero into zero.
  const float least = excluded ? std::numeric_limits<float>::min() : std::numeric_limits<float>::lowest();
  return std::max(least, static_cast<float>(value));
}

Result<bool> BoolOf(JsonElement element, const std::string& path) {
  bool value = false;
  if (element.get(value) != simdjson::SUCCESS) {
    return InvalidArgument(path, "must be a boolean, not {}", TypeName(element));
  }
  return value;
}

Result<std::string_view> TextOf(JsonElement element, const std::string& path, std::size_t min_bytes,
                                std::size_t max_bytes) {
  ROOST_ASSIGN_OR_RETURN(const std::string_view text, StringOf(element, path));
  if (text.size() < min_bytes || text.size() > max_bytes) {
    return InvalidArgument(path, "must be {} to {} bytes long, not {}", min_bytes, max_bytes, text.size());
  }
  return text;
}

Result<void> CheckRefused(JsonElement element, const std::string& path, Refused rule) {
  if (IsNeutral(element, rule.accepts)) return {};
  return InvalidArgument(path, "'{}' is not supported with this value: {}", path, NeutralText(rule.accepts));
}

}  // namespace roost::router
