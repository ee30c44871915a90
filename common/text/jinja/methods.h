// Python's methods of str, list, tuple and dict. All their public names are known, so that an attribute with such a
// name never reads a dict's entry where Python would not. Those that no template needs are errors when called.
#pragma once

#include <string_view>

#include "common/text/jinja/objects.h"
#include "common/text/jinja/value.h"

namespace roost::jinja {

// The methods with one name; null for a type without such a method.
struct MethodSet {
  MethodFunction of_string = nullptr;
  MethodFunction of_list = nullptr;
  MethodFunction of_tuple = nullptr;
  MethodFunction of_dict = nullptr;

  [[nodiscard]] MethodFunction For(const Value& value) const;
};

[[nodiscard]] MethodSet FindMethods(std::string_view name);

// The tables behind FindMethods, one per file.
[[nodiscard]] MethodFunction FindStringMethod(std::string_view name);
// isdigit, isspace and so on; FindStringMethod includes them.
[[nodiscard]] MethodFunction FindCharacterTest(std::string_view name);
[[nodiscard]] MethodFunction FindListMethod(std::string_view name);
[[nodiscard]] MethodFunction FindTupleMethod(std::string_view name);
[[nodiscard]] MethodFunction FindDictMethod(std::string_view name);

// For names that Python has and this interpreter does not support.
Result<Value> UnsupportedMethod(Runtime& runtime, const Value& self, const Arguments& arguments);

}  // namespace roost::jinja
