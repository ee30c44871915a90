#include "common/json/json_node.h"

#include <fmt/format.h>

#include <limits>

#include "common/base/utf8.h"

namespace roost {

std::string JsonNode::PathOf(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

Error JsonNode::Complain(std::string_view message) const {
  return InvalidArgument(*source_, "{}{}{}", path_, path_.empty() ? "" : ": ", message);
}

Error JsonNode::Complain(std::string_view key, std::string_view message) const {
  return InvalidArgument(*source_, "{}: {}", PathOf(key), message);
}

Result<std::optional<JsonNode>> JsonNode::Find(std::string_view key) const {
  ROOST_RETURN_IF_ERROR(AsObject());
  const auto member = Member(key);
  if (!member) return std::optional<JsonNode>();
  return std::optional<JsonNode>(JsonNode(*member, PathOf(key), *source_));
}

std::optional<simdjson::dom::element> JsonNode::Member(std::string_view key) const {
  simdjson::dom::element member;
  if (element_.at_key(key).get(member) != simdjson::SUCCESS || member.is_null()) return std::nullopt;
  return member;
}

Result<JsonNode> JsonNode::Get(std::string_view key) const {
  ROOST_ASSIGN_OR_RETURN(std::optional<JsonNode> member, Find(key));
  if (!member) return Complain(key, "is missing");
  return *std::move(member);
}

Result<std::string_view> JsonNode::AsString() const {
  std::string_view value;
  if (element_.get(value) != simdjson::SUCCESS) return Complain("must be a string");
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
  for (const simdjson::dom::element item : array) {
    nodes.emplace_back(item, fmt::format("{}[{}]", path_, nodes.size()), *source_);
  }
  return nodes;
}

template <>
Result<std::string_view> JsonNode::As() const {
  return AsString();
}

template <>
Result<std::string> JsonNode::As() const {
  ROOST_ASSIGN_OR_RETURN(const std::string_view value, AsString());
  return std::string(value);
}

template <>
Result<std::vector<JsonNode>> JsonNode::As() const {
  return AsArray();
}

template <>
Result<bool> JsonNode::As() const {
  bool value = false;
  if (element_.get(value) != simdjson::SUCCESS) return Complain("must be true or false");
  return value;
}

template <>
Result<double> JsonNode::As() const {
  double value = 0;
  if (element_.get(value) != simdjson::SUCCESS) return Complain("must be a number");
  return value;
}

template <>
Result<std::uint32_t> JsonNode::As() const {
  std::uint64_t value = 0;
  if (element_.get(value) != simdjson::SUCCESS || value > std::numeric_limits<std::uint32_t>::max()) {
    return Complain("must be an integer of 0 to 4294967295");
  }
  return static_cast<std::uint32_t>(value);
}

Result<std::uint32_t> JsonNode::GetCount(std::string_view key) const {
  ROOST_ASSIGN_OR_RETURN(const std::uint32_t value, Get<std::uint32_t>(key));
  if (value == 0) return Complain(key, "must not be 0");
  return value;
}

Result<std::optional<JsonNode>> JsonNode::Object(std::string_view key) const {
  ROOST_ASSIGN_OR_RETURN(std::optional<JsonNode> member, Find(key));
  if (member) ROOST_RETURN_IF_ERROR(member->AsObject());
  return member;
}

Result<std::vector<simdjson::dom::element>> JsonNode::Array(std::string_view key) const {
  ROOST_ASSIGN_OR_RETURN(const std::optional<JsonNode> member, Find(key));
  simdjson::dom::array array;
  if (!member) return std::vector<simdjson::dom::element>();
  if (member->element_.get(array) != simdjson::SUCCESS) return Complain(key, "must be an array");
  return std::vector<simdjson::dom::element>(array.begin(), array.end());
}

Result<JsonFile> JsonFile::Load(const std::filesystem::path& path, std::size_t max_bytes) {
  ROOST_ASSIGN_OR_RETURN(std::string text, ReadSmallFile(path, max_bytes));
  return Parse(std::move(text), path.string());
}

Result<JsonFile> JsonFile::Parse(std::string text, std::string name) {
  JsonFile file;
  file.name_ = std::make_unique<std::string>(std::move(name));
  file.text_ = std::make_unique<std::string>(std::move(text));
  file.parser_ = std::make_unique<simdjson::dom::parser>();
  simdjson::error_code error = file.parser_->allocate(file.text_->size() + 1, kMaxDepth);
  // The parser copies the text into padded memory of its own.
  if (error == simdjson::SUCCESS) error = file.parser_->parse(*file.text_).get(file.root_);
  if (error != simdjson::SUCCESS) {
    return InvalidArgument(*file.name_, "is not valid JSON: {}", simdjson::error_message(error));
  }
  if (!file.root_.is_object()) return InvalidArgument(*file.name_, "must hold a JSON object");
  return file;
}

}  // namespace roost
