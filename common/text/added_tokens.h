// The "added_tokens" part of a tokenizer file: texts that become one token wherever they stand, before anything is
// normalised or split ("normalized": true: after normalising). Control tokens such as <|im_start|> are among them.
// Immutable after load, shared by threads.
//
// Ids are given as the reference library gives them: a text of the model's vocabulary keeps its id, others count up
// from the vocabulary's size. Files that were written by that library say the same ids; from one that says others
// the library warns and goes on, and so does this.
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
#include "common/text/json_node.h"
#include "common/text/normalizer.h"
#include "common/text/prompt_text.h"
#include "common/text/regex.h"
#include "common/text/vocabulary.h"

namespace roost::text {

inline constexpr std::size_t kMaxAddedTokenBytes =
    1024;  // each, also in its normal form: bounds the cost per byte of text

struct AddedToken {
  TokenId id = 0;
  std::string content;
  std::string matched;  // what stands in the text: content, or its normal form
  bool single_word = false;
  bool strip_left = false;
  bool strip_right = false;
  bool normalized = false;
  bool special = false;
};

class AddedTokens {
 public:
  // Its tables point into each other: they move, a copy would point into the original.
  AddedTokens(AddedTokens&&) = default;
  AddedTokens& operator=(AddedTokens&&) = default;

  enum class Stage { kRaw, kNormalized };

  // A stretch of text: an added token, or text in between.
  struct Segment {
    TextRange range;
    std::optional<TokenId> token;
  };

  static Result<AddedTokens> FromJson(const std::optional<JsonNode>& node, const Vocabulary& vocabulary,
                                      const Normalizer& normalizer, RegexScratch& scratch);

  // Appends the segments of `text`, front to back. The leftmost token is taken, and of those the longest; special ones
  // count only where all their bytes were written.
  Result<void> Split(PromptText text, Stage stage, RegexScratch& scratch, std::vector<Segment>& segments) const;

  [[nodiscard]] bool has(Stage stage) const { return !MatcherOf(stage).by_text.empty(); }
  [[nodiscard]] bool has_special(Stage stage) const { return MatcherOf(stage).has_special; }
  [[nodiscard]] const AddedToken* Find(TokenId id) const;
  [[nodiscard]] std::optional<TokenId> IdOf(std::string_view content) const;
  [[nodiscard]] std::unordered_set<TokenId> SpecialIds() const;
  // Bytes of text that one of them stands for at most; nothing when some take white space beside them, however much.
  [[nodiscard]] std::optional<std::size_t> MostBytes() const;
  // One more than the greatest id; 0 without tokens.
  [[nodiscard]] std::size_t id_end() const { return id_end_; }

 private:
  // The tokens of one stage, sorted by `matched`: the longest match at a place is found by narrowing a range of them
  // byte by byte.
  struct Matcher {
    std::vector<const AddedToken*> by_text;
    std::array<bool, 256> first_bytes{};
    std::optional<char> only_first_byte;  // where all begin alike
    bool has_special = false;

    // Where the next one may begin, from `from` on; else the text's end.
    [[nodiscard]] std::size_t NextBegin(std::string_view text, std::size_t from) const;
  };

  AddedTokens(Regex word, std::size_t vocabulary_size)
      : word_(std::move(word)), next_new_id_(static_cast<TokenId>(vocabulary_size)) {}
  Result<void> Add(const JsonNode& node, const Vocabulary& vocabulary, const Normalizer& normalizer,
                   RegexScratch& scratch);
  void Index();
  [[nodiscard]] const Matcher& MatcherOf(Stage stage) const { return stage == Stage::kRaw ? raw_ : normalized_; }
  // `written` is how many bytes of `text` were, from its beginning on.
  [[nodiscard]] static const AddedToken* LongestAt(const Matcher& matcher, std::string_view text, std::size_t written);
  [[nodiscard]] Result<bool> StandsAlone(std::string_view text, TextRange range, RegexScratch& scratch) const;

  Regex word_;                                     // one character of a word
  std::unordered_map<TokenId, AddedToken> by_id_;  // its elements stay in place
  std::unordered_map<std::string_view, TokenId> by_content_;
  Matcher raw_;
  Matcher normalized_;
  std::size_t id_end_ = 0;
  TokenId next_new_id_;
  std::size_t renumbered_ = 0;  // tokens with another id than the file says
  std::string first_renumbered_;
};

}  // namespace roost::text
