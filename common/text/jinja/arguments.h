// Arguments of a call, and how they bind to the parameter names of a built-in function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/text/jinja/value.h"

namespace roost::jinja {

// The result of Bind: one slot per parameter. Reading with a default checks the type; an error names the parameter.
class BoundArguments {
 public:
  BoundArguments(std::string_view function, std::vector<std::string_view> names, std::vector<const Value*> values)
      : function_(function), names_(std::move(names)), values_(std::move(values)) {}

  [[nodiscard]] bool Has(std::size_t i) const { return values_[i] != nullptr; }
  [[nodiscard]] bool HasNotNone(std::size_t i) const { return Has(i) && !values_[i]->is(Kind::kNone); }
  // Requires Has(i).
  [[nodiscard]] const Value& operator[](std::size_t i) const { return *values_[i]; }
  [[nodiscard]] Value Or(std::size_t i, const Value& fallback) const { return Has(i) ? *values_[i] : fallback; }
  [[nodiscard]] bool IsTrue(std::size_t i) const { return Has(i) && values_[i]->IsTrue(); }
  [[nodiscard]] Result<std::int64_t> Int(std::size_t i, std::int64_t fallback) const;
  [[nodiscard]] Result<std::string> String(std::size_t i, std::string_view fallback) const;

 private:
  [[nodiscard]] Error WrongType(std::size_t i, std::string_view wanted) const;

  std::string_view function_;
  std::vector<std::string_view> names_;
  std::vector<const Value*> values_;
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  // The value of `name`; null when it was not given.
  [[nodiscard]] const Value* FindNamed(std::string_view name) const;

  // Binds to `names` in order; the first `required` must be given. The result refers to this object.
  [[nodiscard]] Result<BoundArguments> Bind(std::string_view function, std::initializer_list<std::string_view> names,
                                            std::size_t required) const;
};

}  // namespace roost::jinja
