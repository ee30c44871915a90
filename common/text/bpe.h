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
#include "common/json/json_node.h"
#include "common/text/vocabulary.h"

namespace roost::text {

// The tables behind merging: which pairs merge, which words are single tokens, which words were seen before, and which
// pair of a word is next. For bpe.cc.

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
  // An existing pair takes the new value.
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

// The bytes of whole tokens → their ids, for a vocabulary in the byte-level alphabet. Gives what Vocabulary::IdOf gives
// for the word in that alphabet, without writing it. Open addressing; at most half full.
class ByteWordTable {
 public:
  ByteWordTable() = default;
  explicit ByteWordTable(const Vocabulary& vocabulary);
  [[nodiscard]] std::optional<TokenId> IdOf(std::string_view word) const;

 private:
  struct Slot {
    std::uint32_t hash = 0;
    TokenId id = 0;
    std::uint32_t begin = 0;  // in texts_
    std::uint32_t size = 0;   // 0: the slot is free
  };
  [[nodiscard]] std::size_t SlotOf(std::string_view word, std::uint64_t hash) const;

  std::string texts_;        // of all tokens
  std::vector<Slot> slots_;  // a power of two, or none
};

// The tokens of words seen before. Direct-mapped: a newer word replaces an older one.
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

  // The only entry that can hold `word`, which has 1 … kMaxWordBytes bytes.
  [[nodiscard]] Entry& EntryFor(std::string_view word) { return entries_[IndexOf(word)]; }

  [[nodiscard]] static bool Holds(const Entry& entry, std::string_view word) {
    return entry.word_size == word.size() && std::memcmp(entry.word.data(), word.data(), word.size()) == 0;
  }
  // Does nothing when there are too many tokens.
  static void Fill(Entry& entry, std::string_view word, std::span<const TokenId> tokens);

 private:
  static std::size_t IndexOf(std::string_view word);

  std::vector<Entry> entries_ = std::vector<Entry>(kEntryCount);
};

// The pairs of a word that may merge, least first: a sorted run, and a heap of the pairs pushed since. When the run
// ends, the heap is sorted and becomes the next run. A word of equal characters, whose pairs come in order, thus takes
// linear time, and no word takes more than n log n.
class PairQueue {
 public:
  void Clear();
  void Push(std::uint64_t order);
  // The least pair; nothing when empty.
  std::optional<std::uint64_t> Pop();

 private:
  std::vector<std::uint64_t> run_;
  std::size_t next_ = 0;  // place in run_
  std::vector<std::uint64_t> later_;
};

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
