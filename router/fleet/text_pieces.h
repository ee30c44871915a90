// The text of a prompt that only an engine can read, as a chain of blocks: a router that has no tokenizer for a model
// finds the worker that has computed the longest beginning of a text by the same hashes and the same index as others
// find tokens.
//
//   texts of the request   │ tools │ system │ role, content │ role, content │ …
//   pieces of 256 bytes    │──────│──────│──────│──────│──────│───            the last, unfinished one has no hash
//   hashes                   h[0]   h[1]   h[2]   h[3]   h[4]                 chained from the scope's root
//
// Each four bytes count as a token, about what a token is in English. A hash covers all text before it, and the root
// separates models, tenants and salts, so no tenant's text finds another's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/prefix/block_hash.h"

namespace roost::router {

inline constexpr std::uint32_t kPieceTokens = 64;
inline constexpr std::size_t kPieceBytes = kPieceTokens * sizeof(TokenId);
// A text counts with its first MiB.
inline constexpr std::size_t kMaxPieces = 4096;
// The most that are remembered of one worker: 16 MiB of texts.
inline constexpr std::size_t kMaxWorkerPieces = 65536;

class TextPieces {
 public:
  explicit TextPieces(BlockHash root) : last_(root) {}

  // The next text. Texts are kept apart: "a", "b" is another prompt than "ab". O(bytes).
  void Append(std::string_view text);
  [[nodiscard]] bool is_full() const { return hashes_.size() >= kMaxPieces; }

  // A piece is begun.
  [[nodiscard]] bool has_rest() const { return size_ > 0; }

  [[nodiscard]] const std::vector<BlockHash>& hashes() const { return hashes_; }

 private:
  void Fill(std::string_view bytes);

  std::array<TokenId, kPieceTokens> piece_{};
  std::size_t size_ = 0;  // bytes of the unfinished piece
  BlockHash last_;
  std::vector<BlockHash> hashes_;
};

}  // namespace roost::router
