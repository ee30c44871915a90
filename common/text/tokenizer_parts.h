// Internals of the tokenizer: what the loader passes to the constructor, and the buffers of Encode.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "common/text/regex/rewrite_bounds.h"
#include "common/text/tokenizer.h"

namespace roost {

struct Tokenizer::Parts {
  text::BpeModel model;
  text::Normalizer normalizer;
  text::AddedTokens added;
  text::PreTokenizer pre_tokenizer;
  text::SpecialTokenFrame frame;
  text::TokenDecoder decoder;
};

struct Tokenizer::Scratch {
  text::RegexScratch regex;
  text::BpeScratch bpe;
  text::PreTokenizeScratch pre_tokenize;
  std::size_t rewritten_left = 0;  // bytes that the rest of the text may still become
  std::size_t max_tokens = 0;      // beyond these, the rest of the text is not read
  std::string normalized;
  std::vector<text::AddedTokens::Segment> raw_segments;
  std::vector<text::AddedTokens::Segment> normalized_segments;

  void Start(std::size_t text_bytes, std::size_t most_tokens) {
    regex.budget().Start(text_bytes);
    rewritten_left = text::MaxRewrittenBytes(text_bytes);
    max_tokens = most_tokens;
  }
  // The size of the buffers that grow with the text.
  [[nodiscard]] std::size_t buffer_bytes() const {
    const auto& [now, next, stand_in, matches, parts] = pre_tokenize;
    return now.text.capacity() + next.text.capacity() + stand_in.capacity() + normalized.capacity() +
           (now.pieces.capacity() + next.pieces.capacity() + matches.capacity()) * sizeof(text::TextRange) +
           parts.capacity() * sizeof(text::PreTokenizeScratch::Part) +
           (raw_segments.capacity() + normalized_segments.capacity()) * sizeof(text::AddedTokens::Segment);
  }
};

// Unused scratches. Thread-safe. The last one returned is taken first: its table of words is warm.
class Tokenizer::ScratchPool {
 public:
  // Scratches beyond kMaxIdle, and those that a long text made large, are freed.
  static constexpr std::size_t kMaxIdle = 64;
  static constexpr std::size_t kMaxKeptBytes = 16 * 1024 * 1024;

  [[nodiscard]] std::unique_ptr<Scratch> Take() {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        std::unique_ptr<Scratch> scratch = std::move(idle_.back());
        idle_.pop_back();
        return scratch;
      }
    }
    return std::make_unique<Scratch>();
  }

  void GiveBack(std::unique_ptr<Scratch> scratch) {
    if (scratch->buffer_bytes() > kMaxKeptBytes) return;
    const std::lock_guard lock(mutex_);
    if (idle_.size() < kMaxIdle) idle_.push_back(std::move(scratch));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Scratch>> idle_;  // guarded by mutex_
};

}  // namespace roost
