#include "common/grammar/schema_values.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <cmath>

#include "common/grammar/json_schema_rules.h"
#include "common/grammar/regex_rules.h"

namespace roost::grammar {
namespace {

using simdjson::dom::element;
using Place = SchemaPlace;

constexpr double kMostInteger = 9007199254740992.0;  // 2^53
constexpr double kMostNumber = 1e9;                  // with six digits after the point
constexpr std::uint64_t kMostMultiple = 1024;
constexpr double kMostMultipleRange = 10'000;

std::optional<double> NumberOf(element value) {
  double number = 0;
  if (value.get(number) != simdjson::SUCCESS || !std::isfinite(number)) return std::nullopt;
  return number;
}

// An exact pattern for formats that the library reads too widely: it would write days that no month has, and numbers
// with leading zeros. For e-mail addresses the library's own grammar is so ambiguous that a mask takes milliseconds.
// Empty: the library is exact.
std::string ExactPattern(std::string_view format) {
  const std::string date =
      "[1-9][0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|"
      "02-(0[1-9]|1[0-9]|2[0-8]))";
  const std::string number = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
  if (format == "ipv4") return "^(" + number + "[.]){3}" + number + "$";
  const std::string labels = "[A-Za-z0-9]+(-[A-Za-z0-9]+)*";
  if (format == "email") return "^[A-Za-z0-9_+-]+([.][A-Za-z0-9_+-]+)*@" + labels + "([.]" + labels + ")+$";
  if (format == "date") return "^" + date + "$";
  if (format != "date-time") return "";
  return "^" + date + "T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$";
}

}  // namespace

Result<SchemaValues::Counts> SchemaValues::CountsOf(const Place& place, const std::string& what) const {
  Counts counts;
  ROOST_ASSIGN_OR_RETURN(counts.least, CountOf(place, "min" + what));
  ROOST_ASSIGN_OR_RETURN(counts.most, CountOf(place, "max" + what));
  if (counts.least && counts.most && *counts.least > *counts.most) {
    return ComplainAt(place, field_, "the least and the most '{}' contradict each other", what);
  }
  return counts;
}

Result<std::optional<std::uint64_t>> SchemaValues::CountOf(const Place& place, const std::string& key) const {
  const std::optional<element> value = place.Find(key);
  if (!value) return std::optional<std::uint64_t>();
  const std::optional<double> number = NumberOf(*value);
  if (!number || *number != std::floor(*number) || *number < 0 || *number > static_cast<double>(kMaxSchemaCount)) {
    return ComplainAt(place, field_, "'{}' must be a whole number from 0 to {}", key, kMaxSchemaCount);
  }
  return std::optional<std::uint64_t>(static_cast<std::uint64_t>(*number));
}

Result<void> SchemaValues::WriteString(const Place& place) {
  ROOST_ASSIGN_OR_RETURN(const Counts counts, CountsOf(place, "Length"));
  const auto [least, most] = counts;
  const std::optional<element> pattern = place.Find("pattern");
  std::optional<element> format = place.Find("format");
  std::string_view text;
  if (format && format->get(text) == simdjson::SUCCESS &&
      std::find(kNoteFormats.begin(), kNoteFormats.end(), text) != kNoteFormats.end()) {
    format.reset();
  }
  const bool has_length = least.value_or(0) > 0 || most;
  if ((pattern ? 1 : 0) + (format ? 1 : 0) + (has_length ? 1 : 0) > 1) {
    return ComplainAt(place, field_, "'{}' beside '{}' is not supported", pattern ? "pattern" : "format",
                      has_length ? "a length" : "format");
  }
  if (format) {
    if (format->get(text) != simdjson::SUCCESS) return ComplainAt(place, field_, "'format' must be a string");
    if (std::find(kFormats.begin(), kFormats.end(), text) == kFormats.end())
      return ComplainAt(place, field_, "'format' of '{}' is not supported: {}", text, fmt::join(kFormats, ", "));
    const std::string exact = ExactPattern(text);
    if (!exact.empty()) return WritePattern(place, exact);
    json_.Key("format").String(text);
  } else if (pattern) {
    if (pattern->get(text) != simdjson::SUCCESS) return ComplainAt(place, field_, "'pattern' must be a string");
    return WritePattern(place, text);
  } else if (has_length) {
    // The library's own length limits would allow control characters.
    if (most && *most == 0) {
      json_.Key("maxLength").Number(0);
      return {};
    }
    const std::string bounds =
        most ? fmt::format("{{{},{}}}", least.value_or(0), *most) : fmt::format("{{{},}}", *least);
    return WritePattern(place, "^[^]" + bounds + "$");
  }
  return {};
}

Result<void> SchemaValues::WritePattern(const Place& place, std::string_view regex) {
  Result<CostedText> read = LibraryRegex(regex, RegexUse::kJsonPattern, field_);
  if (!read.ok()) return ComplainAt(place, field_, "'pattern': {}", read.error().message);
  if (patterns_.insert(read->text).second) cost_ += read->cost;
  if (cost_ > kMaxCompileCost) {
    return ComplainAt(place, field_,
                      "the strings with a length, a pattern or a format up to here take too long to compile");
  }
  json_.Key("pattern").String("^(" + read->text + ")$");
  return {};
}

Result<void> SchemaValues::WriteNumber(const Place& place, NumberTypes types) {
  std::optional<double> low;
  std::optional<double> high;
  for (const char* const key : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}) {
    const std::optional<element> value = place.Find(key);
    if (!value) continue;
    const std::optional<double> number = NumberOf(*value);
    if (!number) return ComplainAt(place, field_, "'{}' must be a number", key);
    if (types.integer && (*number != std::floor(*number) || std::abs(*number) > kMostInteger)) {
      return ComplainAt(place, field_, "'{}' of an integer must be a whole number of at most 53 bits", key);
    }
    const double millionths = *number * 1e6;
    if (types.number && (std::abs(*number) > kMostNumber ||
                         std::abs(millionths - std::round(millionths)) > 1e-9 * std::max(1.0, std::abs(millionths)))) {
      return ComplainAt(place, field_, "'{}' of a number must be at most 1e9 with six digits after the point", key);
    }
    std::optional<double>& bound = std::string_view(key).ends_with("inimum") ? low : high;
    bound = !bound ? *number : (&bound == &low ? std::max(*bound, *number) : std::min(*bound, *number));
    json_.Key(key);
    if (types.integer) {
      json_.Number(static_cast<std::int64_t>(*number));
    } else {
      json_.Number(*number);
    }
  }
  if (low && high && *low > *high) return ComplainAt(place, field_, "'minimum' and 'maximum' contradict each other");
  return WriteMultiple(place, {low, high}, types);
}

Result<void> SchemaValues::WriteMultiple(const Place& place, Bounds bounds, NumberTypes types) {
  const std::optional<element> value = place.Find("multipleOf");
  if (!value) return {};
  std::uint64_t multiple = 0;
  const bool is_good = value->get(multiple) == simdjson::SUCCESS && multiple > 0 && multiple <= kMostMultiple;
  if (types.number || !is_good) {
    return ComplainAt(place, field_, "'multipleOf' is supported for integers alone, and up to {}", kMostMultiple);
  }
  const auto [low, high] = bounds;
  const bool is_bounded = low && high;
  if ((low || high) && (!is_bounded || *high - *low > kMostMultipleRange)) {
    return ComplainAt(place, field_, "'multipleOf' is supported without bounds or with both, at most {} apart",
                      kMostMultipleRange);
  }
  json_.Key("multipleOf").Number(multiple);
  return {};
}

}  // namespace roost::grammar
