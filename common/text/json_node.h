// A value of a parsed JSON file together with its path, so that every error names the file and the place:
// "tokenizer.json: pre_tokenizer.pretokenizers[1].type: must be a string".
//
// A node is a view: the simdjson parser that owns the document and the source name outlive it. An absent member and a
// null one are the same, as in the files of this family.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"

namespace roost::text {

class JsonNode {
 public:
  JsonNode(simdjson::dom::element element, std::string path, const std::string& source)
      : element_(element), path_(std::move(path)), source_(&source) {}

  // The member `key`, or nothing when it is absent or null. Fails when this node is not an object.
  [[nodiscard]] Result<std::optional<JsonNode>> Find(std::string_view key) const;
  // The member `key`, which must be there.
  [[nodiscard]] Result<JsonNode> Get(std::string_view key) const;

  [[nodiscard]] Result<std::string_view> AsString() const;
  [[nodiscard]] Result<bool> AsBool() const;
  // 0 … limit-1.
  [[nodiscard]] Result<std::uint32_t> AsCount(std::uint32_t limit) const;
  // A string of exactly one code point.
  [[nodiscard]] Result<std::string_view> AsCharacter() const;
  [[nodiscard]] Result<simdjson::dom::object> AsObject() const;
  // The elements of an array. Meant for short ones: each carries its path.
  [[nodiscard]] Result<std::vector<JsonNode>> AsArray() const;

  // Get and As… in one call.
  [[nodiscard]] Result<std::string_view> GetString(std::string_view key) const;
  [[nodiscard]] Result<bool> GetBool(std::string_view key) const;
  [[nodiscard]] Result<std::vector<JsonNode>> GetArray(std::string_view key) const;
  // Find and As… in one call; `fallback` when absent.
  [[nodiscard]] Result<bool> FindBool(std::string_view key, bool fallback) const;

  // An error with `message` about this node.
  [[nodiscard]] Error Complain(std::string_view message) const;
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] simdjson::dom::element element() const { return element_; }

 private:
  [[nodiscard]] std::string PathOf(std::string_view key) const;

  simdjson::dom::element element_;
  std::string path_;
  const std::string* source_;
};

}  // namespace roost::text
