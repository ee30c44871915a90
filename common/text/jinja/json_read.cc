#include <simdjson.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "common/text/jinja/json.h"

namespace roost::jinja {
namespace {

namespace dom = simdjson::dom;

// `path` names the element; it is extended for children, and restored.
Result<Value> Convert(const dom::element& element, std::string& path);

Result<Value> ConvertArray(const dom::array& array, std::string& path) {
  std::vector<Value> items;
  const std::size_t path_length = path.size();
  for (const dom::element child : array) {
    path += '[' + std::to_string(items.size()) + ']';
    ROOST_ASSIGN_OR_RETURN(Value item, Convert(child, path));
    path.resize(path_length);
    items.push_back(std::move(item));
  }
  return Value::List(std::move(items));
}

Result<Value> ConvertObject(const dom::object& object, std::string& path) {
  Dict dict;
  const std::size_t path_length = path.size();
  for (const dom::key_value_pair field : object) {
    path.append(".").append(field.key);
    ROOST_ASSIGN_OR_RETURN(Value value, Convert(field.value, path));
    path.resize(path_length);
    dict.Set(field.key, std::move(value));
  }
  return Value::Mapping(std::move(dict));
}

Result<Value> Convert(const dom::element& element, std::string& path) {
  switch (element.type()) {
    case dom::element_type::ARRAY: return ConvertArray(dom::array(element), path);
    case dom::element_type::OBJECT: return ConvertObject(dom::object(element), path);
    case dom::element_type::INT64: return Value::Int(std::int64_t(element));
    case dom::element_type::UINT64: return InvalidArgument(path, "is an integer of more than 64 bits with sign");
    case dom::element_type::DOUBLE: return Value::Float(double(element));
    case dom::element_type::STRING: return Value::String(std::string(std::string_view(element)));
    case dom::element_type::BOOL: return Value::Bool(bool(element));
    case dom::element_type::NULL_VALUE: return Value::None();
  }
  return InvalidArgument(path, "is of no JSON type");
}

}  // namespace

Result<Value> FromJson(std::string_view json, std::string_view name) {
  std::string path(name);
  try {
    dom::parser parser;
    if (const auto error = parser.allocate(json.size(), static_cast<std::size_t>(kMaxJsonDepth) + 1)) {
      return InvalidArgument(path, "{}", simdjson::error_message(error));
    }
    const simdjson::padded_string padded(json);
    dom::element root;
    if (const auto error = parser.parse(padded).get(root)) {
      return InvalidArgument(path, "is not valid JSON: {}", simdjson::error_message(error));
    }
    return Convert(root, path);
  } catch (const simdjson::simdjson_error& error) {
    return InvalidArgument(path, "is not valid JSON: {}", error.what());
  }
}

}  // namespace roost::jinja
