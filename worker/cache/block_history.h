// Remembers blocks by their keys, even after their eviction: when a block was last released, its class, and how many
// requests used it. A policy learns from this about blocks that it evicted.
//
// It remembers a sample of the keys, chosen by their hash: one in kSampleRate. It has two entries per block of the
// pool, so it reaches back over about 2 x kSampleRate pools of blocks. It is a table of buckets; a new entry replaces
// the entry of its bucket that was released longest ago. An entry is identified by its bucket and 24 bits of its key.
// Confusing two keys is rare, and only makes a count wrong.
//
// Not thread-safe. Every operation is O(1). 16 bytes per block of the pool; no allocation after construction.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/big_vector.h"

namespace roost::worker {

class BlockHistory {
 public:
  static constexpr std::uint64_t kSampleRate = 4;
  static constexpr std::uint32_t kTimeBits = 24;  // times wrap: ages are correct below 2^24 requests
  static constexpr std::uint32_t kMostVisits = 255;

  struct Entry {
    std::uint32_t time = 0;  // in requests, modulo 2^kTimeBits
    std::uint8_t reuse_class = 0;
    std::uint8_t visits = 0;  // requests that used it, counted up to kMostVisits
  };

  explicit BlockHistory(std::uint32_t block_count);

  // Is this key in the sample? Other keys are never found.
  [[nodiscard]] static bool Samples(std::uint64_t key);

  // Prefetches what a later Find or Store reads.
  void Prefetch(std::uint64_t key) const;

  [[nodiscard]] std::optional<Entry> Find(std::uint64_t key) const;

  // Stores the entry of a sampled key.
  void Store(std::uint64_t key, const Entry& entry);

 private:
  static constexpr std::uint32_t kBucketSlots = 4;

  struct Slot {
    std::uint32_t name_and_class = 0;   // 24 bits of the key, 8 of the class
    std::uint32_t time_and_visits = 0;  // 24 bits, 8 bits; no visits: empty
  };

  [[nodiscard]] std::size_t BucketOf(std::uint64_t mixed) const;
  [[nodiscard]] std::size_t SlotToReplace(std::size_t bucket, std::uint32_t name, std::uint32_t time) const;

  std::size_t bucket_count_;
  BigVector<Slot> slots_;
};

}  // namespace roost::worker
