// Turns the tokens of one choice into text, cuts it at stop strings and stop tokens, and counts the tokens. If a parser
// follows, stop strings come behind it (generation.h), because they apply to what the client sees.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/text/tokenizer.h"

namespace roost::router {

// Cuts a text that arrives in pieces before the first stop string in it, wherever the pieces' borders lie.
//
//   "…He said ST" + "OP it"   with stop "STOP"   →   "…He said "
//
// The stop string that ends first counts; if several end there, the longest. A reader of single bytes would find the
// same one, so the cut does not depend on the borders. Text that could be the beginning of a stop string is held back
// until more text decides. Pure; not thread-safe.

// Leaves the stop string that ended a text out, or in.
enum class StopText { kOmit, kShow };

class StopFilter {
 public:
  // No stop string may be empty. Without stop strings, text passes unchanged.
  explicit StopFilter(std::vector<std::string> stops, StopText stop_text = StopText::kOmit)
      : stops_(std::move(stops)), stop_text_(stop_text) {}

  // Returns text that certainly comes before any stop string, and with kShow the stop string itself. All text after a
  // stop string is dropped.
  [[nodiscard]] std::string Push(std::string_view piece);
  // Returns text in which no stop string counts, behind what was held back.
  [[nodiscard]] std::string Pass(std::string_view piece) { return Flush().append(piece); }
  // The text has ended: returns what was held back.
  [[nodiscard]] std::string Flush();

  [[nodiscard]] bool stopped() const { return stopped_by_ != nullptr; }
  // The stop string that was found, or null.
  [[nodiscard]] const std::string* stopped_by() const { return stopped_by_; }

 private:
  struct Found {
    std::size_t begin = 0;  // in held_
    const std::string* stop = nullptr;
  };
  [[nodiscard]] std::optional<Found> FirstStop() const;
  // The number of bytes at the end of held_ that may begin a stop string.
  [[nodiscard]] std::size_t HeldLength() const;

  const std::vector<std::string> stops_;
  const StopText stop_text_;
  std::string held_;                         // a proper prefix of some stop string, between calls
  const std::string* stopped_by_ = nullptr;  // one of stops_
};

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

  // True if a stop string was found.
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
