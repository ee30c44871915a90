#include "router/fleet/workers/view_sync.h"

#include <algorithm>
#include <limits>

namespace roost::router {

void ResumableBlocks::Add(std::span<const BlockHash> hashes) {
  for (const BlockHash hash : hashes) {
    if (blocks_.insert(hash).second) digest_ = digest_ ^ hash;
  }
}

void ResumableBlocks::Drop(std::span<const BlockHash> hashes) {
  for (const BlockHash hash : hashes) {
    if (blocks_.erase(hash) > 0) digest_ = digest_ ^ hash;
  }
}

void ResumableBlocks::Clear() {
  blocks_.clear();
  digest_ = BlockHash();
}

std::uint32_t ResumableBlocks::LastBefore(std::span<const BlockHash> hashes, std::uint32_t most) const {
  if (blocks_.empty()) return 0;
  auto count = static_cast<std::uint32_t>(std::min<std::size_t>(most, hashes.size()));
  while (count > 0 && !blocks_.contains(hashes[count - 1])) --count;
  return count;
}

namespace {

bool Equals(const PrefixIndex::WorkerView& view, std::uint64_t block_count, BlockHash digest) {
  return view.digest == digest && view.block_count == block_count && view.indexed_block_count <= view.block_count;
}

bool IsWithin(const PrefixIndex::WorkerView& view, std::uint64_t most) {
  return std::max(view.block_count, view.indexed_block_count) <= most;
}

}  // namespace

ViewSync::ViewSync(PrefixIndex& index, WorkerSlot slot, Link link)
    : index_(index), slot_(slot), disk_(DiskOf(slot)), link_(link) {
  Empty();
}

ViewSync::~ViewSync() { Empty(); }

ViewSync::Outcome ViewSync::Apply(const wire::Step& step) {
  if (const Outcome outcome = TakeSequence(step.epoch, step.sequence); outcome != Outcome::kApplied) return outcome;
  if (phase_ == Phase::kSuspended || phase_ == Phase::kAwaiting) return Outcome::kApplied;
  for (const wire::CacheEvent& event : step.events) Apply(event);
  if (!IsPossible()) return LoseTrack();
  if (phase_ != Phase::kInSync) return Outcome::kApplied;
  const wire::Load& load = step.load;
  const bool equal = Equals(index_.View(slot_), load.cached_block_count, load.digest) &&
                     Equals(index_.View(disk_), load.disk_block_count, load.disk_digest) &&
                     (!link_.checkpoints || resumable_.digest() == load.resumable_digest);
  return equal ? Outcome::kApplied : LoseTrack();
}

ViewSync::Outcome ViewSync::Apply(const wire::Snapshot& chunk) {
  if (const Outcome outcome = TakeSequence(chunk.epoch, chunk.sequence); outcome != Outcome::kApplied) return outcome;
  if (phase_ == Phase::kSuspended) return Outcome::kApplied;
  if (chunk.chunk_index == 0) {
    Empty();
    phase_ = Phase::kReceiving;
  } else if (phase_ != Phase::kReceiving || chunk.chunk_index != next_chunk_) {
    return LoseTrack();
  }
  next_chunk_ = chunk.chunk_index + 1;
  for (const wire::StoredRun& run : chunk.runs) Store(run);
  for (const wire::StoredRun& run : chunk.disk_runs) StoreOnDisk(run);
  if (link_.checkpoints) resumable_.Add(chunk.resumable);
  if (!IsPossible()) return LoseTrack();
  if (chunk.last) phase_ = Phase::kInSync;
  return Outcome::kApplied;
}

void ViewSync::Begin(Phase phase) {
  Empty();
  phase_ = phase;
}

void ViewSync::Empty() {
  index_.Clear(slot_);
  index_.Clear(disk_);
  resumable_.Clear();
}

ViewSync::Outcome ViewSync::TakeSequence(std::uint64_t epoch, std::uint64_t sequence) {
  if (epoch != link_.epoch || sequence > next_sequence_) return Outcome::kLinkBroken;
  if (sequence < next_sequence_) return Outcome::kDuplicate;
  ++next_sequence_;
  return Outcome::kApplied;
}

void ViewSync::Apply(const wire::CacheEvent& event) {
  switch (event.kind) {
    case wire::CacheEvent::Kind::kStored: Store(event.stored); break;
    case wire::CacheEvent::Kind::kRemoved:
      index_.Remove(slot_, event.removed);
      removed_block_count_ += event.removed.size();
      if (link_.checkpoints) resumable_.Drop(event.removed);
      break;
    case wire::CacheEvent::Kind::kResumable:
      if (link_.checkpoints) resumable_.Add(event.resumable);
      break;
    case wire::CacheEvent::Kind::kUnresumable: resumable_.Drop(event.unresumable); break;
    case wire::CacheEvent::Kind::kDiskStored: StoreOnDisk(event.disk_stored); break;
    case wire::CacheEvent::Kind::kDiskRemoved: index_.Remove(disk_, event.disk_removed); break;
  }
}

void ViewSync::Store(const wire::StoredRun& run) {
  index_.Store(slot_, run.first_position, run.hashes);
  stored_block_count_ += run.hashes.size();
}

ViewSync::Outcome ViewSync::LoseTrack() {
  phase_ = Phase::kAwaiting;
  if (!IsPossible()) Empty();
  return Outcome::kWantSnapshot;
}

// The size of a disk is not told: a report can not count more.
bool ViewSync::IsPossible() const {
  return resumable_.size() <= link_.block_count && IsWithin(index_.View(slot_), link_.block_count) &&
         IsWithin(index_.View(disk_), std::numeric_limits<std::uint32_t>::max());
}

}  // namespace roost::router
