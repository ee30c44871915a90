// The "added_tokens" part of a tokenizer file: texts that become one token anywhere, before the text is normalised or
// split ("normalized": true: after it is normalised). Control tokens such as <|im_start|> are among them. Immutable
// after load, shared by threads.
//
// Ids are assigned as the reference library assigns them: a text of the model's vocabulary keeps its id, others count
// up from the vocabulary's size. Files that this library wrote state the same ids. For a file that states others, the
// library warns and goes on, and so does this code.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/json/json_node.h"
#include "common/text/normalizer.h"
#include "common/text/prompt_text.h"
#include "common/text/regex/regex.h"
#include "common/text/vocabulary.h"

namespace roost::text {

inline constexpr std::size_t kMaxAddedTokenBytes =
    1024;  // each, also in its normal form: bounds the cost per byte of text

struct AddedToken {
  TokenId id = 0;
  std::string content;
  std::string matched;  // the string to search the text for: content, or its normal form
  bool single_word = false;
  bool strip_left = false;
  bool strip_right = false;
  bool normalized = false;
  bool special = false;
};

class AddedTokens {
 public:
  // The tables point into each other: moving keeps the pointers valid, copying would not.
  AddedTokens(AddedTokens&&) = default;
  AddedTokens& operator=(AddedTokens&&) = default;

  enum class Stage { kRaw, kNormalized };

  // A stretch of text: an added token, or the text between two.
  struct Segment {
    TextRange range;
    std::optional<TokenId> token;
  };

  static Result<AddedTokens> FromJson(const std::optional<JsonNode>& node, const Vocabulary& vocabulary,
                                      const Normalizer& normalizer, RegexScratch& scratch);

  // Appends the segments of `text`, front to back. The leftmost token wins, and among those the longest. A special
  // token counts only where all its bytes were written.
  Result<void> Split(PromptText text, Stage stage, RegexScratch& scratch, std::vector<Segment>& segments) const;

  [[nodiscard]] bool has(Stage stage) const { return !MatcherOf(stage).by_text.empty(); }
  [[nodiscard]] bool has_special(Stage stage) const { return MatcherOf(stage).has_special; }
  [[nodiscard]] const AddedToken* Find(TokenId id) const;
  [[nodiscard]] std::optional<TokenId> IdOf(std::string_view content) const;
  [[nodiscard]] std::unordered_set<TokenId> SpecialIds() const;
  // The most bytes of text that one token can stand for; nothing when some token also takes any amount of white space.
  [[nodiscard]] std::optional<std::size_t> MostBytes() const;
  // One more than the greatest id; 0 without tokens.
  [[nodiscard]] std::size_t id_end() const { return id_end_; }

 private:
  // The tokens of one stage, sorted by `matched`. The longest match at a place is found by narrowing a range of them
  // byte by byte.
  struct Matcher {
    std::vector<const AddedToken*> by_text;
    std::array<bool, 256> first_bytes{};
    std::optional<char> only_first_byte;  // if all begin with the same byte
    bool has_special = false;

    // The next place from `from` on where a token may begin; else the text's end.
    [[nodiscard]] std::size_t NextBegin(std::string_view text, std::size_t from) const;
  };

  AddedTokens(Regex word, std::size_t vocabulary_size)
      : word_(std::move(word)), next_new_id_(static_cast<TokenId>(vocabulary_size)) {}
  Result<void> Add(const JsonNode& node, const Vocabulary& vocabulary, const Normalizer& normalizer,
                   RegexScratch& scratch);
  void Index();
  [[nodiscard]] const Matcher& MatcherOf(Stage stage) const { return stage == Stage::kRaw ? raw_ : normalized_; }
  // `written` is how many bytes at the front of `text` were written.
  [[nodiscard]] static const AddedToken* LongestAt(const Matcher& matcher, std::string_view text, std::size_t written);
  [[nodiscard]] Result<bool> StandsAlone(std::string_view text, TextRange range, RegexScratch& scratch) const;

  Regex word_;                                     // matches one word character
  std::unordered_map<TokenId, AddedToken> by_id_;  // pointers to its elements stay valid
  std::unordered_map<std::string_view, TokenId> by_content_;
  Matcher raw_;
  Matcher normalized_;
  std::size_t id_end_ = 0;
  TokenId next_new_id_;
  std::size_t renumbered_ = 0;  // tokens whose id differs from the file's
  std::string first_renumbered_;
};

}  // namespace roost::text
