#include "common/wire/handshakes.h"

#include <algorithm>
#include <utility>

namespace roost::wire {

std::uint64_t Handshakes::Take(std::size_t index) {
  const std::uint64_t id = waiting_[index].id;
  waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(index));
  return id;
}

std::optional<std::uint64_t> Handshakes::Enter(std::uint64_t id, std::string source, Instant now) {
  const auto is_same = [&source](const Waiting& waiting) { return waiting.source == source; };
  const auto of_source = static_cast<std::size_t>(std::count_if(waiting_.begin(), waiting_.end(), is_same));
  std::optional<std::uint64_t> left;
  if (of_source >= kMaxOfASource) {
    left = Take(static_cast<std::size_t>(std::find_if(waiting_.begin(), waiting_.end(), is_same) - waiting_.begin()));
  } else if (waiting_.size() >= kMost) {
    left = Take(0);
  }
  waiting_.push_back({id, std::move(source), now});
  return left;
}

void Handshakes::Leave(std::uint64_t id) {
  std::erase_if(waiting_, [id](const Waiting& waiting) { return waiting.id == id; });
}

std::optional<std::uint64_t> Handshakes::TakeOldest() {
  if (waiting_.empty()) return std::nullopt;
  return Take(0);
}

std::optional<std::uint64_t> Handshakes::TakeLate(Instant now) {
  if (waiting_.empty() || now - waiting_.front().since < kTime) return std::nullopt;
  return Take(0);
}

}  // namespace roost::wire
