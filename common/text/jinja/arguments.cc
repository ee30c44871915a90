#include "common/text/jinja/arguments.h"

#include <algorithm>

namespace roost::jinja {

Error BoundArguments::WrongType(std::size_t i, std::string_view wanted) const {
  return InvalidArgument("", "{}(): '{}' must be {}, not '{}'", function_, names_[i], wanted, values_[i]->TypeName());
}

Result<std::int64_t> BoundArguments::Int(std::size_t i, std::int64_t fallback) const {
  if (!Has(i)) return fallback;
  const auto integer = values_[i]->ToInteger();
  if (!integer) return WrongType(i, "an integer");
  return *integer;
}

Result<std::string> BoundArguments::String(std::size_t i, std::string_view fallback) const {
  if (!Has(i)) return std::string(fallback);
  if (!values_[i]->is(Kind::kString)) return WrongType(i, "a string");
  return values_[i]->AsString();
}

const Value* Arguments::FindNamed(std::string_view name) const {
  const auto found = std::find_if(named.begin(), named.end(), [&](const auto& entry) { return entry.first == name; });
  return found == named.end() ? nullptr : &found->second;
}

Result<BoundArguments> Arguments::Bind(std::string_view function, std::initializer_list<std::string_view> names,
                                       std::size_t required) const {
  if (positional.size() > names.size()) {
    return InvalidArgument("", "{}() takes at most {} arguments, {} were given", function, names.size(),
                           positional.size());
  }
  std::vector<std::string_view> slots(names);
  std::vector<const Value*> values(slots.size(), nullptr);
  for (std::size_t i = 0; i < positional.size(); ++i) values[i] = &positional[i];
  for (const auto& [name, value] : named) {
    const auto slot = static_cast<std::size_t>(std::find(slots.begin(), slots.end(), name) - slots.begin());
    if (slot == slots.size()) return InvalidArgument("", "{}() has no argument '{}'", function, name);
    if (values[slot] != nullptr) return InvalidArgument("", "{}() was given '{}' twice", function, name);
    values[slot] = &value;
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (values[i] == nullptr) return InvalidArgument("", "{}() lacks the argument '{}'", function, slots[i]);
  }
  return BoundArguments(function, std::move(slots), std::move(values));
}

}  // namespace roost::jinja
