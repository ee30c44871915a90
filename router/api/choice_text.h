// One choice of an answer: its tokens become text, cut at stop strings and stop tokens, counted.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/text/tokenizer.h"
#include "router/api/stop_filter.h"

namespace roost::router {

struct TextOptions {
  std::vector<std::string> stop = {};
  StopText stop_text = StopText::kOmit;
  SpecialTokenOutput special_text = SpecialTokenOutput::kSkip;
  std::vector<TokenId> shown = {};  // special tokens whose texts are wanted even so: markers that a parser looks for
};

class ChoiceText {
 public:
  ChoiceText(std::shared_ptr<const Tokenizer> tokenizer, TextOptions options)
      // The text goes on after the prompt, so a space in front of its first word is its own.
      : stream_(std::move(tokenizer), options.special_text, StreamStart::kContinuation),
        shown_(std::move(options.shown)),
        stop_filter_(std::make_unique<StopFilter>(std::move(options.stop), options.stop_text)) {}

  // The text that became certain; often empty. What comes after a stop string is swallowed and not counted. A token
  // among `stop_tokens` ends the text and is no part of it.
  [[nodiscard]] std::string Push(TokenId token, const std::vector<TokenId>& stop_tokens);
  // What was held back. Nothing may be pushed after it.
  [[nodiscard]] std::string Flush();

  // A stop string was found.
  [[nodiscard]] bool stopped() const { return stop_filter_->stopped(); }
  // Which one; null when none was.
  [[nodiscard]] const std::string* stopped_by() const { return stop_filter_->stopped_by(); }
  [[nodiscard]] std::uint32_t token_count() const { return token_count_; }

 private:
  TokenStream stream_;
  std::vector<TokenId> shown_;
  std::unique_ptr<StopFilter> stop_filter_;  // it does not move: it points into itself
  std::uint32_t token_count_ = 0;
};

}  // namespace roost::router
