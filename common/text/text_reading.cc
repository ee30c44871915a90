#include "common/text/text_reading.h"

#include <utility>

#include "common/text/tokenizer_parts.h"

namespace roost {

TextReading::TextReading(const Tokenizer& tokenizer, PromptText text, std::unique_ptr<Tokenizer::Scratch> scratch)
    : tokenizer_(tokenizer), text_(text), scratch_(std::move(scratch)) {}

TextReading::TextReading(TextReading&& other) noexcept = default;

TextReading::~TextReading() {
  if (scratch_ != nullptr) tokenizer_.pool_->GiveBack(std::move(scratch_));
}

Result<TextReading> TextReading::Begin(const Tokenizer& tokenizer, PromptText text, std::size_t max_tokens) {
  TextReading reading(tokenizer, text, tokenizer.pool_->Take());
  reading.scratch_->Start(text.bytes.size(), max_tokens);
  ROOST_RETURN_IF_ERROR(tokenizer.SplitText(text, *reading.scratch_));
  return reading;
}

std::span<const TextReading::Segment> TextReading::segments() const { return scratch_->raw_segments; }

void TextReading::Skip(std::size_t segment, std::size_t rewritten_bytes) {
  next_ = segment;
  scratch_->rewritten_left = most_rewritten_bytes() - rewritten_bytes;
}

Result<void> TextReading::EncodeUpTo(std::size_t segment, std::vector<TokenId>& ids) {
  for (; next_ < segment; ++next_) {
    if (ids.size() > scratch_->max_tokens) return {};
    ROOST_RETURN_IF_ERROR(tokenizer_.EncodeSegment(text_, scratch_->raw_segments[next_], *scratch_, ids));
  }
  return {};
}

std::size_t TextReading::rewritten_bytes() const { return most_rewritten_bytes() - scratch_->rewritten_left; }

std::size_t TextReading::most_rewritten_bytes() const { return text::MaxRewrittenBytes(text_.bytes.size()); }

}  // namespace roost
