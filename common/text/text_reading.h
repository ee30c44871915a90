// One text on its way to ids, segment by segment. Segments are the units of Tokenizer::Encode: added tokens, and the
// text between them. Their places depend on the whole text. Given these, the text's ids are the ids of its segments in
// order, and a segment's ids depend only on the segment and on whether it is the first. So a caller that knows the ids
// of the first segments may skip them:
//
//   <|im_start|> user\nHi <|im_end|> \n <|im_start|> …
//   └──────── Skip ────────────────┘└── EncodeUpTo ──
//
// One thread at a time. The tokenizer and the text outlive it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/text/added_tokens.h"
#include "common/text/prompt_text.h"
#include "common/text/tokenizer.h"

namespace roost {

class TextReading {
 public:
  using Segment = text::AddedTokens::Segment;

  // `text` is valid UTF-8. Encoding stops once there are more than `max_tokens` ids. Errors are those of Encode.
  static Result<TextReading> Begin(const Tokenizer& tokenizer, PromptText text, std::size_t max_tokens);

  TextReading(TextReading&& other) noexcept;
  TextReading& operator=(TextReading&&) = delete;
  ~TextReading();

  // The segments cover the text, front to back.
  [[nodiscard]] std::span<const Segment> segments() const;

  // Skips the segments before `segment`. The caller knows their ids, and rewritten_bytes() behind them, which is at
  // most most_rewritten_bytes().
  void Skip(std::size_t segment, std::size_t rewritten_bytes);
  // Appends the ids of the next segments, up to `segment`. After an error the object must not be used.
  Result<void> EncodeUpTo(std::size_t segment, std::vector<TokenId>& ids);
  // The bytes that the rules made of the segments so far, and the most that they may make of the whole text.
  [[nodiscard]] std::size_t rewritten_bytes() const;
  [[nodiscard]] std::size_t most_rewritten_bytes() const;

 private:
  TextReading(const Tokenizer& tokenizer, PromptText text, std::unique_ptr<Tokenizer::Scratch> scratch);

  const Tokenizer& tokenizer_;
  const PromptText text_;
  std::unique_ptr<Tokenizer::Scratch> scratch_;  // null after a move
  std::size_t next_ = 0;                         // index of the next segment
};

}  // namespace roost
