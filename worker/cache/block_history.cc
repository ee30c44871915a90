#include "worker/cache/block_history.h"

#include "common/base/prefetch.h"
#include "common/base/rng.h"

namespace roost::worker {
namespace {

constexpr std::uint32_t kSlotsPerBlock = 2;
constexpr std::uint32_t kLowByte = 0xFF;
constexpr std::uint32_t kTimeMask = (1U << BlockHistory::kTimeBits) - 1;

// Three parts of the mixed key have separate uses: the highest bits choose the bucket, the next bits are the name, the
// lowest bits choose the sample.
std::uint64_t Mixed(std::uint64_t key) { return Mix64(key + 0x9e3779b97f4a7c15ULL); }
std::uint32_t NameIn(std::uint64_t mixed) { return static_cast<std::uint32_t>(mixed >> 4U) & ~kLowByte; }

}  // namespace

BlockHistory::BlockHistory(std::uint32_t block_count)
    : bucket_count_((std::size_t{block_count} * kSlotsPerBlock + kBucketSlots - 1) / kBucketSlots + 1),
      slots_(bucket_count_ * kBucketSlots) {}

bool BlockHistory::Samples(std::uint64_t key) { return Mixed(key) % kSampleRate == 0; }

std::size_t BlockHistory::BucketOf(std::uint64_t mixed) const {
  return static_cast<std::size_t>((static_cast<unsigned __int128>(mixed) * bucket_count_) >> 64U) * kBucketSlots;
}

void BlockHistory::Prefetch(std::uint64_t key) const { roost::Prefetch(&slots_[BucketOf(Mixed(key))]); }

std::optional<BlockHistory::Entry> BlockHistory::Find(std::uint64_t key) const {
  const std::uint64_t mixed = Mixed(key);
  const std::size_t bucket = BucketOf(mixed);
  for (std::size_t i = bucket; i < bucket + kBucketSlots; ++i) {
    const Slot& slot = slots_[i];
    const std::uint32_t visits = slot.time_and_visits & kLowByte;
    if (visits == 0 || (slot.name_and_class & ~kLowByte) != NameIn(mixed)) continue;
    return Entry{.time = slot.time_and_visits >> 8U,
                 .reuse_class = static_cast<std::uint8_t>(slot.name_and_class & kLowByte),
                 .visits = static_cast<std::uint8_t>(visits)};
  }
  return std::nullopt;
}

// The slot that has the key already, else an empty one, else the oldest.
std::size_t BlockHistory::SlotToReplace(std::size_t bucket, std::uint32_t name, std::uint32_t time) const {
  std::size_t oldest = bucket;
  std::uint32_t oldest_age = 0;
  for (std::size_t i = bucket; i < bucket + kBucketSlots; ++i) {
    const Slot& slot = slots_[i];
    const bool empty = (slot.time_and_visits & kLowByte) == 0;
    if (!empty && (slot.name_and_class & ~kLowByte) == name) return i;
    const std::uint32_t age = empty ? kTimeMask + 1 : (time - (slot.time_and_visits >> 8U)) & kTimeMask;
    if (age < oldest_age) continue;
    oldest = i;
    oldest_age = age;
  }
  return oldest;
}

void BlockHistory::Store(std::uint64_t key, const Entry& entry) {
  const std::uint64_t mixed = Mixed(key);
  const std::uint32_t name = NameIn(mixed);
  slots_[SlotToReplace(BucketOf(mixed), name, entry.time)] = {.name_and_class = name | entry.reuse_class,
                                                              .time_and_visits = entry.time << 8U | entry.visits};
}

}  // namespace roost::worker
