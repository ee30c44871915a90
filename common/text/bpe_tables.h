// The tables behind merging: which pairs merge, which words are single tokens, which words were seen before, and which
// pair of a word is next. For bpe.cc.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
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

}  // namespace roost::text
