// Cuts a text that arrives in pieces before the first stop string in it, wherever the pieces' borders lie.
//
//   "…He said ST" + "OP it"   with stop "STOP"   →   "…He said "
//
// Of several stop strings the one that ends first counts, of those the longest: what a reader of single bytes would see
// first, so the cut does not depend on the borders. What could be the beginning of a stop string is held back until
// more text decides. Pure; not thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace roost::router {

class StopFilter {
 public:
  // No stop string is empty. None at all is fine: then text passes as it comes.
  explicit StopFilter(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // Text that is now certain to come before any stop string. After a stop string all is swallowed.
  [[nodiscard]] std::string Push(std::string_view piece);
  // The text has ended: what was held back.
  [[nodiscard]] std::string Flush();

  [[nodiscard]] bool stopped() const { return stopped_; }

 private:
  // Where it begins in held_.
  [[nodiscard]] std::optional<std::size_t> FirstStop() const;
  // Bytes at the end of held_ that begin a stop string.
  [[nodiscard]] std::size_t HeldLength() const;

  const std::vector<std::string> stops_;
  std::string held_;  // a proper prefix of some stop string, between calls
  bool stopped_ = false;
};

}  // namespace roost::router
