// Cuts a text that arrives in pieces before the first stop string in it, wherever the pieces' borders lie.
//
//   "…He said ST" + "OP it"   with stop "STOP"   →   "…He said "
//
// The stop string that ends first counts; if several end there, the longest. A reader of single bytes would find the
// same one, so the cut does not depend on the borders. Text that could be the beginning of a stop string is held back
// until more text decides. Pure; not thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace roost::router {

// Whether the text includes the stop string that ended it.
enum class StopText { kOmit, kShow };

class StopFilter {
 public:
  // No stop string may be empty. Without stop strings, text passes unchanged.
  explicit StopFilter(std::vector<std::string> stops, StopText stop_text = StopText::kOmit)
      : stops_(std::move(stops)), stop_text_(stop_text) {}

  // Returns text that certainly comes before any stop string, and with kShow the stop string itself. All text after a
  // stop string is dropped.
  [[nodiscard]] std::string Push(std::string_view piece);
  // The text has ended: returns what was held back.
  [[nodiscard]] std::string Flush();

  [[nodiscard]] bool stopped() const { return stopped_by_ != nullptr; }
  // The stop string that was found, or null.
  [[nodiscard]] const std::string* stopped_by() const { return stopped_by_; }

 private:
  struct Found {
    std::size_t begin = 0;  // in held_
    const std::string* stop = nullptr;
  };
  [[nodiscard]] std::optional<Found> FirstStop() const;
  // The number of bytes at the end of held_ that may begin a stop string.
  [[nodiscard]] std::size_t HeldLength() const;

  const std::vector<std::string> stops_;
  const StopText stop_text_;
  std::string held_;                         // a proper prefix of some stop string, between calls
  const std::string* stopped_by_ = nullptr;  // one of stops_
};

}  // namespace roost::router
