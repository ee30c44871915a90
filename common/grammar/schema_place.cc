#include "common/grammar/schema_place.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "common/base/json_writer.h"
#include "common/grammar/json_schema_rules.h"
#include "common/json/kept_numbers.h"

namespace roost::grammar {
namespace {

using simdjson::dom::element;
using Place = SchemaPlace;

std::optional<char> HexByte(std::string_view digits) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (error != std::errc() || end != digits.data() + 2) return std::nullopt;
  return static_cast<char>(value);
}

// A step of a JSON pointer in a URI without its escapes: %41 is A, ~1 is /, ~0 is ~.
std::optional<std::string> StepOf(std::string_view escaped) {
  std::string bytes;
  for (std::size_t i = 0; i < escaped.size(); ++i) {
    if (escaped[i] != '%') {
      bytes += escaped[i];
      continue;
    }
    const std::optional<char> byte = HexByte(escaped.substr(std::min(i + 1, escaped.size()), 2));
    if (!byte) return std::nullopt;
    bytes += *byte;
    i += 2;
  }
  std::string step;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != '~') {
      step += bytes[i];
      continue;
    }
    if (++i == bytes.size() || (bytes[i] != '0' && bytes[i] != '1')) return std::nullopt;
    step += bytes[i] == '1' ? '/' : '~';
  }
  return step;
}

std::optional<element> ChildOf(element parent, const std::string& step) {
  if (parent.is_object()) return Place{parent, "", 0}.Find(step);
  if (!parent.is_array()) return std::nullopt;
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(step.data(), step.data() + step.size(), index);
  element found;
  if (error != std::errc() || end != step.data() + step.size()) return std::nullopt;
  if (simdjson::dom::array(parent).at(index).get(found) != simdjson::SUCCESS) return std::nullopt;
  return found;
}

// Copies a document and puts a prefix before the references in it. Values are copied as they are, and so are the names
// of properties and definitions: these may be "$ref" too.
class Mover {
 public:
  explicit Mover(std::string_view pointer) : pointer_(pointer) {}

  enum class Members { kKeywords, kNames };
  void Copy(element value, Members members) {
    if (value.is_array()) {
      json_.BeginArray();
      for (const element each : simdjson::dom::array(value)) Copy(each, Members::kKeywords);
      json_.EndArray();
      return;
    }
    if (!value.is_object()) {
      json_.Raw(json::JsonText(value));
      return;
    }
    json_.BeginObject();
    for (const auto member : simdjson::dom::object(value)) {
      json_.Key(member.key);
      if (members == Members::kNames) {
        Copy(member.value, Members::kKeywords);
      } else {
        CopyKeyword(member.key, member.value);
      }
    }
    json_.EndObject();
  }
  [[nodiscard]] std::string Take() { return json_.Take(); }

 private:
  void CopyKeyword(std::string_view key, element value) {
    constexpr std::array<std::string_view, 5> kValues{"const", "enum", "default", "examples", "example"};
    constexpr std::array<std::string_view, 5> kMaps{"properties", "$defs", "definitions", "patternProperties",
                                                    "dependentSchemas"};
    std::string_view uri;
    const bool is_reference = key == "$ref" && value.get(uri) == simdjson::SUCCESS;
    if (is_reference && (uri == "#" || uri.starts_with("#/"))) {
      json_.String(pointer_ + std::string(uri.substr(1)));
    } else if (std::find(kValues.begin(), kValues.end(), key) != kValues.end()) {
      json_.Raw(json::JsonText(value));
    } else {
      const bool is_map = std::find(kMaps.begin(), kMaps.end(), key) != kMaps.end();
      Copy(value, is_map ? Members::kNames : Members::kKeywords);
    }
  }

  const std::string pointer_;
  JsonWriter json_;
};

}  // namespace

std::optional<element> SchemaPlace::Find(std::string_view key) const {
  element found;
  if (simdjson::dom::object(schema).at_key(key).get(found) != simdjson::SUCCESS) return std::nullopt;
  return found;
}

SchemaPlace SchemaPlace::Below(element child, std::string_view step) const {
  return {child, fmt::format("{}/{}", path, step), depth + 1};
}

std::optional<SchemaPlace> Resolve(element root, std::string_view uri) {
  if (uri == "#") return Place{root, "#", 0};
  if (!uri.starts_with("#/")) return std::nullopt;
  element at = root;
  for (std::size_t begin = 2; begin <= uri.size();) {
    const std::size_t end = std::min(uri.find('/', begin), uri.size());
    const std::optional<std::string> step = StepOf(uri.substr(begin, end - begin));
    const std::optional<element> next = step ? ChildOf(at, *step) : std::nullopt;
    if (!next) return std::nullopt;
    at = *next;
    begin = end + 1;
  }
  if (!at.is_object() && !at.is_bool()) return std::nullopt;
  return Place{at, std::string(uri), 1};
}

Result<void> ReferenceCheck::Follow(const Place& place, std::string_view uri) {
  const std::string name(uri);
  if (done_.contains(name)) return {};
  const std::optional<Place> target = Resolve(root_, uri);
  if (!target || !open_.insert(name).second) return ComplainAt(place, field_, "'$ref' to '{}' leads to itself", uri);
  if (open_.size() > kMaxSchemaDepth) {
    return ComplainAt(place, field_, "'$ref' to '{}' leads through more than {} others", uri, kMaxSchemaDepth);
  }
  ROOST_RETURN_IF_ERROR(FollowAll(*target));
  open_.erase(name);
  done_.insert(name);
  return {};
}

Result<void> ReferenceCheck::FollowAll(const Place& place) {
  if (!place.schema.is_object()) return {};
  if (place.depth > kMaxSchemaDepth) {
    return ComplainAt(place, field_, "more than {} schemas inside one another", kMaxSchemaDepth);
  }
  if (std::string_view uri; place.Contains("$ref") && place.Find("$ref")->get(uri) == simdjson::SUCCESS) {
    return Follow(place, uri);
  }
  for (const char* const key : {"anyOf", "oneOf", "allOf"}) {
    simdjson::dom::array list;
    if (!place.Contains(key) || place.Find(key)->get(list) != simdjson::SUCCESS) continue;
    for (const element each : list) ROOST_RETURN_IF_ERROR(FollowAll(place.Below(each, key)));
  }
  return {};
}

Result<std::string> MovedSchema(std::string_view schema, std::string_view pointer, const std::string& field) {
  const json::Document document(schema, json::Document::KeepNumbers{.max_depth = kMaxJsonDepth});
  if (!document.ok()) {
    return InvalidArgument(field, "the schema is not JSON, or has values more than {} deep", kMaxJsonDepth);
  }
  Mover mover(pointer);
  mover.Copy(document.root(), Mover::Members::kKeywords);
  return mover.Take();
}

}  // namespace roost::grammar
