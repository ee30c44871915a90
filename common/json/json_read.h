// Reads JSON that another program wrote: the values that are there and of the wanted type. Values are views of their
// Document, or of the simdjson parser that owns them.
#pragma once

#include <simdjson.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace roost::json {

using Element = simdjson::dom::element;
using Array = simdjson::dom::array;
using Object = simdjson::dom::object;

// The value of a member or, if `place` is empty or begins with a slash, at a JSON pointer. Nothing if it is absent, out
// of range or of another type than T: Element (any), Object, Array, std::string_view, bool, double, std::uint64_t,
// std::uint32_t.
template <typename T, typename Container>
[[nodiscard]] std::optional<T> At(const Container& container, std::string_view place) {
  const auto found = place.empty() || place.starts_with('/') ? container.at_pointer(place) : container[place];
  std::conditional_t<std::is_same_v<T, std::uint32_t>, std::uint64_t, T> value{};
  if (found.get(value) != simdjson::SUCCESS) return std::nullopt;
  if constexpr (std::is_same_v<T, std::uint32_t>) {
    if (value > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
    return static_cast<std::uint32_t>(value);
  } else {
    return value;
  }
}

// A list's elements: simdjson's own at() counts from the front each time.
[[nodiscard]] inline std::vector<Element> Elements(const Array& list) { return {list.begin(), list.end()}; }

// The elements of the array at `place`; none if there is no array.
template <typename Container>
[[nodiscard]] std::vector<Element> ElementsAt(const Container& container, std::string_view place) {
  const std::optional<Array> list = At<Array>(container, place);
  return list ? Elements(*list) : std::vector<Element>();
}

// A parsed text. Neither copied nor moved, because its values refer to it.
class Document {
 public:
  // Holds nothing until Parse.
  Document() = default;
  explicit Document(std::string_view text) { Parse(text); }
  // With the text of numbers that simdjson can not hold (kept_numbers.h); at most `max_depth` levels.
  struct KeepNumbers {
    std::size_t max_depth = simdjson::DEFAULT_MAX_DEPTH;
  };
  Document(std::string_view text, KeepNumbers options);
  Document(const Document&) = delete;
  Document& operator=(const Document&) = delete;

  // The values of before are void then; their memory is used again.
  void Parse(std::string_view text);

  [[nodiscard]] bool ok() const { return error_ == simdjson::SUCCESS; }
  // Why the text is not JSON.
  [[nodiscard]] std::string_view error() const { return simdjson::error_message(error_); }
  // Null if the text is not JSON.
  [[nodiscard]] Element root() const { return root_; }

 private:
  simdjson::dom::parser parser_;
  simdjson::error_code error_ = simdjson::EMPTY;
  Element root_;
};

}  // namespace roost::json
