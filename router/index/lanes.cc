#include "router/index/lanes.h"

namespace roost::router {

std::optional<Lane> Lanes::Acquire(WorkerSlot worker) {
  for (std::uint32_t number = 0; number < kMaxLanes; ++number) {
    const Lane lane(number);
    const Note& note = notes_[number];
    if (OwnerOf(lane) || note.block_count > 0) continue;
    // A reader may still hold a value that refers to the lane's previous use.
    if (note.idle_since != 0 && !gate_.IsOver(note.idle_since)) continue;
    owners_[number].store(worker.value() + 1, std::memory_order_release);
    return lane;
  }
  return std::nullopt;
}

void Lanes::Retire(Lane lane) {
  Note& note = notes_[lane.value()];
  owners_[lane.value()].store(kNobody, std::memory_order_release);
  note.idle_since = gate_.now();
  retired_block_count_ += note.block_count;
}

void Lanes::DropBlock(Lane lane) {
  Note& note = notes_[lane.value()];
  --note.block_count;
  if (OwnerOf(lane)) return;
  note.idle_since = gate_.now();
  --retired_block_count_;
}

}  // namespace roost::router
