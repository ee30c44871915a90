// Remembers the tokens and the block hashes of prompts' beginnings, so that the next turn of a conversation tokenizes
// and hashes only its new text. Its results equal those of Tokenizer::Encode and HashBlocks for the whole text.
//
//   text      <|im_start|>system … <|im_end|> \n <|im_start|>user … <|im_end|> \n <|im_start|>assistant \n
//   pieces    [          piece 0           ][             piece 1            ]
//   memo      scope ─ piece 0 ─┬─ piece 1 ─ …
//                              └─ another piece 1
//
// A text is cut into pieces of at least kMinPieceBytes. A piece ends right after an added token, because the text
// before and the text after it are tokenized independently (TextReading). A piece is found by the piece
// before it and by a hash, and counts only if its bytes, the added tokens in it and its written ranges are equal. Each
// piece has a unique number, which is part of the key of the pieces after it. So if all pieces are found, the whole
// beginning of the text is equal.
//
// Texts without added tokens, such as most raw completions, have no complete piece: they gain nothing.
//
// A scope is a tokenizer, the way it frames texts, and the root of the block hashes. Prompts with different salts have
// different roots, so a client can not find out by timing whether a client with another salt sent the same text.
//
// One thing may differ from tokenizing the whole text: the rules of a tokenizer file have bounds per text on the text
// that they produce and on their CPU time (rewrite_bounds.h), and remembered pieces do not run them again.
//
// Bounds: all entries together take at most `most_bytes`. The least recently used are evicted first, and a piece never
// before those that continue it. O(length) per read, O(1) per evicted piece. One lock, held while pieces are found and
// linked: about 100 ns a piece. Texts are compared, copied and hashed without the lock.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
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
  std::optional<OwnScope> own = {};     // where a prefix that all tenants share ends; the memo knows of none
};

class PromptMemo {
 public:
  static constexpr std::size_t kMinPieceBytes = 256;

  struct Scope {
    std::shared_ptr<const Tokenizer> tokenizer;
    SpecialTokens special_tokens = SpecialTokens::kOmit;
    BlockHash root;
    std::uint32_t block_tokens = 16;
  };

  struct Counts {
    std::uint64_t read_bytes = 0;     // bytes of all texts
    std::uint64_t known_bytes = 0;    // those of them that were found
    std::uint64_t evicted_count = 0;  // pieces
    std::size_t held_bytes = 0;
  };

  // With 0 bytes nothing is kept. The seed prevents clients from making pieces with equal hashes.
  explicit PromptMemo(std::size_t most_bytes, std::uint64_t seed = RandomSeed());
  PromptMemo(const PromptMemo&) = delete;
  PromptMemo& operator=(const PromptMemo&) = delete;
  ~PromptMemo();

  // Does the same as Tokenizer::Encode, with its errors, followed by HashBlocks.
  [[nodiscard]] Result<HashedTokens> Read(const Scope& scope, PromptText text, std::size_t max_tokens);

  // The same without a memo.
  [[nodiscard]] static Result<HashedTokens> ReadWhole(const Scope& scope, PromptText text, std::size_t max_tokens);

  // Forgets all texts. Texts that are read meanwhile may be kept.
  void Clear();

  [[nodiscard]] Counts counts() const;

 private:
  struct Piece;    // of a text that is being read
  struct Stretch;  // the results that are kept of a piece
  struct Reading;  // one call of Read

  struct Key {
    std::uint64_t parent;  // number of the piece before; 0 if there is none
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
  // The entry of the stretch after its parent; made if it does not exist. Needs mutex_.
  Entries::iterator Place(Key key, std::shared_ptr<const Stretch> stretch, Entries& dropped);
  void Drop(Entries::iterator entry, Entries& dropped);

  // Constant after construction.
  const std::size_t most_bytes_;
  const std::uint64_t seed_;

  mutable std::mutex mutex_;
  // Guarded by mutex_. The most recently used first; a piece comes before those that continue it.
  Entries entries_;
  std::unordered_map<Key, Entries::iterator, KeyHasher> by_key_;
  std::vector<std::pair<std::weak_ptr<const Tokenizer>, std::uint64_t>> tokenizers_;
  std::uint64_t last_number_ = 0;  // of pieces and tokenizers
  Counts counts_;
};

}  // namespace roost::router
