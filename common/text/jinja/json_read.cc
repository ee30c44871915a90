#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/json/kept_numbers.h"
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
    case dom::element_type::UINT64: return Value::KeptNumber(std::to_string(std::uint64_t(element)));
    case dom::element_type::DOUBLE: return Value::Float(double(element));
    case dom::element_type::STRING: break;
    case dom::element_type::BOOL: return Value::Bool(bool(element));
    case dom::element_type::NULL_VALUE: return Value::None();
  }
  const auto kept = json::KeptNumber(element);
  return kept ? Value::KeptNumber(std::string(*kept)) : Value::String(std::string(std::string_view(element)));
}

}  // namespace

Result<Value> FromJson(std::string_view text, std::string_view name) {
  const json::Document document(text, json::Document::KeepNumbers{.max_depth = std::size_t{kMaxJsonDepth} + 1});
  if (!document.ok()) return InvalidArgument(std::string(name), "is not valid JSON: {}", document.error());
  return FromJson(document.root(), name);
}

Result<Value> FromJson(json::Element value, std::string_view name) {
  std::string path(name);
  return Convert(value, path);
}

}  // namespace roost::jinja
