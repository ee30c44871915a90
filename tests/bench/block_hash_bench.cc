#include <numeric>
#include <vector>

#include "common/base/check.h"
#include "common/prefix/block_hash.h"
#include "tests/bench/bench.h"

namespace roost::bench {

// Hashing a prompt of 100,000 tokens in blocks of 16.
void BenchBlockHash(Effort effort) {
  std::vector<TokenId> tokens(100'000);
  std::iota(tokens.begin(), tokens.end(), 0U);
  const BlockHash root =
      RootHash({.fingerprint = "bench", .adapter = "", .tenant = "", .salt = "", .kv_dtype = "bf16"});
  std::size_t blocks = 0;
  const double seconds = MedianSeconds(effort, [&] { blocks = HashBlocks(root, tokens, 16).size(); });
  ROOST_CHECK(blocks == tokens.size() / 16);
  Figure("block_hash_ns", seconds * 1e9 / static_cast<double>(blocks), "ns/block");
}

}  // namespace roost::bench
