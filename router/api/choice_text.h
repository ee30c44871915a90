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

class ChoiceText {
 public:
  ChoiceText(std::shared_ptr<const Tokenizer> tokenizer, std::vector<std::string> stops)
      // The text goes on after the prompt, so a space in front of its first word is its own.
      : stream_(std::move(tokenizer), SpecialTokenOutput::kSkip, StreamStart::kContinuation),
        stop_filter_(std::move(stops)) {}

  // The text that became certain; often empty. What comes after a stop string is swallowed and not counted. Tokens
  // among `stop_tokens` end the text and are no part of it.
  [[nodiscard]] std::string Push(const std::vector<TokenId>& tokens, const std::vector<TokenId>& stop_tokens);
  // What was held back. Nothing may be pushed after it.
  [[nodiscard]] std::string Flush();

  // A stop string was found.
  [[nodiscard]] bool stopped() const { return stop_filter_.stopped(); }
  [[nodiscard]] std::uint32_t token_count() const { return token_count_; }

 private:
  TokenStream stream_;
  StopFilter stop_filter_;
  std::uint32_t token_count_ = 0;
};

}  // namespace roost::router
