// A set of Unicode's code points, and how a class of a regular expression names it. A value.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace roost::grammar {

class CodePoints {
 public:
  static constexpr std::uint32_t kLast = 0x10FFFF;
  using Range = std::pair<std::uint32_t, std::uint32_t>;  // both ends belong to it

  explicit CodePoints(std::vector<Range> ranges) : ranges_(std::move(ranges)) { Normalise(); }

  [[nodiscard]] bool empty() const { return ranges_.empty(); }
  [[nodiscard]] const std::vector<Range>& ranges() const { return ranges_; }

  void Add(const CodePoints& other);
  [[nodiscard]] CodePoints Complement() const;
  [[nodiscard]] CodePoints And(const CodePoints& other) const;

  // As a class, or one character. Not of the empty set.
  [[nodiscard]] std::string Text() const;
  // One character, in a class or outside: letters, digits and what is not ASCII as they are, others as \xHH.
  [[nodiscard]] static std::string TextOf(std::uint32_t character);

 private:
  void Normalise();

  std::vector<Range> ranges_;  // sorted, apart from each other
};

}  // namespace roost::grammar
