#include "router/fleet/workers/view_sync.h"

#include <algorithm>

namespace roost::router {

ViewSync::ViewSync(PrefixIndex& index, WorkerSlot slot, Link link) : index_(index), slot_(slot), link_(link) {
  index_.Clear(slot_);
}

ViewSync::~ViewSync() { index_.Clear(slot_); }

ViewSync::Outcome ViewSync::Apply(const wire::Step& step) {
  if (const Outcome outcome = TakeSequence(step.epoch, step.sequence); outcome != Outcome::kApplied) return outcome;
  if (phase_ == Phase::kSuspended || phase_ == Phase::kAwaiting) return Outcome::kApplied;
  for (const wire::CacheEvent& event : step.events) Apply(event);
  if (!FitsPool()) return LoseTrack();
  if (phase_ != Phase::kInSync) return Outcome::kApplied;
  const PrefixIndex::WorkerView view = index_.View(slot_);
  const bool equal = view.digest == step.load.digest && view.block_count == step.load.cached_block_count &&
                     view.indexed_block_count <= view.block_count;
  return equal ? Outcome::kApplied : LoseTrack();
}

ViewSync::Outcome ViewSync::Apply(const wire::Snapshot& chunk) {
  if (const Outcome outcome = TakeSequence(chunk.epoch, chunk.sequence); outcome != Outcome::kApplied) return outcome;
  if (phase_ == Phase::kSuspended) return Outcome::kApplied;
  if (chunk.chunk_index == 0) {
    index_.Clear(slot_);
    phase_ = Phase::kReceiving;
  } else if (phase_ != Phase::kReceiving || chunk.chunk_index != next_chunk_) {
    return LoseTrack();
  }
  next_chunk_ = chunk.chunk_index + 1;
  for (const wire::StoredRun& run : chunk.runs) Store(run);
  if (!FitsPool()) return LoseTrack();
  if (chunk.last) phase_ = Phase::kInSync;
  return Outcome::kApplied;
}

void ViewSync::Begin(Phase phase) {
  index_.Clear(slot_);
  phase_ = phase;
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
      break;
    case wire::CacheEvent::Kind::kResumable:
    case wire::CacheEvent::Kind::kUnresumable: break;
  }
}

void ViewSync::Store(const wire::StoredRun& run) {
  index_.Store(slot_, run.first_position, run.hashes);
  stored_block_count_ += run.hashes.size();
}

ViewSync::Outcome ViewSync::LoseTrack() {
  phase_ = Phase::kAwaiting;
  if (!FitsPool()) index_.Clear(slot_);
  return Outcome::kWantSnapshot;
}

bool ViewSync::FitsPool() const {
  const PrefixIndex::WorkerView view = index_.View(slot_);
  return std::max(view.block_count, view.indexed_block_count) <= link_.block_count;
}

}  // namespace roost::router
