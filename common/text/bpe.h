// The "model" part of a tokenizer file, type BPE: the characters of a word are merged pair by pair, the pair of lowest
// rank first, the leftmost among equals, until no pair of neighbours has a rank.
//
// Source: Sennrich, Haddow, Birch, "Neural Machine Translation of Rare Words with Subword Units"; the exact order of
// merges is that of Hugging Face tokenizers. n log n in the length of a word: a queue of pairs over a linked list.
//
// Words repeat, so each scratch keeps a small table of words and their tokens, of fixed size.
//
// Words of a byte-level vocabulary need not be written in its alphabet first: EncodeBytes takes them as they are.
//
// Where the vocabulary has a metaspace ('▁') only at the front of tokens, no merge can cross the place before one;
// there a word is cut in two that are merged alone. Equal result, and text that no pre-tokenizer splits profits from
// the table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/text/bpe_tables.h"
#include "common/text/json_node.h"
#include "common/text/vocabulary.h"

namespace roost::text {

// What merging one word writes; one per thread at a time.
class BpeScratch {
 private:
  friend class BpeModel;

  static constexpr std::size_t kMaxKeptSymbols = 1U << 16U;  // memory for longer words is given back

  // A symbol of the word. Merging makes the left one longer and unlinks the right one.
  struct Symbol {
    TokenId id;
    std::int32_t previous;  // -1 before the first
    std::int32_t next;      // -1 after the last
    bool is_merged_away;
  };
  std::vector<Symbol> symbols_;
  PairQueue pairs_;  // by rank, then position of the left symbol
  WordCache cache_;
};

class BpeModel {
 public:
  static Result<BpeModel> FromJson(const JsonNode& node);

  // Words that the model must not take for a token as a whole although they are in its vocabulary: the texts of
  // special tokens.
  void SetSpecialIds(std::unordered_set<TokenId> special_ids) { special_ids_ = std::move(special_ids); }

  // Appends the tokens of `word`, which is valid UTF-8. Fails when the word has a character without a token and the
  // file names an unknown token that it does not have. The longest word has kMaxWordBytes.
  Result<void> Encode(std::string_view word, BpeScratch& scratch, std::vector<TokenId>& tokens) const;

  // The same for the bytes that `word` would be written as in the byte-level alphabet. Requires has_all_bytes().
  Result<void> EncodeBytes(std::string_view word, BpeScratch& scratch, std::vector<TokenId>& tokens) const;
  // Does each character of the byte-level alphabet have a token?
  [[nodiscard]] bool has_all_bytes() const { return has_all_bytes_; }

  [[nodiscard]] const Vocabulary& vocabulary() const { return vocabulary_; }

  // What is in the words: any text, or the alphabet of byte_level.h.
  enum class Words { kText, kByteLevel };
  // May characters of them be left out, or many become one unknown token?
  [[nodiscard]] bool MayDrop(Words words) const;

  static constexpr std::size_t kMaxWordBytes = 1U << 30U;

 private:
  BpeModel(Vocabulary vocabulary, MergeTable merges) : vocabulary_(std::move(vocabulary)), merges_(std::move(merges)) {}

  Result<void> EncodeSegment(std::string_view segment, BpeScratch& scratch, std::vector<TokenId>& tokens) const;
  Result<void> Merge(std::string_view word, BpeScratch& scratch, std::vector<TokenId>& tokens) const;
  // The token that a whole word is taken for without merging, if it is not a special one.
  [[nodiscard]] std::optional<TokenId> UnlessSpecial(std::optional<TokenId> whole) const;
  void MergeBytes(std::string_view word, BpeScratch& scratch, std::vector<TokenId>& tokens) const;
  // Of `ids`, at most kMaxShortSymbols, in place: no queue, no links.
  void MergeShort(std::span<TokenId> ids, std::vector<TokenId>& tokens) const;
  static void AppendMerged(BpeScratch& scratch, std::vector<TokenId>& tokens);
  Result<void> ListSymbols(std::string_view word, BpeScratch& scratch) const;
  static void LinkSymbols(BpeScratch& scratch);
  void MergeAll(BpeScratch& scratch) const;
  void Consider(std::int32_t position, BpeScratch& scratch) const;
  [[nodiscard]] std::optional<TokenId> IdOfCharacter(std::string_view character, char32_t value) const;
  [[nodiscard]] bool AppendBytes(std::string_view character, BpeScratch& scratch) const;
  void IndexCharacters();

  // Where looking for the least rank among all pairs is cheaper than a queue of them.
  static constexpr std::size_t kMaxShortSymbols = 32;

  Vocabulary vocabulary_;
  MergeTable merges_;
  std::unordered_set<TokenId> special_ids_;
  std::string unknown_token_;  // empty: characters without a token are left out
  std::optional<TokenId> unknown_id_;
  bool fuse_unknown_ = false;
  bool byte_fallback_ = false;
  bool ignore_merges_ = false;
  bool cuts_at_metaspace_ = false;
  bool has_all_bytes_ = false;
  ByteWordTable byte_words_;                      // where whole words are taken for tokens, and all bytes are there
  std::array<TokenId, 256> byte_level_tokens_{};  // of the alphabet's characters, if all are there
  std::vector<std::optional<TokenId>> low_characters_;     // by code point, the first few
  std::array<std::optional<TokenId>, 256> byte_tokens_{};  // "<0x00>" …
};

}  // namespace roost::text
