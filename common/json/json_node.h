// A value of a parsed JSON file together with its path, so that every error names the file and the place:
// "tokenizer.json: pre_tokenizer.pretokenizers[1].type: must be a string".
//
// A node is a view: the simdjson parser that owns the document and the source name outlive it. An absent member and a
// null one are the same, as in the files of this family.
#pragma once

#include <simdjson.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/base/small_file.h"

namespace roost {

class JsonNode {
 public:
  JsonNode(simdjson::dom::element element, std::string path, const std::string& source)
      : element_(element), path_(std::move(path)), source_(&source) {}

  // The member `key`, or nothing when it is absent or null. Fails when this node is not an object.
  [[nodiscard]] Result<std::optional<JsonNode>> Find(std::string_view key) const;
  // The same without a path; nothing when this node is not an object.
  [[nodiscard]] std::optional<simdjson::dom::element> Member(std::string_view key) const;
  // The member `key`, which must be there.
  [[nodiscard]] Result<JsonNode> Get(std::string_view key) const;

  [[nodiscard]] Result<std::string_view> AsString() const;
  // 0 … limit-1.
  [[nodiscard]] Result<std::uint32_t> AsCount(std::uint32_t limit) const;
  // A string of exactly one code point.
  [[nodiscard]] Result<std::string_view> AsCharacter() const;
  [[nodiscard]] Result<simdjson::dom::object> AsObject() const;
  // The elements of an array. Meant for short ones: each carries its path.
  [[nodiscard]] Result<std::vector<JsonNode>> AsArray() const;

  // A member that must be there, that may be absent, or that has a default. T: bool, double, std::uint32_t,
  // std::string, std::string_view, std::vector<JsonNode>. An Error for a value of another type.
  template <typename T>
  [[nodiscard]] Result<T> Get(std::string_view key) const;
  template <typename T>
  [[nodiscard]] Result<std::optional<T>> Find(std::string_view key) const;
  template <typename T>
  [[nodiscard]] Result<T> Or(std::string_view key, T fallback) const;
  [[nodiscard]] Result<std::uint32_t> GetCount(std::string_view key) const;  // not 0
  [[nodiscard]] Result<std::optional<JsonNode>> Object(std::string_view key) const;
  [[nodiscard]] Result<std::vector<simdjson::dom::element>> Array(std::string_view key) const;  // empty when absent

  // An error with `message` about this node, or about its member `key`.
  [[nodiscard]] Error Complain(std::string_view message) const;
  [[nodiscard]] Error Complain(std::string_view key, std::string_view message) const;
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] simdjson::dom::element element() const { return element_; }

 private:
  [[nodiscard]] std::string PathOf(std::string_view key) const;
  template <typename T>
  [[nodiscard]] Result<T> As() const;

  simdjson::dom::element element_;
  std::string path_;
  const std::string* source_;
};

template <>
Result<bool> JsonNode::As() const;
template <>
Result<double> JsonNode::As() const;
template <>
Result<std::uint32_t> JsonNode::As() const;
template <>
Result<std::string> JsonNode::As() const;
template <>
Result<std::string_view> JsonNode::As() const;
template <>
Result<std::vector<JsonNode>> JsonNode::As() const;

template <typename T>
Result<T> JsonNode::Get(std::string_view key) const {
  ROOST_ASSIGN_OR_RETURN(const JsonNode member, Get(key));
  return member.As<T>();
}

template <typename T>
Result<std::optional<T>> JsonNode::Find(std::string_view key) const {
  ROOST_ASSIGN_OR_RETURN(const std::optional<JsonNode> member, Find(key));
  if (!member) return std::optional<T>();
  ROOST_ASSIGN_OR_RETURN(T value, member->As<T>());
  return std::optional<T>(std::move(value));
}

template <typename T>
Result<T> JsonNode::Or(std::string_view key, T fallback) const {
  ROOST_ASSIGN_OR_RETURN(std::optional<T> value, Find<T>(key));
  return std::move(value).value_or(std::move(fallback));
}

// A small JSON file, validated as a whole, whose root is an object.
class JsonFile {
 public:
  static constexpr std::size_t kMaxDepth = 64;

  [[nodiscard]] static Result<JsonFile> Load(const std::filesystem::path& path, std::size_t max_bytes);
  // Errors name the file as `name`.
  [[nodiscard]] static Result<JsonFile> Parse(std::string text, std::string name);

  [[nodiscard]] const std::string& text() const { return *text_; }
  [[nodiscard]] JsonNode root() const { return {root_, "", *name_}; }

 private:
  JsonFile() = default;

  // Behind pointers, so that nodes survive a move of the file.
  std::unique_ptr<std::string> name_;
  std::unique_ptr<std::string> text_;
  std::unique_ptr<simdjson::dom::parser> parser_;
  simdjson::dom::element root_;
};

}  // namespace roost
