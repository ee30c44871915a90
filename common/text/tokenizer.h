// Text ↔ token ids, as a Hugging Face tokenizer.json defines it: byte-level and SentencePiece-style BPE. The ids equal
// those of the library that defines the format (tokenizers). A feature of a file that this code does not have is an
// Error at load that names the place, never a different result.
//
//   text ─ added tokens ─ normalizer ─ added tokens ─ pre-tokenizer ─ BPE ─ frame of special tokens ─→ ids
//   ids ─ token texts ─ decoder ─→ text
//
// A Tokenizer is immutable after load; threads share it without a lock. Encode takes a set of buffers from a pool (a
// short lock to take it and one to return it), so memory grows with concurrent callers, not with calls.
//
// Costs: Encode takes n log n for the worst text (one endless word) and linear time for all others, if the file's
// regular expressions are linear. The output of the file's rules and their time are limited whatever the file says
// (rewrite_bounds.h). The caller limits the size of a text.
#pragma once

#include <cstddef>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/text/added_tokens.h"
#include "common/text/bpe.h"
#include "common/text/normalizer.h"
#include "common/text/pre_tokenizer.h"
#include "common/text/prompt_text.h"
#include "common/text/token_decoder.h"

namespace roost {

inline constexpr std::size_t kMaxTokenizerJsonBytes = 256 * 1024 * 1024;
inline constexpr std::size_t kMaxTokenizerJsonDepth = 64;

// Does Encode add the special tokens that the file puts around every text (<s> …)?
enum class SpecialTokens { kAdd, kOmit };
// Does decoded text show special tokens?
enum class SpecialTokenOutput { kShow, kSkip };
// Does a stream of tokens begin a text, or continue one? At the beginning some tokenizers drop a space.
enum class StreamStart { kText, kContinuation };

class Tokenizer {
 public:
  // `source_name` names the file in errors.
  static Result<std::shared_ptr<const Tokenizer>> FromJson(std::string_view tokenizer_json, std::string source_name);
  static Result<std::shared_ptr<const Tokenizer>> FromFile(const std::filesystem::path& path);

  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Ill-formed UTF-8 is read as U+FFFD. Fails only where a rule of the file exceeds its limits on this text, or a
  // character has no token. Stops once there are more than `max_tokens` ids, and returns those.
  Result<std::vector<TokenId>> Encode(PromptText text, SpecialTokens special_tokens,
                                      std::size_t max_tokens = kAllTokens) const;
  // For a text in which special tokens may stand anywhere.
  Result<std::vector<TokenId>> Encode(std::string_view text, SpecialTokens special_tokens,
                                      std::size_t max_tokens = kAllTokens) const;
  static constexpr std::size_t kAllTokens = std::numeric_limits<std::size_t>::max();

  // The tokens that Encode puts around every text when it adds special tokens.
  [[nodiscard]] const text::SpecialTokenFrame& frame() const { return frame_; }

  // The most bytes of text that can become one id; nothing when the file's rules can shorten any text. With it, a text
  // that is surely too long is known without reading it.
  [[nodiscard]] std::optional<std::size_t> most_bytes_per_token() const { return most_bytes_per_token_; }

  // Valid UTF-8. Ids without a token are left out.
  [[nodiscard]] std::string Decode(std::span<const TokenId> ids,
                                   SpecialTokenOutput specials = SpecialTokenOutput::kShow) const;

  // One more than the greatest id of a token: every id is below it, though not every number below it is an id.
  [[nodiscard]] std::size_t vocab_size() const;
  [[nodiscard]] std::optional<TokenId> IdOf(std::string_view token) const;
  // The token as the file writes it ("Ġthe"), not as it decodes.
  [[nodiscard]] std::optional<std::string_view> TextOf(TokenId id) const;
  // The bytes of the token inside a text, not always whole characters; empty for an id without a token.
  [[nodiscard]] std::string BytesOf(TokenId id) const;
  [[nodiscard]] bool IsSpecial(TokenId id) const;
  // True for one of the file's added tokens, which the model's merges do not make.
  [[nodiscard]] bool IsAdded(TokenId id) const;

 private:
  friend class TextReading;
  friend class TokenStream;
  class ScratchPool;
  struct Scratch;
  struct Parts;

  explicit Tokenizer(Parts parts);
  Result<void> SplitText(PromptText text, Scratch& scratch) const;
  Result<void> EncodeText(PromptText text, Scratch& scratch, std::vector<TokenId>& ids) const;
  Result<void> EncodeSegment(PromptText text, const text::AddedTokens::Segment& segment, Scratch& scratch,
                             std::vector<TokenId>& ids) const;
  Result<void> EncodeNormalized(PromptText text, bool at_start, Scratch& scratch, std::vector<TokenId>& ids) const;
  Result<void> EncodePlain(std::string_view text, bool at_start, Scratch& scratch, std::vector<TokenId>& ids) const;
  // The same, if words_ is not null.
  Result<void> EncodeWords(std::string_view text, Scratch& scratch, std::vector<TokenId>& ids) const;
  [[nodiscard]] std::optional<std::size_t> MostBytesPerToken() const;
  // The text that the decoder gets.
  [[nodiscard]] std::optional<std::string_view> DecoderTextOf(TokenId id) const;

  // Constant after construction.
  const text::BpeModel model_;
  const text::Normalizer normalizer_;
  const text::AddedTokens added_;
  const text::PreTokenizer pre_tokenizer_;
  const text::WordScanner* const words_;  // pre_tokenizer_'s, if the model gets the bytes of its words and nothing else
  const text::SpecialTokenFrame frame_;
  const text::TokenDecoder decoder_;
  const std::optional<std::size_t> most_bytes_per_token_;
  // Own locking.
  const std::unique_ptr<ScratchPool> pool_;
};

// Turns the tokens of one generated sequence into text as they arrive. All pieces together are what Decode returns for
// all ids; each piece is valid UTF-8. The stream holds back what can still change: up to three bytes of an unfinished
// character, and spaces that the tokenizer drops at a text's end. One thread at a time.
class TokenStream {
 public:
  explicit TokenStream(std::shared_ptr<const Tokenizer> tokenizer,
                       SpecialTokenOutput specials = SpecialTokenOutput::kSkip, StreamStart start = StreamStart::kText);

  // The text that is now certain; often empty.
  [[nodiscard]] std::string Push(TokenId id);
  // The same for a special token that should be shown.
  [[nodiscard]] std::string PushShown(TokenId id);
  // The rest: an unfinished character becomes U+FFFD. Nothing may be pushed after this.
  [[nodiscard]] std::string Finish();

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  SpecialTokenOutput specials_;
  text::TokenDecoder::State state_;
};

// One text on its way to ids, segment by segment. Segments are the units of Tokenizer::Encode: added tokens, and the
// text between them. Their places depend on the whole text. Given these, the text's ids are the ids of its segments in
// order, and a segment's ids depend only on the segment and on whether it is the first. So a caller that knows the ids
// of the first segments may skip them:
//
//   <|im_start|> user\nHi <|im_end|> \n <|im_start|> …
//   └──────── Skip ────────────────┘└── EncodeUpTo ──
//
// One thread at a time. The tokenizer and the text outlive it.
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
