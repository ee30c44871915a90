// One text on its way to ids, segment by segment. The segments are what Tokenizer::Encode works on: added tokens as
// they stand in the text, and the text in between. Where they lie depends on the whole text; given that, the ids of a
// text are the ids of its segments, one after the other, each a function of that segment alone and of whether it is the
// first. So whoever knows the ids of the first segments may skip them:
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

  // `text` is valid UTF-8. Encoding stops once there are more than `max_tokens` ids. Errors are Encode's.
  static Result<TextReading> Begin(const Tokenizer& tokenizer, PromptText text, std::size_t max_tokens);

  TextReading(TextReading&& other) noexcept;
  TextReading& operator=(TextReading&&) = delete;
  ~TextReading();

  // They cover the text, front to back.
  [[nodiscard]] std::span<const Segment> segments() const;

  // The segments before `segment` are known, and so is what rewritten_bytes() was behind them: at most
  // most_rewritten_bytes().
  void Skip(std::size_t segment, std::size_t rewritten_bytes);
  // Appends the ids of the next segments, up to `segment`. After an error nothing may be called.
  Result<void> EncodeUpTo(std::size_t segment, std::vector<TokenId>& ids);
  // Bytes that the rules made of the segments so far, and how many they may make of the whole text.
  [[nodiscard]] std::size_t rewritten_bytes() const;
  [[nodiscard]] std::size_t most_rewritten_bytes() const;

 private:
  TextReading(const Tokenizer& tokenizer, PromptText text, std::unique_ptr<Tokenizer::Scratch> scratch);

  const Tokenizer& tokenizer_;
  const PromptText text_;
  std::unique_ptr<Tokenizer::Scratch> scratch_;  // null in what was moved from
  std::size_t next_ = 0;                         // segment
};

}  // namespace roost
