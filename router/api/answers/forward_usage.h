// Reads how many tokens an engine says that a request took which it got unread, from both ends of its answer: engines
// write the usage behind what they computed, or before it. The answer is JSON, or events of it; the last usage counts.
// In a text of the answer its quotes would be escaped.
//
// Not thread-safe. It keeps at most three times kKeptBytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace roost::router {

struct ForwardTokens {
  std::uint64_t prompt = 0;
  std::uint64_t cached = 0;  // of the prompt's
  std::uint64_t output = 0;
};

class UsageReader {
 public:
  static constexpr std::size_t kKeptBytes = 4096;

  // The next bytes of the answer.
  void Add(std::string_view bytes);
  // Nothing: the answer does not tell.
  [[nodiscard]] std::optional<ForwardTokens> Read() const;

 private:
  std::string begin_;
  std::string end_;
};

}  // namespace roost::router
