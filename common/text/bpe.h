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
#include <cstring>
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
#include "common/text/json_node.h"
#include "common/text/vocabulary.h"

namespace roost::text {

// The largest models have about 500,000.
inline constexpr std::size_t kMaxMerges = 1U << 22U;

// Pairs of token ids → what they merge to. Open addressing; at most half full.
class MergeTable {
 public:
  struct Merge {
    std::uint32_t rank;
    TokenId merged;
  };

  explicit MergeTable(std::size_t pair_count);
  // A pair that is there already takes the new value.
  void Insert(TokenId left, TokenId right, Merge merge);
  [[nodiscard]] const Merge* Find(TokenId left, TokenId right) const;

 private:
  struct Slot {
    std::uint64_t pair;
    Merge merge;
  };
  [[nodiscard]] std::size_t SlotOf(std::uint64_t pair) const;

  std::vector<Slot> slots_;  // a power of two
};

// The tokens of words seen before. Direct-mapped: a newer word takes an older one's place.
class WordCache {
 public:
  static constexpr std::size_t kEntryCount = 1U << 14U;
  static constexpr std::size_t kMaxWordBytes = 30;
  static constexpr std::size_t kMaxTokens = 6;

  struct Entry {
    std::array<TokenId, kMaxTokens> tokens{};
    std::array<char, kMaxWordBytes> word{};
    std::uint8_t word_size = 0;
    std::uint8_t token_count = 0;
  };

  // The entry that holds `word`, or may; `word` has 1 … kMaxWordBytes bytes.
  [[nodiscard]] Entry& EntryFor(std::string_view word) { return entries_[IndexOf(word)]; }

  [[nodiscard]] static bool Holds(const Entry& entry, std::string_view word) {
    return entry.word_size == word.size() && std::memcmp(entry.word.data(), word.data(), word.size()) == 0;
  }
  // Nothing where there are too many tokens.
  static void Fill(Entry& entry, std::string_view word, std::span<const TokenId> tokens);

 private:
  static std::size_t IndexOf(std::string_view word);

  std::vector<Entry> entries_ = std::vector<Entry>(kEntryCount);
};

// The pairs of a word that may be merged, the least first: a run in order, and a heap of those that came since the run
// was begun. At its end the heap is sorted and is the next run. So a word of equal characters, whose pairs come in
// order, takes linear time, and no word more than n log n.
class PairQueue {
 public:
  void Clear();
  void Push(std::uint64_t order);
  // The least; nothing when there is none.
  std::optional<std::uint64_t> Pop();

 private:
  std::vector<std::uint64_t> run_;
  std::size_t next_ = 0;  // of run_
  std::vector<std::uint64_t> later_;
};

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
  PairQueue pairs_;      // by rank, then position of the left symbol
  std::string spelled_;  // a word in the byte-level alphabet
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
  // The token that a whole word is taken for without merging.
  [[nodiscard]] std::optional<TokenId> WholeWord(std::string_view word) const;
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
  std::size_t longest_token_ = 0;                          // bytes of its text
  std::array<TokenId, 256> byte_level_tokens_{};           // of the alphabet's characters, if all are there
  std::vector<std::optional<TokenId>> low_characters_;     // by code point, the first few
  std::array<std::optional<TokenId>, 256> byte_tokens_{};  // "<0x00>" …
};

}  // namespace roost::text
