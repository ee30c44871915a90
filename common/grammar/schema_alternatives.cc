#include "common/grammar/schema_alternatives.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

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
  const bool are_numbers = left.is_number() && right.is_number();
  if (are_numbers && (left.is_double() || right.is_double())) return true;
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

// Whether the schema allows no properties but those that it lists.
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

}  // namespace roost::grammar
