#include "worker/link/snapshot_mirror.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/check.h"

namespace roost::worker {
namespace {

// The distance in slots at which the packing prefetches the table, whose places are random.
constexpr std::uint32_t kPrefetchDistance = 16;

}  // namespace

SnapshotMirror::SnapshotMirror(std::uint32_t block_count, Set set)
    : set_(set),
      log_(block_count + block_count / 2 + 1, block_count),
      positions_(log_.keys().size()),
      places_(log_.keys().size(), Place::kGone) {}

void SnapshotMirror::Apply(std::span<const wire::CacheEvent> events) {
  using Kind = wire::CacheEvent::Kind;
  for (const wire::CacheEvent& event : events) {
    const bool is_of_disk = event.kind == Kind::kDiskStored || event.kind == Kind::kDiskRemoved;
    if (is_of_disk != (set_ == Set::kDisk)) continue;
    switch (event.kind) {
      case Kind::kStored: Store(event.stored); break;
      case Kind::kRemoved: RemoveAll(event.removed); break;
      case Kind::kResumable:
        for (const BlockHash hash : event.resumable) AddResumable(hash);
        break;
      case Kind::kUnresumable:
        for (const BlockHash hash : event.unresumable) DropResumable(hash);
        break;
      case Kind::kDiskStored: Store(event.disk_stored); break;
      case Kind::kDiskRemoved: RemoveAll(event.disk_removed); break;
    }
  }
}

void SnapshotMirror::RemoveAll(std::span<const BlockHash> hashes) {
  for (const BlockHash hash : hashes) Remove(hash);
}

void SnapshotMirror::Assign(std::span<const wire::StoredRun> runs, std::span<const BlockHash> resumable) {
  for (std::uint32_t slot = 0; slot < top_; ++slot) {
    if (places_[slot] != Place::kGone) Remove(log_.key(slot));
  }
  top_ = 0;
  for (const wire::StoredRun& run : runs) Store(run);
  for (const BlockHash hash : resumable) AddResumable(hash);
}

std::vector<wire::StoredRun> SnapshotMirror::Snapshot() const {
  std::vector<wire::StoredRun> runs;
  runs.reserve(static_cast<std::size_t>(std::count(places_.begin(), places_.end(), Place::kFirst)));
  for (std::uint32_t slot = 0; slot < top_;) {
    if (places_[slot] == Place::kGone) {
      ++slot;
      continue;
    }
    const std::uint32_t end = EndOfRun(slot);
    wire::StoredRun& run = runs.emplace_back();
    run.first_position = positions_[slot];
    run.hashes.assign(log_.keys().begin() + slot, log_.keys().begin() + end);
    slot = end;
  }
  return runs;
}

std::uint32_t SnapshotMirror::EndOfRun(std::uint32_t slot) const {
  do {
    ++slot;
  } while (slot < top_ && places_[slot] == Place::kContinues);
  return slot;
}

void SnapshotMirror::Store(const wire::StoredRun& run) {
  Place place = Place::kFirst;
  std::uint32_t position = run.first_position;
  for (const BlockHash hash : run.hashes) {
    ROOST_CHECK(!log_.Find(hash), "block {} is stored twice", hash.ToHex());
    if (top_ == places_.size()) Pack();
    log_.Put(top_, hash);
    positions_[top_] = position++;
    places_[top_] = place;
    place = Place::kContinues;
    digest_ = digest_ ^ hash;
    ++top_;
  }
}

void SnapshotMirror::Remove(BlockHash hash) {
  const std::optional<std::uint32_t> slot = log_.Find(hash);
  ROOST_CHECK(slot, "block {} is removed and was not there", hash.ToHex());
  log_.Erase(*slot);
  places_[*slot] = Place::kGone;
  digest_ = digest_ ^ hash;
  if (!resumable_.empty()) DropResumable(hash);
}

void SnapshotMirror::AddResumable(BlockHash hash) {
  ROOST_CHECK(log_.Find(hash), "block {} is resumable and not there", hash.ToHex());
  if (resumable_.insert(hash).second) resumable_digest_ = resumable_digest_ ^ hash;
}

void SnapshotMirror::DropResumable(BlockHash hash) {
  if (resumable_.erase(hash) > 0) resumable_digest_ = resumable_digest_ ^ hash;
}

// Moves the blocks to the first slots, in their order.
void SnapshotMirror::Pack() {
  std::uint32_t packed = 0;
  Place before = Place::kGone;
  for (std::uint32_t slot = 0; slot < top_; ++slot) {
    Place place = std::exchange(places_[slot], Place::kGone);
    if (place == Place::kContinues && before == Place::kGone) place = Place::kFirst;
    before = place;
    if (place == Place::kGone) continue;
    if (slot + kPrefetchDistance < top_) log_.Prefetch(slot + kPrefetchDistance);
    if (slot != packed) log_.Move(slot, packed);
    positions_[packed] = positions_[slot];
    places_[packed] = place;
    ++packed;
  }
  top_ = packed;
}

}  // namespace roost::worker
