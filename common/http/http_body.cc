#include "common/http/http_body.h"

#include <algorithm>
#include <utility>

namespace roost {
namespace {

// With a string's terminating zero, a whole number of pages.
constexpr std::size_t kMaxPieceBytes = 64 * 1024 - 1;

}  // namespace

HttpBody::HttpBody(std::string text) : size_(text.size()) {
  if (!text.empty()) pieces_.push_back(std::move(text));
}

bool HttpBody::TryAppend(std::string_view bytes) {
  while (!bytes.empty()) {
    if (pieces_.empty() || pieces_.back().size() == pieces_.back().capacity()) {
      // Each piece is as large as all before it, up to the maximum, so a body that arrives byte by byte has few pieces.
      const std::size_t capacity = std::min(std::max(bytes.size(), size_), kMaxPieceBytes);
      if (!memory_.TryGrow(capacity + 1 + sizeof(std::string))) return false;
      pieces_.emplace_back().reserve(capacity);
    }
    std::string& last = pieces_.back();
    const std::size_t fits = std::min(bytes.size(), last.capacity() - last.size());
    last.append(bytes.substr(0, fits));
    bytes.remove_prefix(fits);
    size_ += fits;
  }
  return true;
}

std::string HttpBody::TakeText(std::size_t padding) {
  std::vector<std::string> pieces = std::exchange(pieces_, {});
  const std::size_t size = std::exchange(size_, 0);
  if (pieces.size() == 1) return std::move(pieces.front());
  std::string text;
  text.reserve(size + padding);
  for (std::string& piece : pieces) {
    text += piece;
    std::string().swap(piece);
  }
  return text;
}

void HttpBody::PutBack(std::string text) {
  size_ = text.size();
  pieces_.clear();
  if (size_ > 0) pieces_.push_back(std::move(text));
}

}  // namespace roost
