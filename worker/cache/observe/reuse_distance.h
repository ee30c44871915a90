// Estimates from the traffic what the hit rate would be with another pool size, up to a largest one.
//
// A pool of C blocks under LRU holds the C blocks that were used last. So a block of a prompt would be a hit if fewer
// than C other blocks were used since its last use: its reuse distance. Distances are taken on a stack of the blocks
// in the order of their last use, over a sample of the blocks, chosen by hash, as in SHARDS (Waldspurger, Park,
// Garthwaite, Ahmad: Efficient MRC Construction with SHARDS, FAST 2015): with one block in k, a distance d in the
// sample stands for d · k.
//
// - The rate is fixed: largest_pool blocks are max_samples in the sample. Blocks deeper than that leave the stack,
//   because they miss in every pool that can be asked for. So memory is limited as in the paper's fixed-size variant,
//   without its changes of the rate; and the estimate is exact if largest_pool is at most max_samples.
// - A block that is in very many prompts (the first one of all chats) is in the sample or not, which shifts the whole
//   curve. As in the paper's SHARDS-adj, the accesses that the sample has too few or too many of, compared with the
//   rate, count as hits of the smallest distance.
// - Recent accesses weigh more: all counts are halved every half_life pools' worth of accesses.
// - A request uses its blocks together, and releases them back to front. So all distances of a prompt are measured
//   before it, and after it its first block is on top: the order in which LRU evicts.
//
//   stack    slots in the order of use   [k4][  ][k1][k9][  ][k2]→      a used block moves to the right end; a Fenwick
//                                          1   0   1   1   0   1        tree (Fenwick: A new data structure for
//                                                                       cumulative frequency tables, 1994) counts what
//                                                                       is right of it: its distance
//
// Not thread-safe. A block outside of the sample costs 4 ns, a block in it 60 ns: O(log max_samples). After at least
// max_samples uses of sampled blocks the slots are packed, which is O(max_samples) and takes 0.2 ms. 43 bytes per
// sample, usually 700 KB; nothing is allocated after construction.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/prefix/block_hash.h"
#include "common/prefix/keyed_slots.h"

namespace roost::worker {

struct ReuseDistanceOptions {
  std::uint32_t largest_pool = 0;  // in blocks; more than zero
  std::uint32_t max_samples = 16384;
  std::uint32_t half_life = 4;  // in accesses, as a multiple of largest_pool; more than zero
  std::uint64_t seed = BlockHashHasher::ProcessSeed();
};

class ReuseDistance {
 public:
  explicit ReuseDistance(const ReuseDistanceOptions& options);

  // A request's prompt, all full blocks front to back. Each is an access that hits or misses, and counts as a use.
  void Access(std::span<const BlockHash> prompt);

  // A request used these blocks, front to back, without asking for them: its output, or all blocks when it releases
  // them.
  void Use(std::span<const BlockHash> blocks);

  // The share of recent accesses that would have hit in an LRU pool of `pool_blocks`, at most largest_pool. Nothing
  // before the first access. O(max_samples), 13 µs: call it now and then, not in every step.
  [[nodiscard]] std::optional<double> HitRateAt(std::uint32_t pool_blocks) const;

 private:
  [[nodiscard]] bool IsSampled(BlockHash hash) const { return Mix64(hash.low + sampling_seed_) <= threshold_; }
  // Blocks of the sample that were used since the one in `slot`.
  [[nodiscard]] std::uint32_t DistanceOf(std::uint32_t slot) const;
  void Count(std::uint64_t key);
  void MoveToTop(std::uint64_t key);
  void DropOldest();
  void Pack();
  void AddAt(std::uint32_t slot, std::uint32_t summand);
  void Halve();

  const std::uint32_t largest_pool_;
  const std::uint32_t max_samples_;
  const double rate_;
  const std::uint64_t sampling_seed_;
  const std::uint64_t threshold_;
  const std::uint64_t half_life_accesses_;

  std::uint32_t oldest_ = 0;             // no slot before it holds a key
  std::uint32_t top_ = 0;                // the next slot to be used
  KeyedSlots<std::uint64_t> stack_;      // twice as many slots as samples
  std::vector<std::uint32_t> in_use_;    // Fenwick tree over the slots: 1 where a key is
  std::vector<double> hits_;             // sampled accesses by their distance in the sample
  double sampled_accesses_ = 0;          // hits and misses
  double accesses_ = 0;                  // all, in the sample or not
  std::uint64_t accesses_to_halve_ = 0;  // before the counts are halved
};

}  // namespace roost::worker
