// Remembers the tokens and the block hashes of prompts' beginnings, so that the next turn of a conversation tokenizes
// and hashes only what is new. What it gives is what Tokenizer::Encode and HashBlocks give for the whole text.
//
//   text      <|im_start|>system … <|im_end|> \n <|im_start|>user … <|im_end|> \n <|im_start|>assistant \n
//   pieces    [          piece 0           ][             piece 1            ]
//   memo      scope ─ piece 0 ─┬─ piece 1 ─ …
//                              └─ another piece 1
//
// A text is cut right after added tokens, where what comes before and what comes behind become ids independently
// (common/text/text_reading.h), into pieces of at least kLeastPieceBytes. A piece is found by the piece before it and
// by a hash, and counts only if its bytes, the added tokens in it and its written ranges are equal. Each piece has a
// number that is given once, and its successors know that number; so equal pieces all along mean an equal text from its
// beginning on.
//
// Texts without added tokens, such as most raw completions, are one piece that is never closed: they gain nothing.
//
// A scope is a tokenizer, how it frames texts, and the root of the block hashes. Prompts with different salts have
// different roots, so nobody can tell by the time that it takes whether somebody with another salt sent a text before.
//
// One thing may differ from tokenizing whole: what the rules of a tokenizer file may make of a text on the way, and the
// CPU time that they may take, is bounded per text (rewrite_bounds.h), and what is known is not made again.
//
// Bounds: pieces and what is kept of them take `most_bytes` together; the least recently used go first, and a piece
// never before those that continue it. O(length) per read, O(1) per piece that is evicted. One lock, held while pieces
// are found and linked: about 100 ns a piece. Texts are compared, copied and hashed outside of it.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/base/random_seed.h"
#include "common/base/result.h"
#include "common/base/rng.h"
#include "common/prefix/block_hash.h"
#include "common/text/prompt_text.h"
#include "common/text/tokenizer.h"

namespace roost::router {

struct HashedTokens {
  std::vector<TokenId> tokens;
  std::vector<BlockHash> block_hashes;  // of the full blocks
};

class PromptMemo {
 public:
  static constexpr std::size_t kLeastPieceBytes = 256;

  struct Scope {
    std::shared_ptr<const Tokenizer> tokenizer;
    SpecialTokens special_tokens = SpecialTokens::kOmit;
    BlockHash root;
    std::uint32_t block_tokens = 16;
  };

  struct Counts {
    std::uint64_t read_bytes = 0;     // of texts
    std::uint64_t known_bytes = 0;    // of these, what was found
    std::uint64_t evicted_count = 0;  // pieces
    std::size_t held_bytes = 0;
  };

  // With 0 bytes nothing is kept. The seed keeps clients from making pieces of one hash.
  explicit PromptMemo(std::size_t most_bytes, std::uint64_t seed = RandomSeed());
  PromptMemo(const PromptMemo&) = delete;
  PromptMemo& operator=(const PromptMemo&) = delete;
  ~PromptMemo();

  // As Tokenizer::Encode, with its errors, and HashBlocks.
  [[nodiscard]] Result<HashedTokens> Read(const Scope& scope, PromptText text, std::size_t max_tokens);

  // The same without a memo.
  [[nodiscard]] static Result<HashedTokens> ReadWhole(const Scope& scope, PromptText text, std::size_t max_tokens);

  // Forgets all texts. What is read meanwhile may be kept.
  void Clear();

  [[nodiscard]] Counts counts() const;

 private:
  struct Piece;    // of a text at work
  struct Stretch;  // what is kept of one
  struct Reading;  // one call of Read

  struct Key {
    std::uint64_t parent;  // number of the piece before; 0: none
    std::uint64_t hash;

    bool operator==(const Key&) const = default;
  };
  struct KeyHasher {
    [[nodiscard]] std::size_t operator()(const Key& key) const noexcept { return Mix64(key.hash + key.parent); }
  };
  struct Entry {
    Key key;
    std::uint64_t number;
    std::shared_ptr<const Stretch> stretch;
  };
  using Entries = std::list<Entry>;

  [[nodiscard]] Result<HashedTokens> ReadInPieces(const Scope& scope, PromptText text, std::size_t max_tokens);
  // Needs mutex_.
  [[nodiscard]] std::uint64_t NumberOf(const std::shared_ptr<const Tokenizer>& tokenizer);
  void Find(Reading& reading);
  void Keep(Reading& reading, std::vector<std::shared_ptr<const Stretch>> stretches);
  // The entry of the stretch behind `parent`; made where there is none. Needs mutex_.
  Entries::iterator Place(Key key, std::shared_ptr<const Stretch> stretch, Entries& dropped);
  void Drop(Entries::iterator entry, Entries& dropped);

  // Constant after construction.
  const std::size_t most_bytes_;
  const std::uint64_t seed_;

  mutable std::mutex mutex_;
  // Guarded by mutex_. The most recently used first; a piece stands before those that continue it.
  Entries entries_;
  std::unordered_map<Key, Entries::iterator, KeyHasher> by_key_;
  std::vector<std::pair<std::weak_ptr<const Tokenizer>, std::uint64_t>> tokenizers_;
  std::uint64_t last_number_ = 0;  // of pieces and tokenizers
  Counts counts_;
};

}  // namespace roost::router
