// A fixed array of slots that hold keys, and a hash table that finds the slot of a key. It is the basis of structures
// that write keys one after another and forget them in a different order.
//
//   slots   [k1][k9][k7][k4][k5][k2] …
//   table   k1→0  k7→2  k4→3  k2→5             each as 32 bits of the key's hash, and the slot
//
// Erase removes a key from the table alone: slots 1 and 4 hold no key.
//
// Open addressing with linear probing over any number of buckets. The home of a key is its 32-bit hash times the number
// of buckets, shifted right by 32 bits. Erasing shifts later entries back (Knuth, The Art of Computer Programming 3,
// 6.4, algorithm R). The process's seed is mixed in, because clients can choose inputs with given bits of a public hash
// (see BlockHashHasher).
//
// Key is std::uint64_t, half of a block's hash, or BlockHash. Not thread-safe. Each operation is O(1) expected.
// sizeof(Key) per slot and 10.7 bytes per key of the capacity; nothing is allocated after construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/check.h"
#include "common/base/prefetch.h"
#include "common/prefix/block_hash.h"

namespace roost {

template <typename Key>
class KeyedSlots {
 public:
  // At most `capacity` keys at a time.
  KeyedSlots(std::uint32_t slot_count, std::uint32_t capacity)
      : capacity_(capacity), keys_(slot_count), buckets_(std::size_t{capacity} + capacity / 3 + 1) {
    ROOST_CHECK(slot_count < kEmpty && capacity <= slot_count, "{} slots for {} keys", slot_count, capacity);
  }

  [[nodiscard]] std::optional<std::uint32_t> Find(Key key) const {
    const Bucket& bucket = buckets_[Probe(key)];
    if (bucket.slot == kEmpty) return std::nullopt;
    return bucket.slot;
  }

  [[nodiscard]] bool Holds(std::uint32_t slot) const { return Find(keys_[slot]) == slot; }
  // The key of a slot, or the last key that it held.
  [[nodiscard]] Key key(std::uint32_t slot) const { return keys_[slot]; }
  // The same for all slots.
  [[nodiscard]] const std::vector<Key>& keys() const { return keys_; }

  // Prefetches what a later Move or Erase reads.
  void Prefetch(std::uint32_t slot) const { PrefetchKey(keys_[slot]); }
  // Prefetches what a later Find or Put reads.
  void PrefetchKey(Key key) const { roost::Prefetch(&buckets_[Home(Tag(key))]); }

  // `key` is in no slot, and `slot` holds no key.
  void Put(std::uint32_t slot, Key key) {
    ROOST_CHECK(size_ < capacity_, "{} keys", size_);
    keys_[slot] = key;
    buckets_[ProbeEmpty(key)] = {Tag(key), slot};
    ++size_;
  }

  // Moves a key: `from` holds one, `to` holds none.
  void Move(std::uint32_t from, std::uint32_t to) {
    buckets_[Probe(keys_[from])].slot = to;
    keys_[to] = keys_[from];
  }

  // `slot` holds a key.
  void Erase(std::uint32_t slot) {
    std::size_t hole = Probe(keys_[slot]);
    ROOST_CHECK(buckets_[hole].slot == slot, "slot {} holds no key", slot);
    // An entry after the hole moves into it unless its home lies after the hole, in (hole, next] in ring order.
    for (std::size_t next = After(hole); buckets_[next].slot != kEmpty; next = After(next)) {
      if (Distance(Home(buckets_[next].tag), next) < Distance(hole, next)) continue;
      buckets_[hole] = buckets_[next];
      hole = next;
    }
    buckets_[hole] = Bucket{};
    --size_;
  }

  [[nodiscard]] std::uint32_t size() const { return size_; }

 private:
  struct Bucket {
    std::uint32_t tag = 0;
    std::uint32_t slot = kEmpty;
  };
  static constexpr std::uint32_t kEmpty = 0xFFFFFFFFU;

  [[nodiscard]] static BlockHash AsHash(BlockHash key) { return key; }
  [[nodiscard]] static BlockHash AsHash(std::uint64_t key) { return {0, key}; }

  [[nodiscard]] std::uint32_t Tag(Key key) const { return static_cast<std::uint32_t>(hasher_(AsHash(key)) >> 32U); }
  [[nodiscard]] std::size_t Home(std::uint32_t tag) const { return (tag * buckets_.size()) >> 32U; }
  [[nodiscard]] std::size_t After(std::size_t bucket) const { return bucket + 1 == buckets_.size() ? 0 : bucket + 1; }
  // Steps from one bucket forward to another.
  [[nodiscard]] std::size_t Distance(std::size_t from, std::size_t to) const {
    return to >= from ? to - from : to + buckets_.size() - from;
  }

  // The bucket of `key`, or the empty one at which the search for it ends.
  [[nodiscard]] std::size_t Probe(Key key) const {
    const std::uint32_t tag = Tag(key);
    std::size_t place = Home(tag);
    while (buckets_[place].slot != kEmpty && (buckets_[place].tag != tag || keys_[buckets_[place].slot] != key)) {
      place = After(place);
    }
    return place;
  }

  // `key` is in no slot.
  [[nodiscard]] std::size_t ProbeEmpty(Key key) const {
    std::size_t place = Home(Tag(key));
    while (buckets_[place].slot != kEmpty) place = After(place);
    return place;
  }

  BlockHashHasher hasher_;
  std::uint32_t capacity_;
  std::uint32_t size_ = 0;
  std::vector<Key> keys_;  // by slot
  std::vector<Bucket> buckets_;
};

}  // namespace roost
