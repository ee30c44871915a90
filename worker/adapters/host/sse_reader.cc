#include "worker/adapters/host/adapter_engine.h"

#include <utility>

namespace roost::worker::adapters {

Result<void> SseReader::Read(std::string_view bytes, const std::function<Result<void>(std::string_view)>& on_event) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::string_view piece = bytes.substr(0, end);
    if (partial_line_.size() + data_.size() + piece.size() > max_event_bytes_) {
      return DataLoss("stream", "an event has more than {} bytes", max_event_bytes_);
    }
    partial_line_.append(piece);
    if (end == std::string_view::npos) return {};
    bytes.remove_prefix(end + 1);
    const std::string line = std::exchange(partial_line_, {});
    ROOST_RETURN_IF_ERROR(ReadLine(line, on_event));
  }
  return {};
}

Result<void> SseReader::ReadLine(std::string_view line, const std::function<Result<void>(std::string_view)>& on_event) {
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  if (line.empty()) {
    if (!std::exchange(has_data_, false)) return {};
    return on_event(std::exchange(data_, {}));
  }
  constexpr std::string_view kData = "data:";
  if (line.substr(0, kData.size()) != kData) return {};
  line.remove_prefix(kData.size());
  if (!line.empty() && line.front() == ' ') line.remove_prefix(1);
  if (std::exchange(has_data_, true)) data_ += '\n';
  data_ += line;
  return {};
}

}  // namespace roost::worker::adapters
