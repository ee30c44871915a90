// The "decoder" part of a tokenizer file: token texts → text. It works token by token with a small state, so that a
// stream and a whole sequence use the same code. Supported: ByteLevel, ByteFallback, Fuse, Replace, Strip, Metaspace,
// Sequence (not BPEDecoder, CTC and WordPiece, which no model here needs), in an order that can stream:
//
//   token steps (Replace, Strip, Metaspace)  →  bytes (ByteLevel or ByteFallback)  →  Fuse  →  text steps (Strip,
//   Replace of one character)
//
// All output is valid UTF-8. Invalid UTF-8 becomes U+FFFD: after ByteLevel one per maximal ill-formed part, after
// ByteFallback one per byte. (The reference library turns a whole run of byte tokens into U+FFFD if any part of it is
// ill-formed. Then a stream could not show a character before the run's end, so here each character is checked on its
// own.)
//
// Immutable, shared by threads; a State belongs to one sequence.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/json/json_node.h"
#include "common/text/metaspace.h"

namespace roost::text {

// The "post_processor" part of a tokenizer file: the special tokens before and after every text. Supports all kinds:
// TemplateProcessing, BertProcessing, RobertaProcessing, Sequence, and ByteLevel, which only moves offsets and so does
// nothing here.
struct SpecialTokenFrame {
  std::vector<TokenId> before;
  std::vector<TokenId> after;

  static Result<SpecialTokenFrame> FromJson(const std::optional<JsonNode>& node);
};

class TokenDecoder {
 public:
  // The place where the tokens begin: decoders drop the space that encoders put before a text, only at a text's start.
  enum class Start { kText, kContinuation };

  struct State {
    // The state of one text step: how many characters it may still drop at the front, and what it holds back.
    struct Strip {
      std::size_t front_left;
      std::string held;
    };
    bool at_first_token = true;
    std::string bytes;  // of an unfinished character
    std::vector<Strip> strips;
  };

  static Result<TokenDecoder> FromJson(const std::optional<JsonNode>& node);

  [[nodiscard]] State Begin(Start start) const;
  // Appends the text that is now certain.
  void Push(std::string_view token, State& state, std::string& out) const;
  // Appends the rest.
  void Finish(State& state, std::string& out) const;
  // The bytes of a token inside a text; they need not be whole characters.
  [[nodiscard]] std::string BytesOf(std::string_view token) const;

 private:
  struct Replace {
    std::string pattern;
    std::string content;
  };
  struct Strip {
    std::string content;  // one character
    std::size_t start = 0;
    std::size_t stop = 0;
  };
  using TokenStep = std::variant<Replace, Strip, Metaspace>;
  using TextStep = std::variant<Replace, Strip>;
  enum class Bytes { kNone, kByteLevel, kByteFallback };
  // The part of the order above that the list of decoders has reached.
  enum class Phase { kTokens, kBytes, kText };
  enum class Ending { kOpen, kFinal };
  enum class Place { kFirst, kLater };

  Result<void> Add(const JsonNode& node, Phase& phase);
  Result<void> AddReplace(const JsonNode& node, Phase phase);
  Result<void> AddStrip(const JsonNode& node, Phase phase);
  [[nodiscard]] std::string AfterTokenSteps(std::string_view token, Place place) const;
  void PushBytes(std::string_view token, State& state, std::string& text) const;
  void FlushByteRun(State& state, Ending ending, std::string& text) const;
  void PushText(std::string text, State& state, std::string& out) const;
  static void StripToken(const Strip& strip, std::string& token);
  static void StripStream(const Strip& strip, State::Strip& state, std::string& text);

  std::size_t growth_ = 1;  // the factor by which all rules together may lengthen a text
  std::vector<TokenStep> token_steps_;
  Bytes bytes_ = Bytes::kNone;
  std::vector<TextStep> text_steps_;
  bool joins_with_spaces_ = false;  // for a file without decoder
};

}  // namespace roost::text
