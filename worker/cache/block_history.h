// What became of blocks, by their keys, also after they were evicted: when a block was last let go of, in which class,
// and how many requests have had it. It is what lets a policy learn from blocks that it threw out.
//
// It remembers a sample: keys are drawn by their hash, one of kSampleRate. Two entries per block of the pool, so it
// reaches back over about 2 x kSampleRate pools of blocks. A table of buckets; in a bucket the entry let go of longest
// ago makes room. An entry is told by 24 bits of its key besides its bucket: that one is taken for another is rare, and
// costs a wrong count, no more.
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
  static constexpr std::uint32_t kTimeBits = 24;  // times wrap: ages are right below 2^24 requests
  static constexpr std::uint32_t kMostVisits = 255;

  struct Entry {
    std::uint32_t time = 0;  // in requests, modulo 2^kTimeBits
    std::uint8_t reuse_class = 0;
    std::uint8_t visits = 0;  // requests that had it, counted up to kMostVisits
  };

  explicit BlockHistory(std::uint32_t block_count);

  // Is this key of the sample? Keys that are not are never found.
  [[nodiscard]] static bool Samples(std::uint64_t key);

  // Starts the memory read of a Find or Store to come.
  void Prefetch(std::uint64_t key) const;

  [[nodiscard]] std::optional<Entry> Find(std::uint64_t key) const;

  // Sets what is known of a key of the sample.
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
