#include "worker/cache/observe/salt_watch.h"

#include <xxhash.h>

#include <algorithm>

namespace roost::worker {

SaltWatch::SaltWatch(std::uint64_t seed) : seed_(seed), sets_(kSets) {}

SaltFinding SaltWatch::Observe(BlockHash root, std::span<const TokenId> first_block) {
  const std::uint64_t hash = XXH3_64bits_withSeed(first_block.data(), first_block.size_bytes(), seed_);
  if (hash % kSampling != 0) return SaltFinding::kNotSampled;
  // Never zero: zero marks an empty way.
  const std::uint64_t content = hash | 1U;
  std::array<Seen, kWays>& seen = sets_[hash / kSampling % kSets].seen;
  const auto found = std::find_if(seen.begin(), seen.end(), [&](const Seen& way) { return way.content == content; });

  SaltFinding finding = SaltFinding::kNew;
  if (found != seen.end()) finding = found->root == root.low ? SaltFinding::kSameRoot : SaltFinding::kOtherRoot;
  const auto dropped = found != seen.end() ? found : seen.end() - 1;
  std::move_backward(seen.begin(), dropped, dropped + 1);
  seen.front() = {content, root.low};
  return finding;
}

std::uint64_t SaltWatch::TakeShare(std::uint64_t cold_tokens) {
  const std::uint64_t share = std::min(cold_tokens, owed_tokens_);
  owed_tokens_ -= share;
  return share;
}

}  // namespace roost::worker
