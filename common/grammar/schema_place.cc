#include "common/grammar/schema_place.h"

#include <algorithm>
#include <set>
#include <vector>

namespace roost::grammar {
namespace {

using simdjson::dom::element;
using Place = SchemaPlace;

std::vector<std::string_view> StepsOf(std::string_view uri) {
  std::vector<std::string_view> steps;
  for (std::size_t begin = 2; begin <= uri.size();) {
    const std::size_t end = std::min(uri.find('/', begin), uri.size());
    steps.push_back(uri.substr(begin, end - begin));
    begin = end + 1;
  }
  return steps;
}

// Visits all schemas of the document, and from each one follows references and alternatives.
class References {
 public:
  References(element root, const std::string& field) : root_(root), field_(field) {}

  Result<void> Check() { return Walk({root_, "#", 0}); }

 private:
  Result<void> Walk(const Place& place) {
    if (!place.schema.is_object()) return {};
    std::set<std::string> open;
    ROOST_RETURN_IF_ERROR(Follow(place, open));
    for (const char* const key : {"items", "additionalProperties"}) {
      if (place.Contains(key)) ROOST_RETURN_IF_ERROR(Walk(place.Below(*place.Find(key), key)));
    }
    for (const char* const key : {"anyOf", "oneOf", "allOf", "prefixItems"}) {
      simdjson::dom::array list;
      if (!place.Contains(key) || place.Find(key)->get(list) != simdjson::SUCCESS) continue;
      for (const element each : list) ROOST_RETURN_IF_ERROR(Walk(place.Below(each, key)));
    }
    for (const char* const key : {"properties", "$defs", "definitions"}) {
      if (!place.Contains(key) || !place.Find(key)->is_object()) continue;
      for (const auto member : simdjson::dom::object(*place.Find(key))) {
        ROOST_RETURN_IF_ERROR(Walk(place.Below(member.value, fmt::format("{}/{}", key, member.key))));
      }
    }
    return {};
  }

  // `open` holds the references that were followed to get here.
  Result<void> Follow(const Place& place, std::set<std::string>& open) {
    if (!place.schema.is_object()) return {};
    if (std::string_view uri; place.Contains("$ref") && place.Find("$ref")->get(uri) == simdjson::SUCCESS) {
      return FollowReference(place, uri, open);
    }
    for (const char* const key : {"anyOf", "oneOf", "allOf"}) {
      simdjson::dom::array list;
      if (!place.Contains(key) || place.Find(key)->get(list) != simdjson::SUCCESS) continue;
      for (const element each : list) ROOST_RETURN_IF_ERROR(Follow(place.Below(each, key), open));
    }
    return {};
  }

  Result<void> FollowReference(const Place& place, std::string_view uri, std::set<std::string>& open) {
    const std::string name(uri);
    if (done_.contains(name)) return {};
    const std::optional<Place> target = Resolve(root_, uri);
    if (!target || !open.insert(name).second) {
      return ComplainAt(place, field_, "'$ref' to '{}' leads to itself", uri);
    }
    ROOST_RETURN_IF_ERROR(Follow(*target, open));
    open.erase(name);
    done_.insert(name);
    return {};
  }

  const element root_;
  const std::string& field_;
  std::set<std::string> done_;
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
  Place at{root, "#", 0};
  if (uri == "#") return at;
  if (!uri.starts_with("#/") || uri.find_first_of("~%") != std::string_view::npos) return std::nullopt;
  const std::vector<std::string_view> steps = StepsOf(uri);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const bool is_named = steps[i] == "$defs" || steps[i] == "definitions" || steps[i] == "properties";
    if (steps[i].empty() || (!is_named && steps[i] != "items") || !at.schema.is_object()) return std::nullopt;
    std::optional<element> next = at.Find(steps[i]);
    if (next && is_named) {
      if (++i == steps.size() || steps[i].empty() || !next->is_object()) return std::nullopt;
      next = Place{*next, "", 0}.Find(steps[i]);
    }
    if (!next) return std::nullopt;
    at = at.Below(*next, steps[i]);
  }
  return at;
}

Result<void> CheckReferences(element root, const std::string& field) { return References(root, field).Check(); }

}  // namespace roost::grammar
