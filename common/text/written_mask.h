// Which bytes of a text were written (prompt_text.h), carried through the steps of a normalizer. Only for tokenizers
// with special tokens that are looked for in normalised text; hardly any model has them.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "common/base/byte_range.h"
#include "common/text/prompt_text.h"

namespace roost::text {

// What a step did: these bytes of the text became so many.
struct Rewrite {
  ByteRange from;
  std::size_t size;
};
// In order, and disjoint; all bytes between stayed as they were.
using Rewrites = std::vector<Rewrite>;

class WrittenMask {
 public:
  // Of one part of a text. Given spaces count as written: "▁</s>" takes the space at the end of a message with it, and
  // no space makes a special token of what a client gave.
  WrittenMask(PromptText text, ByteRange part);

  // What became of bytes is written if all of them were; so is what a step inserts.
  void Carry(const Rewrites& rewrites);
  // As in PromptText.
  [[nodiscard]] std::vector<ByteRange> Ranges() const;

 private:
  std::vector<char> written_;  // 1 or 0, one for each byte
};

}  // namespace roost::text
