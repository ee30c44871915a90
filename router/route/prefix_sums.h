// A sum for each of many prefixes, of what happened in about the last minute: seconds that requests waited for lack of
// a copy, or how often the prefix was used. Old amounts fade.
//
//   set = hash(prefix)   [ prefix, sum, when ] [ … ] … kWays of them      a new one replaces the least if all are used
//
// The table works like a set-associative cache: when many prefixes share a set, it forgets the small sums. So a sum is
// never too large, and it is exact for the largest prefix of a set while it stays the largest.
//
// A plain value of about 80 KB; not thread-safe. Constant time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/clock.h"
#include "common/prefix/block_hash.h"
#include "router/route/faded_sum.h"

namespace roost::router {

class PrefixSums {
 public:
  static constexpr std::size_t kSets = 256;
  static constexpr std::size_t kWays = 8;

  // Clients do not know `seed`, so they can not make hashes that evict each other.
  explicit PrefixSums(std::uint64_t seed) : seed_(seed), sets_(kSets) {}

  // A prefix is identified by the hash of its last block. `now` never goes back.
  void Add(BlockHash prefix, double amount, Instant now);
  void Clear(BlockHash prefix);

  // Σ amount · 2^(-age / half-life).
  [[nodiscard]] double At(BlockHash prefix, Instant now) const;

 private:
  struct Entry {
    BlockHash prefix;
    FadedSum sum{kRecentTime, Instant{}};  // 0: the entry is free
  };
  using Set = std::array<Entry, kWays>;

  [[nodiscard]] std::size_t SetOf(BlockHash prefix) const;

  std::uint64_t seed_;
  std::vector<Set> sets_;
};

}  // namespace roost::router
