// The "model" part of a tokenizer file, type BPE: merges the characters of a word pair by pair, lowest rank first, the
// leftmost among equals, until no neighbouring pair has a rank.
//
// Source: Sennrich, Haddow, Birch, "Neural Machine Translation of Rare Words with Subword Units"; the exact order of
// merges is that of Hugging Face tokenizers. n log n in the length of a word: a queue of pairs over a linked list.
//
// Words repeat, so each scratch keeps a table of fixed size with words and their tokens.
//
// EncodeBytes takes words of a byte-level vocabulary as raw bytes, so they need not be written in its alphabet first.
//
// If the vocabulary has the metaspace ('▁') only at the front of tokens, no merge crosses the place before one. Then
// words are cut there, and the parts are merged separately: the result is the same, and the table also helps with text
// that no pre-tokenizer splits.
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

// The buffers for merging one word; used by one thread at a time.
class BpeScratch {
 private:
  friend class BpeModel;

  static constexpr std::size_t kMaxKeptSymbols = 1U << 16U;  // memory for longer words is freed

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

  // Words that must not become one token as a whole although the vocabulary has them: the texts of special tokens.
  void SetSpecialIds(std::unordered_set<TokenId> special_ids) { special_ids_ = std::move(special_ids); }

  // Appends the tokens of `word`, which is valid UTF-8. Fails when the word has a character without a token and the
  // file names an unknown token that it does not have. The longest word has kMaxWordBytes.
  Result<void> Encode(std::string_view word, BpeScratch& scratch, std::vector<TokenId>& tokens) const;

  // The same for a `word` that is not yet written in the byte-level alphabet. Requires has_all_bytes().
  Result<void> EncodeBytes(std::string_view word, BpeScratch& scratch, std::vector<TokenId>& tokens) const;
  // Does each character of the byte-level alphabet have a token?
  [[nodiscard]] bool has_all_bytes() const { return has_all_bytes_; }

  [[nodiscard]] const Vocabulary& vocabulary() const { return vocabulary_; }

  // The content of words: any text, or the alphabet of byte_level.h.
  enum class Words { kText, kByteLevel };
  // Can characters be left out, or several become one unknown token?
  [[nodiscard]] bool MayDrop(Words words) const;

  static constexpr std::size_t kMaxWordBytes = 1U << 30U;

 private:
  BpeModel(Vocabulary vocabulary, MergeTable merges) : vocabulary_(std::move(vocabulary)), merges_(std::move(merges)) {}

  Result<void> EncodeSegment(std::string_view segment, BpeScratch& scratch, std::vector<TokenId>& tokens) const;
  Result<void> Merge(std::string_view word, BpeScratch& scratch, std::vector<TokenId>& tokens) const;
  // `whole`, the token of a whole word, unless it is a special token.
  [[nodiscard]] std::optional<TokenId> UnlessSpecial(std::optional<TokenId> whole) const;
  void MergeBytes(std::string_view word, BpeScratch& scratch, std::vector<TokenId>& tokens) const;
  // Merges `ids` in place, without queue and links. At most kMaxShortSymbols.
  void MergeShort(std::span<TokenId> ids, std::vector<TokenId>& tokens) const;
  static void AppendMerged(BpeScratch& scratch, std::vector<TokenId>& tokens);
  Result<void> ListSymbols(std::string_view word, BpeScratch& scratch) const;
  static void LinkSymbols(BpeScratch& scratch);
  void MergeAll(BpeScratch& scratch) const;
  void Consider(std::int32_t position, BpeScratch& scratch) const;
  [[nodiscard]] std::optional<TokenId> IdOfCharacter(std::string_view character, char32_t value) const;
  [[nodiscard]] bool AppendBytes(std::string_view character, BpeScratch& scratch) const;
  void IndexCharacters();

  // Up to this length, searching all pairs for the least rank is cheaper than a queue.
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
  ByteWordTable byte_words_;                               // filled with ignore_merges_ and has_all_bytes_
  std::array<TokenId, 256> byte_level_tokens_{};           // of the alphabet's characters, if has_all_bytes_
  std::vector<std::optional<TokenId>> low_characters_;     // of code points below kLowCharacters
  std::array<std::optional<TokenId>, 256> byte_tokens_{};  // "<0x00>" …
};

}  // namespace roost::text
