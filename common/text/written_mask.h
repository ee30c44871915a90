// Marks the bytes of a text that were written (prompt_text.h), and follows them through the steps of a normalizer. Only
// for tokenizers that search special tokens in normalised text; hardly any model has one.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "common/base/byte_range.h"
#include "common/text/prompt_text.h"

namespace roost::text {

// One change by a step: these bytes of the text became `size` bytes.
struct Rewrite {
  ByteRange from;
  std::size_t size;
};
// In order, and disjoint; all bytes between are unchanged.
using Rewrites = std::vector<Rewrite>;

class WrittenMask {
 public:
  // The mask of one part of a text. Given spaces count as written: "▁</s>" takes the space at the end of a message with
  // it, and a space can not turn a client's text into a special token.
  WrittenMask(PromptText text, ByteRange part);

  // The bytes that replace others are written if all of those were. Inserted bytes are written.
  void Carry(const Rewrites& rewrites);
  // As in PromptText.
  [[nodiscard]] std::vector<ByteRange> Ranges() const;

 private:
  std::vector<char> written_;  // 1 or 0, one for each byte
};

}  // namespace roost::text
