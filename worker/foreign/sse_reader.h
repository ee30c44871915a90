// Reads server-sent events from bytes as they come, however they are cut. Only `data` matters to an engine's streams:
// other fields and comments are skipped. Several data lines of one event are joined by line feeds.
//
//   data: {"a":1}⏎⏎data: [DONE]⏎⏎          two events; a line may end with CR LF too
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace roost::worker::foreign {

class SseReader {
 public:
  // The most bytes of one event, with the line that is not complete yet. The first chunk of vLLM repeats the prompt: up
  // to 2^20 tokens.
  static constexpr std::size_t kMaxEventBytes = std::size_t{16} << 20U;

  explicit SseReader(std::size_t max_event_bytes = kMaxEventBytes) : max_event_bytes_(max_event_bytes) {}

  // Calls `on_event` with the data of each event that is complete, in order. Stops at its first error. kDataLoss when
  // an event is too large; then the reader is of no more use. O(bytes).
  [[nodiscard]] Result<void> Read(std::string_view bytes,
                                  const std::function<Result<void>(std::string_view)>& on_event);

 private:
  [[nodiscard]] Result<void> ReadLine(std::string_view line,
                                      const std::function<Result<void>(std::string_view)>& on_event);

  const std::size_t max_event_bytes_;
  std::string partial_line_;
  std::string data_;
  bool has_data_ = false;
};

}  // namespace roost::worker::foreign
