// Reads small JSON files of a model folder, with errors that name the file and the key: "…/config.json:
// rope_scaling.factor: must be a number". Null means absent, as it does in these files.
#pragma once

#include <simdjson.h>

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

namespace roost::worker {

// A view of an object inside a JsonFile, which outlives it.
class JsonObject {
 public:
  JsonObject(simdjson::dom::object object, const std::string& file, std::string path)
      : object_(object), file_(&file), path_(std::move(path)) {}

  // Empty when absent or null; an Error for a value of another type (for counts: not an integer of 0 … 2^32-1).
  [[nodiscard]] Result<std::optional<std::uint32_t>> Count(std::string_view key) const;
  [[nodiscard]] Result<std::optional<double>> Number(std::string_view key) const;
  [[nodiscard]] Result<std::optional<bool>> Bool(std::string_view key) const;
  [[nodiscard]] Result<std::optional<std::string>> String(std::string_view key) const;
  [[nodiscard]] Result<std::optional<JsonObject>> Object(std::string_view key) const;
  [[nodiscard]] Result<std::vector<simdjson::dom::element>> Array(std::string_view key) const;  // empty when absent

  // The same for required keys, where absence is an Error, and for keys with a default.
  [[nodiscard]] Result<std::uint32_t> RequiredCount(std::string_view key) const;
  [[nodiscard]] Result<double> NumberOr(std::string_view key, double fallback) const;
  [[nodiscard]] Result<bool> BoolOr(std::string_view key, bool fallback) const;

  [[nodiscard]] std::optional<simdjson::dom::element> Find(std::string_view key) const;
  // For the few keys where null and absence mean different things.
  [[nodiscard]] bool IsNull(std::string_view key) const;
  // The keys that are not null. They live as long as the file.
  [[nodiscard]] std::vector<std::string_view> Keys() const;
  [[nodiscard]] Error Complain(std::string_view key, std::string_view message) const;

 private:
  simdjson::dom::object object_;
  const std::string* file_;
  std::string path_;  // prefix of its keys in errors, like "rope_scaling."
};

// Owns the parsed document. The whole file is validated.
class JsonFile {
 public:
  static constexpr std::size_t kMaxDepth = 64;

  [[nodiscard]] static Result<JsonFile> Load(const std::filesystem::path& path, std::size_t max_bytes);
  // Errors name the file as `name`.
  [[nodiscard]] static Result<JsonFile> Parse(std::string text, std::string name);

  [[nodiscard]] const std::string& text() const { return *text_; }
  [[nodiscard]] JsonObject root() const { return {root_, *name_, ""}; }

 private:
  JsonFile() = default;

  // Behind pointers, so that views survive a move of the file.
  std::unique_ptr<std::string> name_;
  std::unique_ptr<std::string> text_;
  std::unique_ptr<simdjson::dom::parser> parser_;
  simdjson::dom::object root_;
};

}  // namespace roost::worker
