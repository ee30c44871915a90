// A flat hash table from 64-bit keys to 32-bit payloads. One writer changes it while any number of threads read.
//
//   bucket, one cache line: 5 keys of 64 bits · 5 payloads of 32 bits · how many entries passed this bucket, 32 bits
//   a key field is: 0 never used · below 2^48 free since that epoch, payload 0 · otherwise a key
//
// Open addressing by buckets. A key's home is floor(key · homes / 2^64). That keeps the order of keys, so the table
// grows by moving homes in order into a somewhat larger table, a few at each write, while the others stay:
//
//   old   | moved: memory freed in steps | not moved yet          |      homes < moved are looked up in the new table,
//   new   | filled so far     | empty                                 |  the others in the old one
//
// So growth takes the memory of about one table, not of two, and no single write is slow. An entry whose home is full
// goes into the next bucket with room. Each bucket counts the entries that passed it, so a search ends where the count
// is 0, and erasing leaves no tombstones. Entries never move within a table. A freed slot gets another key only when no
// reader can still be looking at it (epoch_gate.h). So after a reader has found its key, the payload that it reads next
// belongs to that key.
//
// Readers are wait-free and hold a pin of the gate; a search visits at most kMaxProbes buckets. A reader gets the
// payload that its key had at some time during the search. Keys come from KeyOf, which mixes in a seed, so no client
// can fill a chosen bucket.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/check.h"
#include "common/base/prefetch.h"
#include "common/base/rng.h"
#include "router/index/epoch_gate.h"
#include "router/index/zeroed_array.h"

namespace roost::router {

class BlockTable {
 public:
  using Key = std::uint64_t;
  using Payload = std::uint32_t;

 private:
  static constexpr std::size_t kSlots = 5;

  struct alignas(64) Bucket {
    std::array<std::atomic<Key>, kSlots> keys;
    std::array<std::atomic<Payload>, kSlots> payloads;
    std::atomic<std::uint32_t> passed;

    [[nodiscard]] bool IsPassed() const { return passed.load(std::memory_order_acquire) > 0; }
    // Bit i is set if slot i has the key. Without branches, because they would be unpredictable.
    [[nodiscard]] unsigned SlotsWith(Key key) const {
      const auto has = [&](std::size_t i) {
        return static_cast<unsigned>(keys[i].load(std::memory_order_acquire) == key);
      };
      return has(0) | has(1) << 1U | has(2) << 2U | has(3) << 3U | has(4) << 4U;
    }
  };
  static_assert(sizeof(Bucket) == 64);

 public:
  // `gate` outlives the table.
  explicit BlockTable(const EpochGate& gate);
  ~BlockTable();

  // The key of a block whose hash has these low bits.
  [[nodiscard]] static Key KeyOf(std::uint64_t hash_low, std::uint64_t seed);

  // ---- readers ----

  // The place where a search begins.
  struct Search {
    Key key = 0;
    Bucket* home = nullptr;

    // Prefetches the first bucket of the search.
    void Fetch() const { roost::Prefetch(home); }
  };
  [[nodiscard]] Search Locate(Key key) const { return {key, HomeOf(key)}; }
  // Locate and Search::Fetch, and a prefetch of the next bucket, which one search in thirty needs. Worth it for callers
  // that wait for one block at a time.
  [[nodiscard]] Search Begin(Key key) const {
    const Search search = Locate(key);
    search.Fetch();
    roost::Prefetch(search.home + 1);
    return search;
  }
  // The payload; 0 when the key is not there. Call it under the same pin as Locate.
  [[nodiscard]] static Payload Finish(const Search& search) {
    const Slot slot = SlotOf(search);
    return slot ? slot.payload() : 0;
  }

  // ---- writer ----

  class Slot {
   public:
    Slot() = default;

    [[nodiscard]] explicit operator bool() const { return bucket_ != nullptr; }
    [[nodiscard]] Payload payload() const { return cell().load(std::memory_order_acquire); }
    // For the writer; 0 empties it, and is for the table alone.
    void SetPayload(Payload payload) const { cell().store(payload, std::memory_order_release); }

   private:
    friend class BlockTable;
    Slot(Bucket* bucket, std::size_t index) : bucket_(bucket), index_(index) {}

    [[nodiscard]] std::atomic<Key>& key() const { return bucket_->keys[index_]; }
    [[nodiscard]] std::atomic<Payload>& cell() const { return bucket_->payloads[index_]; }

    Bucket* bucket_ = nullptr;
    std::size_t index_ = 0;
  };
  // Empty when the key is not there. A slot is valid until the next Insert, Work or StartGrowth.
  [[nodiscard]] Slot Find(Key key) { return SlotOf({key, HomeOf(key)}); }
  void Erase(Slot slot);
  // The key must not be there, and the payload must not be 0. False in the rare case that there is no room near the
  // key's home, because long-running readers keep too many freed slots from reuse.
  [[nodiscard]] bool Insert(Key key, Payload payload);

  [[nodiscard]] std::size_t size() const { return size_; }
  // The table should not have more entries than this, because searches would become slow.
  [[nodiscard]] std::size_t capacity() const { return newest().capacity; }
  [[nodiscard]] bool growing() const { return next_ != nullptr; }

  // Only while not growing: the extra memory of the next size, and the start of growth to it.
  [[nodiscard]] std::uint64_t growth_bytes() const { return BytesOf(NextHomeCount()) - memory_bytes(); }
  void StartGrowth();

  // Visits the entries of the next `bucket_count` buckets, round the whole table; while growing, it moves them.
  // `update(payload)` returns the new payload of an entry, 0 to erase it.
  template <typename Update>
  void Work(std::size_t bucket_count, Update update) {
    while (bucket_count > 0) bucket_count -= growing() ? Move(bucket_count, update) : Sweep(bucket_count, update);
  }

  // Frees memory that no reader can see any more.
  void Reclaim();

  [[nodiscard]] std::uint64_t memory_bytes() const { return BytesOf(newest().home_count); }

 private:
  static constexpr std::size_t kMaxProbes = 512;
  static constexpr std::size_t kFirstHomes = 64;
  // Small tables double; large ones grow by 15 %, so that an entry takes at most 64 / 5 · 1.15 / 0.65 = 22.6 bytes.
  static constexpr std::size_t kSmallHomes = 4096;
  static constexpr double kLargeGrowth = 1.15;
  static constexpr double kMaxLoad = 0.65;
  // The minimum number of homes that are moved at once. Each move also scans some of the buckets behind them again.
  static constexpr std::size_t kMovedHomes = 64;

  static constexpr Key kFirstKey = Key{1} << 48U;

  // One size of the table. After the homes come buckets for entries that passed the last home.
  struct Generation {
    explicit Generation(std::size_t homes)
        : home_count(homes),
          capacity(static_cast<std::size_t>(static_cast<double>(homes * kSlots) * kMaxLoad)),
          buckets(homes + kMaxProbes) {}

    [[nodiscard]] std::size_t HomeOf(Key key) const {
      return static_cast<std::size_t>((static_cast<unsigned __int128>(key) * home_count) >> 64U);
    }

    const std::size_t home_count;
    const std::size_t capacity;  // entries
    ZeroedArray<Bucket> buckets;
    std::atomic<std::size_t> moved = 0;  // homes whose entries are in `successor`
    Generation* successor = nullptr;     // set before anything is moved
  };
  struct Retired {
    std::unique_ptr<Generation> generation;
    Epoch epoch = 0;
  };

  [[nodiscard]] static std::uint64_t BytesOf(std::size_t homes) { return (homes + kMaxProbes) * sizeof(Bucket); }
  [[nodiscard]] Generation& newest() const { return next_ != nullptr ? *next_ : *current_; }
  [[nodiscard]] std::size_t NextHomeCount() const;

  [[nodiscard]] Bucket* HomeOf(Key key) const;
  [[nodiscard]] static Slot SlotOf(const Search& search);
  [[nodiscard]] bool IsFree(Key key) const { return key == 0 || (key < kFirstKey && gate_.IsOver(key)); }
  [[nodiscard]] bool InsertAt(Bucket* home, Key key, Payload payload);
  // For an entry at `last` with the home `first`: adds `change` to the counts of the buckets that it passed.
  static void CountPassed(Bucket* first, const Bucket* last, std::uint32_t change);

  template <typename Update>
  std::size_t Sweep(std::size_t bucket_count, Update& update);
  template <typename Update>
  std::size_t Move(std::size_t bucket_count, Update& update);
  // Moves those entries of the bucket whose home is in [begin, end).
  template <typename Update>
  void MoveFrom(Bucket& bucket, std::size_t begin, std::size_t end, Update& update);
  void SetMoved(std::size_t homes);

  const EpochGate& gate_;
  std::unique_ptr<Generation> current_;
  std::unique_ptr<Generation> next_;          // while growing
  std::atomic<const Generation*> published_;  // = current_, for readers
  std::vector<Retired> retired_;
  std::size_t size_ = 0;
  std::size_t swept_ = 0;  // buckets of this round
  // This many of the old table's homes can be freed once the epoch is over.
  std::size_t forgettable_ = 0;
  Epoch forgettable_since_ = 0;
};

// These are in the header so that lookups inline them.

inline BlockTable::Key BlockTable::KeyOf(std::uint64_t hash_low, std::uint64_t seed) {
  const Key key = Mix64(hash_low ^ seed);
  return key >= kFirstKey ? key : key | Key{1} << 63U;
}

inline BlockTable::Bucket* BlockTable::HomeOf(Key key) const {
  const Generation* generation = published_.load(std::memory_order_acquire);
  std::size_t home = generation->HomeOf(key);
  while (home < generation->moved.load(std::memory_order_acquire)) {
    generation = generation->successor;
    home = generation->HomeOf(key);
  }
  return const_cast<Bucket*>(&generation->buckets[home]);
}

inline BlockTable::Slot BlockTable::SlotOf(const Search& search) {
  Bucket* bucket = search.home;
  for (std::size_t probe = 0; probe < kMaxProbes; ++probe, ++bucket) {
    const unsigned slots = bucket->SlotsWith(search.key);
    if (slots != 0) return {bucket, static_cast<std::size_t>(std::countr_zero(slots))};
    if (!bucket->IsPassed()) break;
  }
  return {};
}

template <typename Update>
std::size_t BlockTable::Sweep(std::size_t bucket_count, Update& update) {
  const std::size_t end = std::min(swept_ + bucket_count, current_->buckets.size());
  const std::size_t begin = swept_;
  for (; swept_ < end; ++swept_) {
    Bucket& bucket = current_->buckets[swept_];
    for (std::size_t i = 0; i < kSlots; ++i) {
      const Slot slot(&bucket, i);
      if (slot.key().load(std::memory_order_relaxed) < kFirstKey) continue;
      const Payload before = slot.payload();
      const Payload after = update(before);
      if (after == 0) {
        Erase(slot);
      } else if (after != before) {
        slot.SetPayload(after);
      }
    }
  }
  if (swept_ == current_->buckets.size()) swept_ = 0;
  return end - begin;
}

template <typename Update>
std::size_t BlockTable::Move(std::size_t bucket_count, Update& update) {
  const std::size_t begin = current_->moved.load(std::memory_order_relaxed);
  const std::size_t end = std::min(begin + std::max(bucket_count, kMovedHomes), current_->home_count);
  std::size_t bucket = begin;
  for (; bucket < end; ++bucket) MoveFrom(current_->buckets[bucket], begin, end, update);
  // The entries of the last homes may have passed the end.
  for (; bucket < current_->buckets.size() && current_->buckets[bucket - 1].IsPassed(); ++bucket) {
    MoveFrom(current_->buckets[bucket], begin, end, update);
  }
  SetMoved(end);
  return std::min(bucket_count, end - begin);
}

template <typename Update>
void BlockTable::MoveFrom(Bucket& bucket, std::size_t begin, std::size_t end, Update& update) {
  for (std::size_t i = 0; i < kSlots; ++i) {
    const Slot slot(&bucket, i);
    const Key key = slot.key().load(std::memory_order_relaxed);
    if (key < kFirstKey) continue;
    const std::size_t home = current_->HomeOf(key);
    if (home < begin || home >= end) continue;
    --size_;
    const Payload payload = update(slot.payload());
    if (payload == 0) continue;
    // The new table is far from full, so it has room near every home, unless an attacker knows the seed.
    ROOST_CHECK(InsertAt(&next_->buckets[next_->HomeOf(key)], key, payload), "{} entries", size_);
  }
}

}  // namespace roost::router
