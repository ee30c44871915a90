// The blocks that became ready and those that were evicted since the last TakeTo. Entries are stored flat, in memory
// that is reused, so a step that stores and evicts blocks needs no heap allocation. TakeTo turns them into events with
// lists.
//
//   entry:  stored 17 │ stored 18 │ removed 9 │ removed 8 │ stored 19 │ stored 40
//   joins:            │ yes       │           │ yes       │           │
//   event:  stored 17, 18         │ removed 9, 8          │ stored 19 │ stored 40
//
// Not thread-safe. Every operation is O(1), TakeTo O(entries).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/prefix/block_hash.h"
#include "common/wire/messages.h"

namespace roost::worker {

class EventLog {
 public:
  // The block at `position` (in blocks from the root) is ready. It joins the previous entry's event if that entry is
  // its parent.
  void AddStored(BlockHash hash, std::uint32_t position, std::optional<BlockHash> parent);
  // A block was evicted. It joins the event of a removal right before it.
  void AddRemoved(BlockHash hash);

  // Moves all entries to the end of `events`, in order.
  void TakeTo(std::vector<wire::CacheEvent>& events);

 private:
  using Kind = wire::CacheEvent::Kind;

  struct Entry {
    BlockHash hash;
    std::uint32_t position = 0;  // of a stored block
    Kind kind = Kind::kStored;
    bool joins = false;  // it is part of the previous entry's event
  };

  std::vector<Entry> entries_;
};

}  // namespace roost::worker
