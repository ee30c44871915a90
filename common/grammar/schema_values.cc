#include "common/grammar/schema_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "common/grammar/json_schema_rules.h"
#include "common/grammar/regex_rules.h"
#include "common/json/kept_numbers.h"

namespace roost::grammar {
namespace {

using simdjson::dom::element;
using simdjson::dom::element_type;
using Place = SchemaPlace;

constexpr std::size_t kMaxReferences = 16;  // one behind another
constexpr std::size_t kMaxCompareDepth = 8;
constexpr std::size_t kMaxSteps = 50'000;  // comparisons in a document

// Types as bits. Integers are numbers.
constexpr unsigned kAllTypes = 0x3F;
unsigned TypeBit(std::string_view name) {
  constexpr std::array<std::string_view, 6> kNames{"string", "number", "boolean", "null", "array", "object"};
  if (name == "integer") name = "number";
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  return found == kNames.end() ? kAllTypes : 1U << static_cast<unsigned>(found - kNames.begin());
}
constexpr unsigned kObject = 1U << 5U;

unsigned TypeBitOf(element value) {
  if (json::KeptNumber(value)) return TypeBit("number");
  switch (value.type()) {
    case element_type::STRING: return TypeBit("string");
    case element_type::INT64:
    case element_type::UINT64:
    case element_type::DOUBLE: return TypeBit("number");
    case element_type::BOOL: return TypeBit("boolean");
    case element_type::NULL_VALUE: return TypeBit("null");
    case element_type::ARRAY: return TypeBit("array");
    case element_type::OBJECT: return TypeBit("object");
  }
  return kAllTypes;
}

// The values of const or enum; nothing if the schema has neither.
std::optional<std::vector<element>> ValuesOf(const Place& place) {
  if (const std::optional<element> value = place.Find("const")) return std::vector<element>{*value};
  const std::optional<element> values = place.Find("enum");
  simdjson::dom::array list;
  if (!values || values->get(list) != simdjson::SUCCESS) return std::nullopt;
  std::vector<element> all;
  for (const element value : list) all.push_back(value);
  return all;
}

unsigned TypesOf(const Place& place) {
  if (const auto values = ValuesOf(place)) {
    unsigned types = 0;
    for (const element value : *values) types |= TypeBitOf(value);
    return types;
  }
  const std::optional<element> type = place.Find("type");
  std::string_view name;
  simdjson::dom::array names;
  if (!type) return place.Contains("properties") ? kObject : kAllTypes;
  if (type->get(name) == simdjson::SUCCESS) return TypeBit(name);
  if (type->get(names) != simdjson::SUCCESS) return kAllTypes;
  unsigned types = 0;
  for (const element each : names) types |= each.get(name) == simdjson::SUCCESS ? TypeBit(name) : kAllTypes;
  return types;
}

bool AreEqual(element left, element right) {
  // 1 and 1.0 are one value.
  const bool are_numbers = json::NumberOf(left) && json::NumberOf(right);
  if (are_numbers && !((left.is_int64() || left.is_uint64()) && (right.is_int64() || right.is_uint64()))) return true;
  return simdjson::minify(left) == simdjson::minify(right);
}

std::optional<element> PropertyOf(const Place& place, std::string_view name) {
  const std::optional<element> properties = place.Find("properties");
  if (!properties || !properties->is_object()) return std::nullopt;
  return Place{*properties, "", 0}.Find(name);
}

Place PropertyPlace(const Place& place, std::string_view name, element property) {
  return place.Below(property, fmt::format("properties/{}", name));
}

// True if the schema allows no properties but those that it lists.
bool IsClosed(const Place& place) {
  const std::optional<element> others = place.Find("additionalProperties");
  return others && others->is_bool() && !bool(*others);
}

std::vector<Place> AlternativesOf(const Place& place, std::string_view key) {
  const std::optional<element> list = place.Find(key);
  std::vector<Place> places;
  if (!list || !list->is_array()) return places;
  std::size_t index = 0;
  for (const element each : simdjson::dom::array(*list)) {
    places.push_back(place.Below(each, fmt::format("{}/{}", key, index++)));
  }
  return places;
}

}  // namespace

SchemaAlternatives::SchemaAlternatives(element root) : root_(root) { ReadDiscriminators({root, "#", 0}); }

void SchemaAlternatives::ReadDiscriminators(const Place& place) {
  if (place.schema.is_array()) {
    std::size_t index = 0;
    for (const element each : simdjson::dom::array(place.schema)) {
      ReadDiscriminators(place.Below(each, std::to_string(index++)));
    }
    return;
  }
  if (!place.schema.is_object()) return;
  for (const auto member : simdjson::dom::object(place.schema)) {
    if (member.value.is_object() || member.value.is_array()) ReadDiscriminators(place.Below(member.value, member.key));
  }
  std::string_view name;
  if (place.schema["discriminator"]["propertyName"].get(name) != simdjson::SUCCESS) return;
  for (const Place& each : AlternativesOf(place, "oneOf")) {
    const std::optional<Place> behind = Behind(each);
    if (!behind || !behind->schema.is_object()) continue;
    const std::optional<element> property = PropertyOf(*behind, name);
    if (property && ValuesOf(PropertyPlace(*behind, name, *property))) required_[behind->path].insert(name);
  }
}

const std::set<std::string_view>& SchemaAlternatives::RequiredAt(const std::string& path) const {
  static const std::set<std::string_view> kNone;
  const auto found = required_.find(path);
  return found == required_.end() ? kNone : found->second;
}

std::optional<Place> SchemaAlternatives::Behind(Place place) const {
  for (std::size_t i = 0; i < kMaxReferences; ++i) {
    if (!place.schema.is_object()) return place;
    std::string_view uri;
    if (const auto reference = place.Find("$ref"); reference && reference->get(uri) == simdjson::SUCCESS) {
      std::optional<Place> found = Resolve(root_, uri);
      if (!found) return std::nullopt;
      place = *std::move(found);
      continue;
    }
    std::vector<Place> all = AlternativesOf(place, "allOf");
    if (all.size() != 1) return place;
    place = std::move(all.front());
  }
  return std::nullopt;
}

bool SchemaAlternatives::ExcludeEachOther(const std::vector<Place>& list) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    for (std::size_t j = i + 1; j < list.size(); ++j) {
      if (!Exclude(list[i], list[j], 0)) return false;
    }
  }
  return true;
}

bool SchemaAlternatives::Exclude(const Place& left, const Place& right, std::size_t depth) {
  if (depth > kMaxCompareDepth || ++steps_ > kMaxSteps) return false;
  const std::optional<Place> a = Behind(left);
  const std::optional<Place> b = Behind(right);
  if (!a || !b || !a->schema.is_object() || !b->schema.is_object()) return false;
  for (const char* const key : {"anyOf", "oneOf"}) {
    for (const auto& [many, other] : {std::pair(&*a, &*b), std::pair(&*b, &*a)}) {
      const std::vector<Place> inner = AlternativesOf(*many, key);
      if (inner.empty()) continue;
      return std::all_of(inner.begin(), inner.end(),
                         [&, other = other](const Place& each) { return Exclude(each, *other, depth + 1); });
    }
  }
  const unsigned common_types = TypesOf(*a) & TypesOf(*b);
  if (common_types == 0) return true;
  const auto values = ValuesOf(*a);
  const auto others = ValuesOf(*b);
  if (values && others) {
    return std::none_of(values->begin(), values->end(), [&others](element value) {
      return std::any_of(others->begin(), others->end(), [value](element other) { return AreEqual(value, other); });
    });
  }
  return common_types == kObject && !values && !others && ObjectsExclude(*a, *b, depth);
}

bool SchemaAlternatives::ObjectsExclude(const Place& left, const Place& right, std::size_t depth) {
  const std::set<std::string_view> of_left = RequiredOf(left);
  const std::set<std::string_view> of_right = RequiredOf(right);
  for (const std::string_view name : of_left) {
    const std::optional<element> mine = PropertyOf(left, name);
    const std::optional<element> other = PropertyOf(right, name);
    if (!other && IsClosed(right)) return true;
    if (!mine || !other || !of_right.contains(name)) continue;
    if (Exclude(PropertyPlace(left, name, *mine), PropertyPlace(right, name, *other), depth + 1)) return true;
  }
  return std::any_of(of_right.begin(), of_right.end(),
                     [&left](std::string_view name) { return IsClosed(left) && !PropertyOf(left, name); });
}

std::set<std::string_view> SchemaAlternatives::RequiredOf(const Place& place) const {
  std::set<std::string_view> names = RequiredAt(place.path);
  const std::optional<element> required = place.Find("required");
  simdjson::dom::array list;
  if (!required || required->get(list) != simdjson::SUCCESS) return names;
  for (const element each : list) {
    if (std::string_view name; each.get(name) == simdjson::SUCCESS) names.insert(name);
  }
  return names;
}

namespace {

using simdjson::dom::element;
using Place = SchemaPlace;

constexpr double kMaxInteger = 9007199254740992.0;  // 2^53
constexpr double kMaxNumber = 1e9;                  // with six digits after the point
constexpr std::uint64_t kMaxMultiple = 1024;
constexpr double kMaxMultipleRange = 10'000;

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
  // A second 60 comes in few minutes of a century, and most readers refuse it.
  const std::string time =
      "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])";
  if (format == "time") return "^" + time + "$";
  return format == "date-time" ? "^" + date + "T" + time + "$" : "";
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
  const std::optional<double> number = json::NumberOf(*value);
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
    const std::optional<double> number = json::NumberOf(*value);
    if (!number) return ComplainAt(place, field_, "'{}' must be a number", key);
    if (types.integer && (*number != std::floor(*number) || std::abs(*number) > kMaxInteger)) {
      return ComplainAt(place, field_, "'{}' of an integer must be a whole number of at most 53 bits", key);
    }
    const double millionths = *number * 1e6;
    if (types.number && (std::abs(*number) > kMaxNumber ||
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
  const bool is_good = value->get(multiple) == simdjson::SUCCESS && multiple > 0 && multiple <= kMaxMultiple;
  if (types.number || !is_good) {
    return ComplainAt(place, field_, "'multipleOf' is supported for integers alone, and up to {}", kMaxMultiple);
  }
  const auto [low, high] = bounds;
  const bool is_bounded = low && high;
  if ((low || high) && (!is_bounded || *high - *low > kMaxMultipleRange)) {
    return ComplainAt(place, field_, "'multipleOf' is supported without bounds or with both, at most {} apart",
                      kMaxMultipleRange);
  }
  json_.Key("multipleOf").Number(multiple);
  return {};
}

}  // namespace roost::grammar
