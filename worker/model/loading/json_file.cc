#include "worker/model/loading/json_file.h"

#include <fstream>
#include <limits>

namespace roost::worker {
namespace {

// The value at `key` as a T, or an Error that it must be a `kind`.
template <typename T>
Result<std::optional<T>> Typed(const JsonObject& object, std::string_view key, std::string_view kind) {
  const auto element = object.Find(key);
  if (!element) return std::optional<T>();
  T value{};
  if (element->get(value) != simdjson::SUCCESS) return object.Complain(key, fmt::format("must be {}", kind));
  return std::optional<T>(value);
}

}  // namespace

std::optional<simdjson::dom::element> JsonObject::Find(std::string_view key) const {
  simdjson::dom::element element;
  if (object_.at_key(key).get(element) != simdjson::SUCCESS || element.is_null()) return std::nullopt;
  return element;
}

bool JsonObject::IsNull(std::string_view key) const {
  simdjson::dom::element element;
  return object_.at_key(key).get(element) == simdjson::SUCCESS && element.is_null();
}

std::vector<std::string_view> JsonObject::Keys() const {
  std::vector<std::string_view> keys;
  for (const simdjson::dom::key_value_pair entry : object_) {
    if (!entry.value.is_null()) keys.push_back(entry.key);
  }
  return keys;
}

Error JsonObject::Complain(std::string_view key, std::string_view message) const {
  return InvalidArgument(*file_, "{}{}: {}", path_, key, message);
}

Result<std::optional<std::uint32_t>> JsonObject::Count(std::string_view key) const {
  constexpr auto kKind = "an integer of 0 to 4294967295";
  ROOST_ASSIGN_OR_RETURN(const auto value, Typed<std::uint64_t>(*this, key, kKind));
  if (!value) return std::optional<std::uint32_t>();
  if (*value > std::numeric_limits<std::uint32_t>::max()) return Complain(key, fmt::format("must be {}", kKind));
  return std::optional<std::uint32_t>(static_cast<std::uint32_t>(*value));
}

Result<std::optional<double>> JsonObject::Number(std::string_view key) const {
  return Typed<double>(*this, key, "a number");
}

Result<std::optional<bool>> JsonObject::Bool(std::string_view key) const {
  return Typed<bool>(*this, key, "true or false");
}

Result<std::optional<std::string>> JsonObject::String(std::string_view key) const {
  ROOST_ASSIGN_OR_RETURN(const auto value, Typed<std::string_view>(*this, key, "a string"));
  if (!value) return std::optional<std::string>();
  return std::optional<std::string>(*value);
}

Result<std::optional<JsonObject>> JsonObject::Object(std::string_view key) const {
  ROOST_ASSIGN_OR_RETURN(const auto value, Typed<simdjson::dom::object>(*this, key, "an object"));
  if (!value) return std::optional<JsonObject>();
  return std::optional<JsonObject>(JsonObject(*value, *file_, fmt::format("{}{}.", path_, key)));
}

Result<std::vector<simdjson::dom::element>> JsonObject::Array(std::string_view key) const {
  ROOST_ASSIGN_OR_RETURN(const auto value, Typed<simdjson::dom::array>(*this, key, "an array"));
  std::vector<simdjson::dom::element> elements;
  if (value) elements.assign(value->begin(), value->end());
  return elements;
}

Result<std::uint32_t> JsonObject::RequiredCount(std::string_view key) const {
  ROOST_ASSIGN_OR_RETURN(const auto value, Count(key));
  if (!value) return Complain(key, "is missing");
  if (*value == 0) return Complain(key, "must not be 0");
  return *value;
}

Result<double> JsonObject::NumberOr(std::string_view key, double fallback) const {
  ROOST_ASSIGN_OR_RETURN(const auto value, Number(key));
  return value.value_or(fallback);
}

Result<bool> JsonObject::BoolOr(std::string_view key, bool fallback) const {
  ROOST_ASSIGN_OR_RETURN(const auto value, Bool(key));
  return value.value_or(fallback);
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
  simdjson::dom::element root;
  simdjson::error_code error = file.parser_->allocate(file.text_->size() + 1, kMaxDepth);
  // The parser copies the text into padded memory of its own.
  if (error == simdjson::SUCCESS) error = file.parser_->parse(*file.text_).get(root);
  if (error != simdjson::SUCCESS) {
    return InvalidArgument(*file.name_, "is not valid JSON: {}", simdjson::error_message(error));
  }
  if (root.get(file.root_) != simdjson::SUCCESS) return InvalidArgument(*file.name_, "must hold a JSON object");
  return file;
}

}  // namespace roost::worker
