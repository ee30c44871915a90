// Finds prompts that differ only in their scope: the same first block under another root, because of another tenant,
// salt or adapter. Each such scope computes and keeps its own copy, so this reveals salts that separate prompts
// needlessly.
//
// Blocks are compared by their tokens without the root, as a 64-bit content key (XXH3 with the process's seed), for one
// content in kSampling. The other blocks only cost their hash. A set is one cache line of four contents, the one seen
// last in front; a new one drops the last. So some thousand sampled contents are remembered.
//
//   set = [content, root] [content, root] [content, root] [content, root]
//
// Reading the count: kOtherRoot says that a prompt begins like a prompt of another scope; how far the two agree is not
// known. So only the tokens of the first block count, if they were computed and would otherwise count as cold, times
// kSampling because of the sample. They are taken from the cold tokens that follow (TakeShare), so the reasons still
// add up and no counter decreases. The count is a lower estimate of what the scopes cost, because long prompts agree in
// more than one block. It is coarse with few contents: each is either in the sample and counts kSampling times, or is
// not in it.
//
// Not thread-safe. Observe is O(1), about 10 ns for 16 tokens. 64 KiB; nothing is allocated after construction.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/ids.h"
#include "common/prefix/block_hash.h"

namespace roost::worker {

enum class SaltFinding : std::uint8_t {
  kNotSampled,
  kNew,        // not seen, or so long ago that it is forgotten
  kSameRoot,   // seen last under this root
  kOtherRoot,  // seen last under another one
};

class SaltWatch {
 public:
  static constexpr std::uint32_t kSampling = 16;

  explicit SaltWatch(std::uint64_t seed = BlockHashHasher::ProcessSeed());

  // A prompt of scope `root` begins with `first_block`.
  SaltFinding Observe(BlockHash root, std::span<const TokenId> first_block);

  // Counts a finding of kOtherRoot whose first block was computed, for TakeShare.
  void CountFound(std::uint32_t first_block_tokens) { owed_tokens_ += std::uint64_t{kSampling} * first_block_tokens; }

  // The part of `cold_tokens` that is to be counted under other_salt instead.
  [[nodiscard]] std::uint64_t TakeShare(std::uint64_t cold_tokens);

 private:
  static constexpr std::uint32_t kSets = 1024;
  static constexpr std::uint32_t kWays = 4;

  struct Seen {
    std::uint64_t content = 0;
    std::uint64_t root = 0;  // half of the root
  };
  struct alignas(64) Set {
    std::array<Seen, kWays> seen{};
  };

  const std::uint64_t seed_;
  std::vector<Set> sets_;
  std::uint64_t owed_tokens_ = 0;  // to be counted under other_salt
};

}  // namespace roost::worker
