// Tokens and hashes that stand for the contents of a trace's blocks, so that real caches and routers can work on it:
//
//   trace         [     content 17      ][     content 40      ]( rest )      blocks of, say, 512 tokens
//   cache         [ 34, 34 … ][ 35, 35 …][ 80, 80 … ][ 81, 81 …][ own …       blocks of the largest size that divides
//   them
//
// Equal contents have equal tokens; different ones differ from their first token on, and so does what a trace does not
// name: the rest of a request behind its last full block. So tokens are shared just as the trace says, and no more.
// Hashes are the real ones, chained from one root.
//
// Immutable. The trace outlives it.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/ids.h"
#include "common/prefix/block_hash.h"
#include "deploy/roostctl/workload/trace.h"

namespace roost::simulate {

class TraceText {
 public:
  // The trace's blocks must be a multiple of kMinBlockTokens.
  explicit TraceText(const workload::Trace& trace);

  [[nodiscard]] const workload::Trace& trace() const { return trace_; }
  [[nodiscard]] std::uint32_t block_tokens() const { return block_tokens_; }
  [[nodiscard]] static BlockHash root() { return {1, 1}; }

  // Of request `number`, an index into the trace's requests. A prompt has at least one token, also where the trace says
  // that it has none.
  [[nodiscard]] std::uint32_t PromptTokenCount(std::uint32_t number) const;
  [[nodiscard]] std::vector<TokenId> Prompt(std::uint32_t number) const;
  [[nodiscard]] std::vector<TokenId> Answer(std::uint32_t number) const;
  // Of the prompt's full cache blocks.
  [[nodiscard]] std::vector<BlockHash> PromptHashes(std::uint32_t number) const;

  // Cache blocks of all that the trace's requests hold, each content once.
  [[nodiscard]] std::uint64_t distinct_block_count() const { return distinct_block_count_; }

 private:
  [[nodiscard]] std::vector<TokenId> Tokens(std::uint32_t number, std::uint32_t begin, std::uint32_t end) const;
  [[nodiscard]] TokenId TokenAt(std::uint32_t number, std::uint32_t position) const;
  void HashContent(std::uint32_t content, BlockHash parent);

  const workload::Trace& trace_;
  const std::uint32_t block_tokens_;
  const std::uint32_t parts_;                         // cache blocks per block of the trace
  std::vector<std::vector<std::uint32_t>> contents_;  // of each request's blocks, numbered from 0
  std::vector<BlockHash> hashes_;                     // of content c's part p at c * parts_ + p
  std::uint64_t distinct_block_count_ = 0;
};

}  // namespace roost::simulate
