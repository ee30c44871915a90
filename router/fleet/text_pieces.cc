#include "router/fleet/text_pieces.h"

#include <algorithm>
#include <cstring>

namespace roost::router {

void TextPieces::Append(std::string_view text) {
  constexpr std::string_view kEnd("\xff");  // which no UTF-8 text contains
  Fill(text);
  Fill(kEnd);
}

void TextPieces::Fill(std::string_view bytes) {
  while (!bytes.empty() && !is_full()) {
    const std::size_t taken = std::min(bytes.size(), kPieceBytes - size_);
    std::memcpy(reinterpret_cast<char*>(piece_.data()) + size_, bytes.data(), taken);
    bytes.remove_prefix(taken);
    size_ += taken;
    if (size_ < kPieceBytes) return;
    last_ = ChainHash(last_, piece_);
    hashes_.push_back(last_);
    size_ = 0;
  }
}

}  // namespace roost::router
