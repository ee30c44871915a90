// Turns the tokens of one choice into text, cuts it at stop strings and stop tokens, and counts the tokens. If a parser
// follows, stop strings come behind it (generation.h), because they apply to what the client sees.
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
  std::vector<TokenId> shown = {};  // special tokens that become text in any case: markers that a parser looks for
};

class ChoiceText {
 public:
  ChoiceText(std::shared_ptr<const Tokenizer> tokenizer, TextOptions options)
      // The text continues the prompt, so a space in front of its first word belongs to the text.
      : stream_(std::move(tokenizer), options.special_text, StreamStart::kContinuation),
        shown_(std::move(options.shown)),
        stop_filter_(std::make_unique<StopFilter>(std::move(options.stop), options.stop_text)) {}

  // Returns the text that became certain; often empty. Tokens after a stop string are dropped and not counted. A token
  // among `stop_tokens` ends the text and is not part of it.
  [[nodiscard]] std::string Push(TokenId token, const std::vector<TokenId>& stop_tokens);
  // Returns the text that was held back. Push must not be called afterwards.
  [[nodiscard]] std::string Flush();

  // Whether a stop string was found.
  [[nodiscard]] bool stopped() const { return stop_filter_->stopped(); }
  // The stop string that ended it; null when none did.
  [[nodiscard]] const std::string* stopped_by() const { return stop_filter_->stopped_by(); }
  [[nodiscard]] std::uint32_t token_count() const { return token_count_; }

 private:
  TokenStream stream_;
  std::vector<TokenId> shown_;
  std::unique_ptr<StopFilter> stop_filter_;  // behind a pointer, because it must not move: it points into itself
  std::uint32_t token_count_ = 0;
};

}  // namespace roost::router
