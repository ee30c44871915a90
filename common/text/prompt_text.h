// A text to tokenize, and which of its bytes may spell special tokens: those that the author of a chat template wrote.
// All other bytes were given, by a client; there, the text of a special token is ordinary text.
//
//   <|im_start|>user\nHi <|im_end|><|im_end|>     written: [0, 12), [16, 17) and [30, 40)
//
// Here the first <|im_end|> is a user's. A token is special only where every byte of it was written.
#pragma once

#include <span>
#include <string_view>

#include "common/base/byte_range.h"

namespace roost {

struct PromptText {
  std::string_view bytes;
  // In order, not empty, within `bytes`, with given bytes between any two.
  std::span<const ByteRange> written;
};

// A text whose every byte may spell special tokens, as in raw completions. It outlives what prompt() returns.
class WrittenText {
 public:
  explicit WrittenText(std::string_view bytes) : bytes_(bytes), all_{0, bytes.size()} {}

  [[nodiscard]] PromptText prompt() const { return {bytes_, std::span(&all_, bytes_.empty() ? 0 : 1)}; }

 private:
  std::string_view bytes_;
  ByteRange all_;
};

}  // namespace roost
