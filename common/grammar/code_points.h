// A set of Unicode code points, and its notation as a class of a regular expression. A value.
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
  using Range = std::pair<std::uint32_t, std::uint32_t>;  // both ends included

  explicit CodePoints(std::vector<Range> ranges) : ranges_(std::move(ranges)) { Normalise(); }

  [[nodiscard]] bool empty() const { return ranges_.empty(); }
  [[nodiscard]] const std::vector<Range>& ranges() const { return ranges_; }

  void Add(const CodePoints& other);
  [[nodiscard]] CodePoints Complement() const;
  [[nodiscard]] CodePoints And(const CodePoints& other) const;

  // The set as a class, or as one character. Not for the empty set.
  [[nodiscard]] std::string Text() const;
  // The one notation of a character in all that the library reads: texts and classes of regular expressions and of
  // grammars. Letters, digits and non-ASCII characters stand for themselves, others are \uHHHH: the library knows where
  // that ends, while it reads \x with as many hexadecimal digits as follow.
  [[nodiscard]] static std::string TextOf(std::uint32_t character);

 private:
  void Normalise();

  std::vector<Range> ranges_;  // sorted, with gaps between them
};

}  // namespace roost::grammar
