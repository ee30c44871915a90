#include "common/text/json_node.h"

#include <fmt/format.h>

#include "common/base/utf8.h"

namespace roost::text {

std::string JsonNode::PathOf(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

Error JsonNode::Complain(std::string_view message) const {
  return InvalidArgument(*source_, "{}{}{}", path_, path_.empty() ? "" : ": ", message);
}

Result<std::optional<JsonNode>> JsonNode::Find(std::string_view key) const {
  ROOST_ASSIGN_OR_RETURN(simdjson::dom::object object, AsObject());
  simdjson::dom::element member;
  if (object.at_key(key).get(member) != simdjson::SUCCESS || member.is_null()) return std::optional<JsonNode>();
  return std::optional<JsonNode>(JsonNode(member, PathOf(key), *source_));
}

Result<JsonNode> JsonNode::Get(std::string_view key) const {
  ROOST_ASSIGN_OR_RETURN(std::optional<JsonNode> member, Find(key));
  if (!member) return InvalidArgument(*source_, "{}: is missing", PathOf(key));
  return *std::move(member);
}

Result<std::string_view> JsonNode::AsString() const {
  std::string_view value;
  if (element_.get(value) != simdjson::SUCCESS) return Complain("must be a string");
  return value;
}

Result<bool> JsonNode::AsBool() const {
  bool value = false;
  if (element_.get(value) != simdjson::SUCCESS) return Complain("must be true or false");
  return value;
}

Result<std::uint32_t> JsonNode::AsCount(std::uint32_t limit) const {
  std::uint64_t value = 0;
  if (element_.get(value) != simdjson::SUCCESS || value >= limit) {
    return Complain(fmt::format("must be a whole number below {}", limit));
  }
  return static_cast<std::uint32_t>(value);
}

Result<std::string_view> JsonNode::AsCharacter() const {
  ROOST_ASSIGN_OR_RETURN(std::string_view value, AsString());
  if (value.empty() || Utf8SequenceLength(value) != value.size()) return Complain("must be one character");
  return value;
}

Result<simdjson::dom::object> JsonNode::AsObject() const {
  simdjson::dom::object value;
  if (element_.get(value) != simdjson::SUCCESS) return Complain("must be an object");
  return value;
}

Result<std::vector<JsonNode>> JsonNode::AsArray() const {
  simdjson::dom::array array;
  if (element_.get(array) != simdjson::SUCCESS) return Complain("must be an array");
  std::vector<JsonNode> nodes;
  for (simdjson::dom::element item : array) {
    nodes.emplace_back(item, fmt::format("{}[{}]", path_, nodes.size()), *source_);
  }
  return nodes;
}

Result<std::string_view> JsonNode::GetString(std::string_view key) const {
  ROOST_ASSIGN_OR_RETURN(JsonNode member, Get(key));
  return member.AsString();
}

Result<bool> JsonNode::GetBool(std::string_view key) const {
  ROOST_ASSIGN_OR_RETURN(JsonNode member, Get(key));
  return member.AsBool();
}

Result<std::vector<JsonNode>> JsonNode::GetArray(std::string_view key) const {
  ROOST_ASSIGN_OR_RETURN(JsonNode member, Get(key));
  return member.AsArray();
}

Result<bool> JsonNode::FindBool(std::string_view key, bool fallback) const {
  ROOST_ASSIGN_OR_RETURN(std::optional<JsonNode> member, Find(key));
  if (!member) return fallback;
  return member->AsBool();
}

}  // namespace roost::text
