// Tokens and hashes that represent the contents of a trace's blocks, so that real caches and routers can use the trace:
//
//   trace         [     content 17      ][     content 40      ]( rest )      blocks of, say, 512 tokens
//   cache         [ 34, 34 … ][ 35, 35 …][ 80, 80 … ][ 81, 81 …][ own …       blocks of the largest size that fits
//
// Equal contents have equal tokens; different contents differ from their first token on. The rest of a request behind
// its last full block, which a trace does not name, differs from all others too. So exactly those tokens are shared
// that the trace shares. Hashes are real ones, chained from one root.
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
  // The trace's block size must be a multiple of kMinBlockTokens.
  explicit TraceText(const workload::Trace& trace);

  [[nodiscard]] const workload::Trace& trace() const { return trace_; }
  [[nodiscard]] std::uint32_t block_tokens() const { return block_tokens_; }
  [[nodiscard]] static BlockHash root() { return {1, 1}; }

  // For request `number`, an index into the trace's requests. A prompt has at least one token, even if the trace says
  // 0.
  [[nodiscard]] std::uint32_t PromptTokenCount(std::uint32_t number) const;
  // Tokens of the answer after the first, which comes with the prompt.
  [[nodiscard]] double DecodedTokenCount(std::uint32_t number) const;
  [[nodiscard]] std::vector<TokenId> Prompt(std::uint32_t number) const;
  [[nodiscard]] std::vector<TokenId> Answer(std::uint32_t number) const;
  // Hashes of the prompt's full cache blocks.
  [[nodiscard]] std::vector<BlockHash> PromptHashes(std::uint32_t number) const;

  // The number of cache blocks that all requests of the trace hold together, counting each content once.
  [[nodiscard]] std::uint64_t distinct_block_count() const { return distinct_block_count_; }

 private:
  [[nodiscard]] std::vector<TokenId> Tokens(std::uint32_t number, std::uint32_t begin, std::uint32_t end) const;
  [[nodiscard]] TokenId TokenAt(std::uint32_t number, std::uint32_t position) const;
  void HashContent(std::uint32_t content, BlockHash parent);

  const workload::Trace& trace_;
  const std::uint32_t block_tokens_;
  const std::uint32_t parts_;                         // cache blocks per block of the trace
  std::vector<std::vector<std::uint32_t>> contents_;  // content numbers of each request's blocks, from 0
  std::vector<BlockHash> hashes_;                     // at c * parts_ + p: part p of content c
  std::uint64_t distinct_block_count_ = 0;
};

}  // namespace roost::simulate
